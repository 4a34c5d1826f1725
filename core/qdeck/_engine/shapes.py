"""As what a dead letter is counted: its error class, and the shape that messages of one kind share."""

from __future__ import annotations

import re
from typing import Final

import msgspec

LONGEST: Final = 120
_LONGEST_CLASS: Final = 200
LOOKED_AT: Final = 1000  # characters of a message

# What differs from one message to the next of the same kind: in a URL who logs in and what is behind the host, quoted
# text, ids, addresses in memory, numbers.
VARIES: Final = re.compile(
    r"""(?P<url>(?<=://)[^\s/'"`]+/[^\s'"`]+)"""
    r"""|(?P<login>(?<=://)[^\s/@]*@)"""
    r"""|(?P<quoted>'[^'\n]*'|"[^"\n]*"|`[^`\n]*`|«[^»\n]*»|“[^”\n]*”)"""
    r"""|(?P<id>\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"""
    r"""|\b0[xX][0-9a-fA-F]+\b"""
    r"""|(?<![A-Za-z0-9])(?=[a-fA-F]*[0-9])(?=[0-9]*[a-fA-F])[0-9a-fA-F]{8,}(?![A-Za-z0-9])"""
    r"""|(?<![A-Za-z0-9])(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{12,}(?![A-Za-z0-9]))"""
    r"""|(?P<number>(?<![A-Za-z0-9])[+-]?[0-9]+(?:[.,:][0-9]+)*)"""
)
_STANDS_FOR: Final = {"login": "…@", "quoted": "'…'", "id": "#", "number": "N"}
# What the scripts write themselves: class and shape are fixed there.
_FIXED: Final = {"WorkerCrashed": "its worker died with it", "Outage": "its worker was lost with many others"}
_DEPENDENCY: Final = re.compile(r"job \S+ is (\S+)")
_CLASS_OF: Final = {"failed": "Error", "timeout": "TimeLimitExceeded", "crashed": "WorkerCrashed", "buried": "Buried"}


class _Told(msgspec.Struct):
    class_: str | None = msgspec.field(default=None, name="class")
    message: str | None = None
    reason: str | None = None
    by: str | None = None


_decode_told: Final = msgspec.json.Decoder(_Told).decode


def shape(message: str | None) -> str:
    """The message without what differs from case to case: quoted text is `'…'`, a path `…`, an id `#`, a number `N`."""
    if not message:
        return ""
    if len(message) > LOOKED_AT:
        # Not amid a word: half a URL would show its password.
        message = (message[:LOOKED_AT].rsplit(None, 1) or [""])[0]
    folded = " ".join(VARIES.sub(_fold, message).split())
    return folded if len(folded) <= LONGEST else folded[: LONGEST - 1] + "…"


def _fold(found: re.Match[str]) -> str:
    if found.lastgroup == "url":
        login, _, host = found[0].partition("/")[0].rpartition("@")
        return f"{_STANDS_FOR['login'] if login else ''}{VARIES.sub(_fold, host)}/…"
    return _STANDS_FOR[found.lastgroup or "number"]


def shape_of(error: str, message: str | None) -> str:
    """The shape that a message has in the groups of dead letters, given the class of its error."""
    if error == "DependencyFailed":
        found = _DEPENDENCY.fullmatch(message or "")
        return f"job # is {found[1]}" if found else shape(message)
    return _FIXED[error] if error in _FIXED else shape(message)


def group_of(kind: str, event: bytes) -> str:
    """Class and shape of what an event tells, a line each; `kind` stands for a class where it names none."""
    try:
        told = _decode_told(event)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        told = _Told()
    error = (told.class_ or "").rpartition(".")[2] or _CLASS_OF.get(kind, kind)
    error = " ".join(error[:_LONGEST_CLASS].split())
    message = told.message
    if message is None and kind == "buried":
        message = f"{told.reason or kind} by {told.by}" if told.by else told.reason
    return f"{error}\n{shape_of(error, message)}"
