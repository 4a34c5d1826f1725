"""Where in a text the value after the name of a secret begins and ends."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final

from qdeck._deck.masking import MASK, custom_hints, is_secret

if TYPE_CHECKING:
    from collections.abc import Callable

# Who logs in, and the password, which goes to the last `@` before the path.
_IN_URL: Final = re.compile(r"(?<=://)([^\s/@:\"'<>]*)(:[^\s/\"'<>]*)?(?=@)")
_LONG_LOGIN: Final = 20  # a login that is so long is a token
_IN_QUERY: Final = re.compile(r"(?<=[?&])((?:pass|pw|sig|auth)=|key=(?=[^\s&\"'<>]{16}))[^\s&\"'<>]+", re.IGNORECASE)
_PRIVATE_KEY: Final = re.compile(r"(-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----)(?:(?!-----)[\s\S]){1,65536}")
_ELEMENT: Final = re.compile(
    r"(<[\w:.-]{0,30}?(?:password|passwd|passphrase|secret|token|(?:api|access|secret)[_-]?key)(?:\s[^<>]{0,200})?>)"
    r"[^<]+(?=</)",
    re.IGNORECASE,
)
# What is in every name of a secret, the rest of the name, the end of its quotes, and what stands between it and its
# value. Every part is bounded and gives nothing back, so that a search takes time in proportion to the text. Whether
# the whole name is that of a secret is for `is_secret` to say. `token:token` is how VMPooler names a field.
_CORES: Final = "token:token|pass|pwd|secret|token|key|auth|cookie|credential|signature|jwt|pin|otp|cvv|cvc|pw"


def _named(more: tuple[str, ...]) -> re.Pattern[str]:
    cores = "|".join((*map(re.escape, more), _CORES))
    return re.compile(
        r"(?P<lone>vmpooler__token__)"
        r"|(?P<bearer>[bB](?:earer|EARER)[ \t]{1,4}(?=[A-Za-z0-9._~+/=-]{16}))"
        r"|(?P<basic>\bbasic[ \t]{1,4}(?=[A-Za-z0-9+/]{4}))"
        rf"|(?P<core>{cores})(?P<rest>[a-z0-9_.$-]{{0,40}}+)"
        r"\\{0,3}+[\"'`]?+\]?+[ \t]{0,8}+(?P<sign>=>|:=|={1,3}|::?)[ \t]{0,8}",
        re.IGNORECASE | re.ASCII,
    )


_NAMED = _named(custom_hints())
_BEFORE: Final = re.compile(r"[A-Za-z0-9_.$-]*+")  # backwards: the name up to there
_BEFORE_KEY: Final = re.compile(r"[A-Za-z0-9_.$-]++| [A-Za-z]{1,12}+|")  # of `API key`, too
_PHRASES: Final = frozenset(("pass", "pwd", "secret", "pin", "otp", "cvv", "cvc", "pw"))
_ROW: Final = re.compile(
    r"\\{0,3}[\"'](?:name|key|field|header|variable|param|parameter|env)\\{0,3}[\"']\s{0,4}+:\s{0,4}+\\{0,3}[\"']"
    r"(?P<name>[\w .$-]{1,64}+)\\{0,3}[\"'],\s{0,20}+\\{0,3}[\"'](?:value|val|content|default|data)\\{0,3}[\"']"
    r"\s{0,4}+:\s{0,4}+",
    re.IGNORECASE | re.ASCII,
)
# How programs take a password without a name for it: the word of the program, the flag, and what stands before it.
_GAP: Final = r"(?:[ \t=]{1,4}|\\{0,3}[\"'],[ \t]{0,8})\\{0,3}[\"']?"
_COMMANDS: Final = (
    (
        ("curl",),
        re.compile(rf"(?<![\w-])(?:-u|-U|--user|--proxy-user)(?:{_GAP})?+[^\s:\"'\\=]{{0,64}}:(?P<value>[^\s\"'\\]+)"),
    ),
    (("mysql", "maria"), re.compile(r"(?<![\w-])-p[\"']?(?P<value>[^\s\"'\\,-][^\s\"'\\]*)")),
    (("sshpass", "docker login"), re.compile(rf"(?<![\w-])-p(?:{_GAP})?+(?P<value>[^\s\"'\\,-][^\s\"'\\]*)")),
    (("redis-cli",), re.compile(rf"(?<![\w-])-a{_GAP}(?P<value>[^\s\"'\\]+)")),
)  # fmt: skip
# A name and its value as two words of a command line, or as two texts of a list: of those only what is surely a pair.
_NEXT: Final = r"\\{0,3}[\"'],[ \t\r\n]{0,8}(?=[bBuU]?\\{0,3}[\"'])"
_PAIR: Final = re.compile(
    r"(?:--[a-z0-9_-]{0,30}?(?:passwords?|passwd|passphrase|secret|token|(?:api|access|private|secret|auth)[_-]?key"
    rf"|credentials?)(?:[ \t]{{1,4}}(?=[^\s-])|{_NEXT})"
    r"|[\"'](?:(?:proxy-)?authorization|(?:set-)?cookie|x-[a-z-]{0,30}?(?:token|key))" + _NEXT + ")",
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
_SHAPES: Final = {"phrase": re.compile(r"\S+"), "line": _TO_THE_END, "code": _WORD}
_TRAILING: Final = ",;.)}]>\"'`"
_NO_VALUES: Final = frozenset(("none", "null", "nil", "undefined", "true", "false", MASK))
# What errors say of a secret, where it has no quotes.
_SAID: Final = frozenset((
    "required", "missing", "invalid", "expired", "empty", "wrong", "incorrect", "denied", "refused", "rejected",
    "unknown", "failed", "mismatch", "too", "not", "must", "cannot", "is", "was", "are", "has", "may", "to", "or",
    "and", "option", "flag", "argument", "requires", "needs", "no", "such",
))  # fmt: skip
_LONGEST_NONE: Final = 20
_LONG_NUMBER: Final = 4  # digits: less of them count what passed
_FARTHEST: Final = 65_536  # characters until the end of a quoted value, which may be several lines


def mask_urls(text: str) -> str:
    """A text without the passwords of its URLs, nor what signs them."""
    return _IN_QUERY.sub(rf"\1{MASK}", _IN_URL.sub(_login, text))


def _login(found: re.Match[str]) -> str:
    login, password = found[1], found[2] or ""
    return (MASK if len(login) >= _LONG_LOGIN else login) + (f":{MASK}" if len(password) > 1 else password)


def look_for(more: tuple[str, ...]) -> None:
    """Look for these parts of names as well."""
    global _NAMED  # noqa: PLW0603 - made anew when the configuration is read
    _NAMED = _named(more)


def mask_named(text: str, low: str) -> str:
    """A text without the values that stand after well-known names; `low` is the text in lower case."""
    for words, pattern in _COMMANDS:
        if any(word in low for word in words):
            text = _masked(text, pattern, _argument)
    if "-----BEGIN" in text:
        text = _PRIVATE_KEY.sub(rf"\1{MASK}", text)
    if "</" in text:
        text = _ELEMENT.sub(rf"\1{MASK}", text)
    if "--" in text or "'," in text or '",' in text:
        text = _masked(text, _PAIR, _paired)
        if ":" in text:
            text = _masked(text, _ROW, _of_row)
    return _masked(text, _NAMED, _value)


def _argument(_text: str, found: re.Match[str]) -> tuple[int, int]:
    return found.span("value")


def _of_row(text: str, found: re.Match[str]) -> tuple[int, int]:
    """From where to where the value goes whose name is a value itself."""
    return _paired(text, found) if is_secret(found["name"]) else (found.end(), found.end())


def _name(text: str, found: re.Match[str]) -> str:
    """The whole name that was found a part of; `API key` is one, too."""
    start = found.start("core")
    pattern = _BEFORE_KEY if found["core"].lower() == "key" else _BEFORE
    before = pattern.match(text[max(0, start - 64) : start][::-1])
    name = (before[0] if before else "")[::-1] + found["core"] + found["rest"]
    return name.removesuffix(":token")


def _kind(core: str, name: str) -> str:
    """How far a value of that name goes."""
    if core == "cookie":
        return "line"
    return "phrase" if core in _PHRASES and not name.rstrip("0123456789").endswith(("key", "keys", "token")) else "code"


def _is_basic(text: str, at: int) -> bool:
    """Whether the name and the password of HTTP's basic scheme stand there."""
    word = _WORD.match(text, at)
    try:
        return word is not None and b":" in base64.b64decode(word[0][:400] + "=" * (-len(word[0][:400]) % 4))
    except ValueError:
        return False


