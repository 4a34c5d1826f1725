"""What nobody should read off a screen, and the one place that masks it: fields by their names, and values in texts.

In a text only what follows a well-known name is masked (`password: …`, `token=…`, `Authorization: Bearer …`), and the
passwords of URLs. It is for what is shown and exported: nothing that is written to a server goes through here.
"""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"
# The end of a field's name, in lower case and without what separates words: `userPassword`, `x-api-key`, `DB_TOKEN`.
_SECRET: Final = re.compile(
    r"(passwords?|passwd|pwd|passphrase|secrets?|secretkey|tokens?|authorization|apikeys?|accesskeys?|privatekeys?"
    r"|credentials?|cookies?|sessionid|signature)$"
)
_SEPARATORS: Final = re.compile(r"[\s_.-]+")
_IN_URL: Final = re.compile(r"(?<=://)([^\s/@:]*):[^\s/@]+(?=@)")
# One of these is in every name below: most texts have none, and looking for them is quick.
_HINTS: Final = ("pass", "pwd", "secret", "token", "key", "authoriz", "bearer", "cookie", "session", "credential",
                 "signature")  # fmt: skip
_SIGNS: Final = (":", "=", "__token__", "earer ", "earer\t", "EARER ", "EARER\t")  # without any there is no value
# A name, the end of its quotes, and what stands between it and its value. Every part is bounded, so that a search takes
# time in proportion to the text. `token:token` is how VMPooler names a field.
_NAMED: Final = re.compile(
    r"(?P<lone>vmpooler__token__)"
    r"|(?P<bearer>[bB](?:earer|EARER)[ \t]{1,4}(?=[A-Za-z0-9._~+/=-]{16}))"
    r"|(?:(?P<phrase>passwords?|passwd|pwd|passphrases?|(?<=[_-])pass|secrets?)"
    r"|(?P<line>cookie)"
    r"|(?P<code>token:token|tokens?|(?:api|access|private|secret)[ _-]?keys?|session[ _-]?id|signature|credentials?"
    r"|authorization))"
    r"\\{0,3}[\"'`]?\]?[ \t]{0,8}(?P<sign>=>|:=|={1,3}|::?)[ \t]{0,8}",
    re.IGNORECASE | re.ASCII,
)
_OPENING: Final = re.compile(r"[bBuUrR]{0,2}(\\{0,3})([\"'`])")
_SCHEME: Final = re.compile(
    r"(?:bearer|basic|token|negotiate|ntlm|apikey|jwt|oauth|key)[ \t]{1,8}(?=\S)", re.IGNORECASE
)
_LONG_SCHEME: Final = re.compile(r"(?:digest|hawk|signature|aws4-hmac-sha256)[ \t]{1,8}(?=\S)", re.IGNORECASE)
_TO_THE_END: Final = re.compile(r"[^\r\n]+")
_WORD: Final = re.compile(r"[^\s,;&\"'`<>(){}\[\]]+")
# A phrase that somebody chose may hold any sign, so it goes to the next blank.
_SHAPES: Final = {"lone": _WORD, "bearer": _WORD, "phrase": re.compile(r"\S+"), "line": _TO_THE_END, "code": _WORD}
_TRAILING: Final = ",;.)}]>\"'`"
_NO_VALUES: Final = frozenset(("none", "null", "nil", "undefined", "true", "false", MASK))
_LONGEST_NONE: Final = 20
_FARTHEST: Final = 65_536  # characters until the end of a quoted value, which may be several lines


def is_secret(name: str) -> bool:
    """Whether a field of this name holds something that nobody should read off a screen."""
    return _SECRET.search(_SEPARATORS.sub("", name).lower()) is not None


def may_hold_secrets(raw: bytes) -> bool:
    """Whether there may be something to mask in these bytes: quick, and true rather too often."""
    # Filters ask this of a million payloads. A text is looked through four times as fast as bytes, and a loop takes
    # half the time of `any`.
    low = raw.lower().decode("latin-1")
    for hint in _HINTS:
        if hint in low:
            return True
    return "://" in low


def mask_text(text: str) -> str:
    """A text with the passwords of the URLs in it replaced, and with them the values after well-known names."""
    for sign in _SIGNS:
        if sign in text:
            break
    else:
        return text
    if "://" in text:
        text = _IN_URL.sub(rf"\1:{MASK}", text)
    low = text.lower()
    for hint in _HINTS:
        if hint in low:
            return _mask_named(text)
    return text


def _mask_named(text: str) -> str:
    parts: list[str] = []
    done = 0
    found = _NAMED.search(text)
    while found is not None:
        start, end = _value(text, found)
        if start < end:
            parts += (text[done:start], MASK)
            done = end
        found = _NAMED.search(text, max(end, found.end()))
    return "".join((*parts, text[done:])) if parts else text


def _value(text: str, found: re.Match[str]) -> tuple[int, int]:
    """From where to where the value after a name goes; empty where there is nothing that anybody has to hide."""
    at = found.end()
    kind = next(kind for kind in _SHAPES if found[kind] is not None)
    if text[max(0, found.start() - 11) : found.start()].lower() == "unexpected ":
        return at, at  # what parsers say
    if found["sign"] == ":" and text.startswith("//", at):
        return at, at  # a URL
    opening = _OPENING.match(text, at)
    if opening is not None:
        start = opening.end()
        end = _closing(text, start, opening[2], len(opening[1]))
        return start, start if _is_no_value(text[start:end]) else end
    if kind == "code" and _LONG_SCHEME.match(text, at) is not None:
        kind = "line"
    elif kind == "code" and (scheme := _SCHEME.match(text, at)) is not None:
        at = scheme.end()
    value = _SHAPES[kind].match(text, at)
    word = "" if value is None else value[0].rstrip(_TRAILING if kind == "phrase" else None)
    name = (found["phrase"] or found["code"] or "").lower()
    is_path = name == "pwd" and word.startswith("/")
    is_count = name == "tokens" and word.isdigit()
    return at, at if is_path or is_count or _is_no_value(word) else at + len(word)


def _is_no_value(word: str) -> bool:
    return len(word) < _LONGEST_NONE and word.lower() in _NO_VALUES


def _closing(text: str, start: int, quote: str, slashes: int) -> int:
    """Where a quoted value ends; one that was cut off ends with its line."""
    at = start
    while (at := text.find(quote, at, start + _FARTHEST)) >= 0:
        before = at
        while before > start and text[before - 1] == "\\":
            before -= 1
        count = at - before
        if count <= slashes if slashes else count % 2 == 0:
            return before if slashes else at
        at += 1
    line = _TO_THE_END.match(text, start)
    return start if line is None else line.end()
