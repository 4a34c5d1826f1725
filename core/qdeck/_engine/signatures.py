"""Signatures of dead letters: the error class, and the pattern that similar messages share."""

from __future__ import annotations

import hashlib
import re
from typing import Final

import msgspec

MAX_PATTERN: Final = 120
_LONGEST_CLASS: Final = 200
MAX_READ: Final = 1000  # characters of a message that are read

# What differs between messages of one failure: in a URL the login and what is behind the host, quoted
# text, ids, addresses in memory, numbers, and the counter of a name (`centos-7-v1`). The status of an HTTP response is
# what the failure is, so it stays: `404 for 7` and `500 for 7` are two.
VARIABLE_PARTS: Final = re.compile(
    r"""(?P<url>(?<=://)[^\s/'"`]+/[^\s'"`]+)"""
    r"""|(?P<login>(?<=://)[^\s/@]*@)"""
    r"""|(?P<quoted>'[^'\n]*'|"[^"\n]*"|`[^`\n]*`|«[^»\n]*»|“[^”\n]*”)"""
    r"""|(?P<id>\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"""
    r"""|\b0[xX][0-9a-fA-F]+\b"""
    r"""|(?<![A-Za-z0-9])(?=[a-fA-F]*[0-9])(?=[0-9]*[a-fA-F])[0-9a-fA-F]{8,}(?![A-Za-z0-9])"""
    r"""|(?<![A-Za-z0-9])(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{12,}(?![A-Za-z0-9]))"""
    r"""|(?P<status>(?:\A[45][0-9]{2}(?=:|\Z| (?:for|from|on|at|by|in)\b| [A-Z])"""
    r"""|(?:(?<=HTTP )|(?<=/1\.[01] )|(?<=status )|(?<=status: )|(?<=code )|(?<=code: )|(?<=[Ee]rror )"""
    r"""|(?<=[Ee]rror: ))[45][0-9]{2}(?=[ :,;)]|\Z)))"""
    r"""|(?P<number>(?<![A-Za-z0-9])[+-]?[0-9]+(?:[.,:][0-9]+)*|(?<=[-_][a-z])[0-9]+(?![A-Za-z0-9_-]))"""
)
_STANDS_FOR: Final = {"login": "…@", "quoted": "'…'", "id": "#", "number": "N"}
# Events that the scripts write: class and pattern are fixed there.
_FIXED: Final = {"WorkerCrashed": "its worker died with it", "Outage": "its worker was lost with many others"}
_DEPENDENCY: Final = re.compile(r"job \S+ is (\S+)")
_CLASS_OF: Final = {"failed": "Error", "timeout": "TimeLimitExceeded", "crashed": "WorkerCrashed", "buried": "Buried"}

DEPENDENCY_GROUPS: Final = frozenset(
    hashlib.sha1(f"DependencyFailed\njob # is {outcome}".encode(), usedforsecurity=False).hexdigest()[:10].encode()
    for outcome in ("dead", "cancelled", "discarded", "unknown")
)
"""The ids of the groups in which `bury` of the scripts counts jobs that died with a dependency."""


class _FailureEvent(msgspec.Struct):
    class_: str | None = msgspec.field(default=None, name="class")
    message: str | None = None
    reason: str | None = None
    by: str | None = None


_decode_event: Final = msgspec.json.Decoder(_FailureEvent).decode


def message_pattern(message: str | None) -> str:
    """Return a message without its variable parts: quoted text is `'…'`, a path `…`, an id `#`, a number `N`."""
    if not message:
        return ""
    if len(message) > MAX_READ:
        # Not inside a word: half a URL would show its password.
        message = (message[:MAX_READ].rsplit(None, 1) or [""])[0]
    folded = " ".join(VARIABLE_PARTS.sub(_fold, message).split())
    return folded if len(folded) <= MAX_PATTERN else folded[: MAX_PATTERN - 1] + "…"


def _fold(found: re.Match[str]) -> str:
    if found.lastgroup == "url":
        login, _, host = found[0].partition("/")[0].rpartition("@")
        return f"{_STANDS_FOR['login'] if login else ''}{VARIABLE_PARTS.sub(_fold, host)}/…"
    return found[0] if found.lastgroup == "status" else _STANDS_FOR[found.lastgroup or "number"]


def pattern_of(error: str, message: str | None) -> str:
    """Return the pattern of a message in the groups of dead letters, given the class of its error."""
    if error == "DependencyFailed":
        found = _DEPENDENCY.fullmatch(message or "")
        return f"job # is {found[1]}" if found else message_pattern(message)
    return _FIXED[error] if error in _FIXED else message_pattern(message)


def signature_of(kind: str, event: bytes) -> str:
    """Return class and pattern of a failure event, a line each; `kind` replaces a missing class."""
    try:
        failure = _decode_event(event)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        failure = _FailureEvent()
    error = (failure.class_ or "").rpartition(".")[2] or _CLASS_OF.get(kind, kind)
    error = " ".join(error[:_LONGEST_CLASS].split())
    message = failure.message
    if message is None and kind == "buried":
        message = f"{failure.reason or kind} by {failure.by}" if failure.by else failure.reason
    return f"{error}\n{pattern_of(error, message)}"