def _masked(text: str, names: re.Pattern[str], value_of: Callable[[str, re.Match[str]], tuple[int, int]]) -> str:
    parts: list[str] = []
    done = 0
    found = names.search(text)
    while found is not None:
        start, end = value_of(text, found)
        if start < end:
            parts += (text[done:start], MASK)
            done = end
        found = names.search(text, max(end, found.end()))
    return "".join((*parts, text[done:])) if parts else text


def _paired(text: str, found: re.Match[str]) -> tuple[int, int]:
    """From where to where the value goes that is the next word, or the next text of a list."""
    at = found.end()
    opening = _OPENING.match(text, at)
    if opening is not None:
        return opening.end(), _closing(text, opening.end(), opening[2], len(opening[1]))
    value = _SHAPES["phrase"].match(text, at)
    word = "" if value is None else value[0].rstrip(_TRAILING)
    return at, at if _is_no_value(word) or word.lower() in _SAID else at + len(word)


def _value(text: str, found: re.Match[str]) -> tuple[int, int]:
    """From where to where the value after a name goes; empty where there is nothing that anybody has to hide."""
    at = found.end()
    core = found["core"]
    if core is None:
        token = None if found["basic"] is not None and not _is_basic(text, at) else _WORD.match(text, at)
        return at, at if token is None or _is_no_value(token[0]) else token.end()
    name = _name(text, found)
    if not is_secret(name) or text.startswith("etc/", found.start() - 4):
        return at, at
    name = name.lower()
    kind = _kind(core.lower(), name)
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
    is_path = name == "pwd" and word.startswith("/")
    is_count = word.isdigit() and (name.endswith("tokens") or (name.endswith("pass") and len(word) < _LONG_NUMBER))
    is_said = found["sign"] == ":" and word.rstrip(_TRAILING).lower() in _SAID
    return at, at if is_path or is_count or is_said or _is_no_value(word) else at + len(word)


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
