"""Values after the names of secrets in a text: where each begins and ends."""

from __future__ import annotations

import base64
import functools
import re
from typing import TYPE_CHECKING, Final

from qdeck._model.masked_commands import mask_commands
from qdeck._model.secret_names import MASK, CustomNames, is_secret

if TYPE_CHECKING:
    from collections.abc import Callable

# The login, and the password, which ends at the last `@` before the path.
_IN_URL: Final = re.compile(r"(?<=://)([^\s/@:\"'<>]*)(:[^\s/\"'<>]*)?(?=@)")
_LONG_LOGIN: Final = 20  # a login that is so long is a token
# A password may hold a `/`, where no port can be meant.
_SLASHED: Final = re.compile(
    r"(?<=://)([^\s/@:\[\"'<>]{0,64}+):(?!\d{1,5}(?:[/?#\s]|$))[^\s/@\"'<>]{0,200}+/[^\s@\"'<>]{0,200}+(?=@[\w.\[-])"
)
# A login that stands before an address that is no URL.
_NO_URL: Final = re.compile(
    r"(?<![\w.$-])[\w.$-]{1,64}+:(?P<value>[^\s\"'@]{1,200})@(?=(?:tcp|unix)\()"
    r"|(?:\bsqlplus[ \t]{1,8}(?:-\w{1,8}[ \t]{1,8}){0,4}|:thin:)[\w.$#]{1,64}+/(?P<other>[^\s\"'@]{1,200})@"
)
_IN_QUERY: Final = re.compile(r"(?<=[?&])((?:pass|pw|sig|auth)=|key=(?=[^\s&\"'<>]{16}))[^\s&\"'<>]+", re.IGNORECASE)
_PRIVATE_KEY: Final = re.compile(r"(-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----)(?:(?!-----)[\s\S]){1,65536}")
# An element of XML; its own name, or an attribute, is the name of its content, and an attribute that of another one.
_ELEMENT: Final = re.compile(
    r"<(?P<name>[\w:.-]{1,60}+)(?P<attributes>(?:\s[^<>]{0,300}+)?+)>(?:\s{0,20}+<!\[CDATA\[)?+(?P<value>[^<\]]{1,65536}+)"
)
_ATTRIBUTE: Final = re.compile(
    r"\s(?:name|key|id|property)=\\{0,31}[\"'](?P<name>[\w:.$-]{1,100}+)\\{0,31}[\"']", re.IGNORECASE
)
_ATTRIBUTES: Final = re.compile(_ATTRIBUTE.pattern + r"(?:\s[^<>]{0,100}?)?\svalue=(?=\\{0,31}[\"'])", re.IGNORECASE)
# Tokens that are recognised by their form, whatever stands before them.
_LOOKS: Final = re.compile(
    r"(?<![\w-])(?:eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?|gh[oprsu]_\w{30,}|github_pat_\w{30,}|glpat-[\w-]{16,}"
    r"|xox[abeprs]-[\w-]{16,}|[rs]k_(?:live|test)_\w{16,}|sk-[\w-]{20,}|AIza[\w-]{30,}"
    r"|AGE-SECRET-KEY-1\w{16,})"
    r"|(?<=hooks\.slack\.com/services/)[\w/]{16,}",
    re.ASCII,
)
# What is in every name of a secret, the rest of the name, the end of its quotes, and what stands between it and its
# value. Every part is bounded and gives nothing back, so that a search takes time in proportion to the text.
# `is_secret` decides whether the whole name is that of a secret. `token:token` is how VMPooler names a field.
_CORES: Final = "token:token|pass|pwd|pswd|secret|token|key|auth|cookie|cred|signature|jwt|pin|otp|cvv|cvc|pw"


@functools.lru_cache(1)
def _named(more: tuple[str, ...]) -> re.Pattern[str]:
    cores = "|".join((*map(re.escape, more), _CORES))
    return re.compile(
        r"(?P<lone>vmpooler__token__)"
        r"|(?P<bearer>[bB](?:earer|EARER)[ \t]{1,4}(?=[A-Za-z0-9._~+/=-]{16}))"
        r"|(?P<basic>\bbasic[ \t]{1,4}(?=[A-Za-z0-9+/]{4}))"
        rf"|(?P<core>{cores})(?P<rest>[a-z0-9_.$-]{{0,40}}+)"
        r"(?P<quote>\\{0,31}+[\"'`]?+|%22)(?:\[\w{0,20}\])?+(?:\]|%5D)?+\)?+[ \t]{0,40}+"
        r"(?:(?P<sign>=>|:=|[!+~?]?={1,3}|-{1,2}>|::?|\uff1a|\u2192|%3[AD])[ \t]{0,40}+"
        r"|(?P<said>(?<=[ \t])(?:is|was|provided|given|received|supplied|entered)(?::[ \t]{0,4}+|[ \t]{1,4}+))"
        r"|(?P<blank>(?<=[ \t])(?=\\{0,31}['\"][^\s'\"]{1,200}['\"])))",
        re.IGNORECASE | re.ASCII,
    )


_BEFORE: Final = re.compile(r"[A-Za-z0-9_.$-]*+")  # backwards: the name up to there
_BEFORE_KEY: Final = re.compile(r"[A-Za-z0-9_.$-]++| [A-Za-z]{1,12}+|")  # of `API key`, too
_PHRASES: Final = frozenset(("pass", "pwd", "secret", "pin", "otp", "cvv", "cvc", "pw"))
_Q: Final = r"\\{0,31}[\"']"
_NAME_IS: Final = (
    rf"{_Q}(?:name|key|field|header|variable|param|parameter|env|id|label|property|attribute|parameter_?(?:key|name)){_Q}"
    rf"\s{{0,4}}+:\s{{0,4}}+{_Q}"
)
_VALUE_IS: Final = rf"{_Q}(?:value|val|content|default|data|parameter_?value){_Q}\s{{0,4}}+:\s{{0,20}}+"
# A table that names its value, as JSON in either order, and as YAML or words of a line.
_ROW: Final = re.compile(
    rf"{_NAME_IS}(?P<name>[\w .$-]{{1,64}}+){_Q}"
    rf"(?:,\s{{0,20}}+{_Q}\w{{1,30}}+{_Q}\s{{0,4}}+:\s{{0,4}}+(?:{_Q}[^\"'\\]{{0,100}}+{_Q}|[\w.-]{{1,30}}+)){{0,3}}?"
    rf",\s{{0,20}}+{_VALUE_IS}",
    re.IGNORECASE | re.ASCII,
)
_TURNED_ROW: Final = re.compile(
    rf"{_VALUE_IS}{_Q}(?P<value>[^\"'\\]{{1,4000}}+){_Q},\s{{0,20}}+{_NAME_IS}(?P<name>[\w .$-]{{1,64}}+){_Q}",
    re.IGNORECASE | re.ASCII,
)
_PLAIN_ROW: Final = re.compile(
    r"(?<![\w-])(?:name|key|field|parameterkey)[=:][ \t]{0,8}+[\"']?+(?P<name>[\w.$-]{1,64}+)[\"']?+"
    r"(?:,[ \t]{0,4}+|[ \t]{0,8}+\r?\n[ \t]{0,40}+|[ \t]{1,8}+)(?:parameter)?value[=:][ \t]{0,8}+",
    re.IGNORECASE | re.ASCII,
)
# Statements whose next word is a password.
_STATEMENT: Final = re.compile(
    r"(?:\bidentified[ ]by|\bwith[ ](?:encrypted[ ])?password|\brequirepass|\bmasterauth"
    r"|\blogin[ ]\S{1,100}+[ ]password|\bconfigure[ ]set[ ]\S{0,40}?(?:secret|token)\S{0,20}+)[ \t]{1,4}+(?=[^\s:=])",
    re.IGNORECASE,
)
# A name and its value as two words of a command line, or as two texts of a list: of those only what is surely a pair.
_NEXT: Final = r"\\{0,31}[\"'],[ \t\r\n]{0,8}(?=[bBuU]?\\{0,31}[\"'])"
_PAIR: Final = re.compile(
    rf"(?P<flag>(?<![\w-])--[a-z][a-z0-9_-]{{0,40}}+)(?:[ \t]{{1,4}}(?=[^\s-])|{_NEXT})"
    r"|[\"'](?:(?:proxy-)?authorization|(?:set-)?cookie|x-[a-z-]{0,30}?(?:token|key))"
    + _NEXT
    + r"|(?P<tuple>\(b?[\"'](?P<name>[\w.-]{1,60}+)"
    + _NEXT
    + ")",
    re.IGNORECASE | re.ASCII,
)
_OPENING: Final = re.compile(r"[bBuUrR]{0,2}(\\{0,31})([\"'`])")
_SCHEME: Final = re.compile(
    r"(?:bearer|basic|token|negotiate|ntlm|apikey|jwt|oauth|key)[ \t]{1,8}(?=\S)", re.IGNORECASE
)
_LONG_SCHEME: Final = re.compile(r"(?:digest|hawk|signature|aws4-hmac-sha256)[ \t]{1,8}(?=\S)", re.IGNORECASE)
_ANY_SCHEME: Final = re.compile(r"[A-Za-z][\w-]{0,30}+[ \t]{1,8}+(?=[\w.~+/-])")
_CALL: Final = re.compile(r"[A-Za-z_][\w.]{0,80}+(?=\()")
_TYPE: Final = re.compile(
    r"(?:str|bytes|int|Any|object|SecretStr|(?:typing\.)?Optional\[\w{1,40}\])(?:[ \t]?\|[ \t]?None)?(?=[ \t,)=]|$)"
    r"[ \t]{0,4}+(?P<default>=[ \t]{0,4}+)?"
)
_BLOCK: Final = re.compile(r"[|>][+-]?\d?[ \t]{0,8}+\r?\n(?P<indent>[ \t]{1,100}+)")
_REFERENCE: Final = re.compile(r"\$\{[\w.:-]{1,80}\}|\{\{[\w .$-]{1,80}\}\}")
_CLOSES: Final = {"(": ")", "[": "]", "{": "}"}
_BRACKETS: Final = re.compile(r"[()\[\]{}\"']")
_NUMBERS: Final = re.compile(r"[\d\s.,]*")
_ENCODED: Final = re.compile(r"(?:(?!%(?:2[026C]|3B|7D))[^\s,;&\"'`<>(){}\[\]]){1,4000}+", re.IGNORECASE)
_TO_THE_END: Final = re.compile(r"[^\r\n]+")
_WORD: Final = re.compile(r"[^\s,;&\"'`<>(){}\[\]]+")
# A passphrase may contain any character, so it ends at the next blank.
_SHAPES: Final = {"phrase": re.compile(r"\S+"), "line": _TO_THE_END, "code": _WORD}
_TRAILING: Final = ",;.)}]>\"'`"
_NO_VALUES: Final = frozenset(("none", "null", "nil", "undefined", "true", "false", MASK))
# What errors write about a secret, without quotes.
_SAID: Final = frozenset((
    "required", "missing", "invalid", "expired", "empty", "wrong", "incorrect", "denied", "refused", "rejected",
    "unknown", "failed", "mismatch", "too", "not", "must", "cannot", "is", "was", "are", "has", "may", "to", "or",
    "and", "option", "flag", "argument", "requires", "needs", "no", "such", "ok", "enabled", "disabled", "str", "bytes",
    "set", "unset", "for", "in", "given", "provided", "changed", "found", "does", "should", "will", "can", "with",
))  # fmt: skip
_LONGEST_NONE: Final = 20
_LONG_NUMBER: Final = 4  # digits: less of them count what passed
_BLANK: Final = re.compile(r"\s{0,80}+")
_QUOTED_PART: Final = re.compile(r"[\w-]{1,30}+=\\{0,31}[\"']")
_FARTHEST_BRACKET: Final = 4000  # characters until a bracket is closed, and
_MOST_BRACKETS: Final = 60  # signs before that
_FARTHEST: Final = 65_536  # characters until the end of a quoted value, which may be several lines


def mask_urls(text: str) -> str:
    """Return a text without the passwords of its URLs, and without their signatures."""
    text = _SLASHED.sub(rf"\1:{MASK}", _IN_URL.sub(_login, text))
    return _IN_QUERY.sub(rf"\1{MASK}", text)


def _login(found: re.Match[str]) -> str:
    login, password = found[1], found[2] or ""
    return (MASK if len(login) >= _LONG_LOGIN else login) + (f":{MASK}" if len(password) > 1 else password)


def mask_named(text: str, low: str) -> str:
    """Return a text without the values after well-known names; `low` is the text in lower case."""
    text = _LOOKS.sub(MASK, mask_commands(text, low))
    if "-----BEGIN" in text:
        text = _PRIVATE_KEY.sub(rf"\1{MASK}", text)
    if "<" in text:
        text = _masked(_masked(text, _ATTRIBUTES, _of_row), _ELEMENT, _content)
    if "@" in text:
        text = _masked(text, _NO_URL, _argument)
    if "--" in text or "'," in text or '",' in text:
        text = _masked(text, _PAIR, _of_pair)
        if ":" in text:
            text = _masked(_masked(text, _ROW, _of_row), _TURNED_ROW, _argument)
    if "alue" in text:
        text = _masked(text, _PLAIN_ROW, _of_row)
    text = _masked(text, _STATEMENT, _paired)
    return _masked(text, _named(CustomNames.hints), _value)


def _argument(_text: str, found: re.Match[str]) -> tuple[int, int]:
    """Return the start and the end of the value that the pattern has found."""
    groups = found.groupdict()
    if "name" in groups and not is_secret(found["name"]):
        return found.end(), found.end()
    return found.span("value" if groups["value"] is not None else "other")


def _content(_text: str, found: re.Match[str]) -> tuple[int, int]:
    """Return the start and the end of the content of an element."""
    name = found["name"].rpartition(":")[2]
    attribute = _ATTRIBUTE.search(found["attributes"])
    wanted = is_secret(name) or (attribute is not None and is_secret(attribute["name"]))
    start, end = found.span("value")
    return start, end if wanted and found["value"].strip() not in {"", MASK} else start


def _of_row(text: str, found: re.Match[str]) -> tuple[int, int]:
    """Return the start and the end of the value whose name is a value itself."""
    return _paired(text, found) if is_secret(found["name"]) else (found.end(), found.end())


def _of_pair(text: str, found: re.Match[str]) -> tuple[int, int]:
    """Return the start and the end of the value of a flag, of a header or of a pair."""
    name = found["flag"] or found["name"]
    nothing = found.end(), found.end()
    if name is not None and not is_secret(name):
        return nothing
    start, end = _paired(text, found)
    if found["tuple"] is not None and not text[end : end + 40].lstrip("\\").startswith(("')", '")')):
        return nothing
    return start, end


def _name(text: str, found: re.Match[str]) -> str:
    """Return the whole name that was found a part of; `API key` is one, too."""
    start = found.start("core")
    pattern = _BEFORE_KEY if found["core"].lower() == "key" else _BEFORE
    before = pattern.match(text[max(0, start - 64) : start][::-1])
    name = (before[0] if before else "")[::-1] + found["core"] + found["rest"]
    return name.removesuffix(":token")


def _kind(core: str, name: str) -> str:
    """Return which kind of value has that name."""
    if core == "cookie":
        return "line"
    return "phrase" if core in _PHRASES and not name.rstrip("0123456789").endswith(("key", "keys", "token")) else "code"


def _is_basic(text: str, at: int) -> bool:
    """Return whether the name and the password of HTTP's basic scheme stand there."""
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
    """Return the start and the end of the value that is the next word, or the next text of a list."""
    at = found.end()
    opening = _OPENING.match(text, at)
    if opening is not None:
        return _quoted(text, at)
    value = _SHAPES["phrase"].match(text, at)
    word = "" if value is None else value[0].rstrip(_TRAILING)
    return at, at if _is_no_value(word) or word.lower() in _SAID else at + len(word)


def _value(text: str, found: re.Match[str]) -> tuple[int, int]:
    """Return the start and the end of the value after a name; an empty range where nothing has to be masked."""
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
        return at, at  # what parsers write
    sign = found["sign"] or ""
    if sign == ":" and text.startswith("//", at):
        return at, at  # a URL
    if found["blank"] is not None:
        return _quoted(text, at) if kind == "phrase" and "secret" not in name else (at, at)
    if found["said"] is not None:
        return _as_said(text, at)
    if found["quote"] and sign in {":", "=>"} and text.startswith(("\n", "\r\n"), at):
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr] # it matches nothing, too
        if text[at : at + 1] not in "\"'[{\\":
            return at, at
    if sign == ":" and (kind_of := _TYPE.match(text, at)) is not None:
        at = kind_of.end()
        if kind_of["default"] is None:
            return at, at
    if _OPENING.match(text, at) is not None:
        return _quoted(text, at)
    if text[at : at + 1] in _CLOSES:
        return _bracketed(text, at, name)
    if sign.startswith("%"):
        return _encoded(text, at)
    if (block := _BLOCK.match(text, at)) is not None:
        return _block(text, block)
    return _bare(text, at, name, kind, is_told=sign == ":")


def _bare(text: str, at: int, name: str, kind: str, *, is_told: bool) -> tuple[int, int]:
    """Return a value without quotes."""
    if kind == "code" and _LONG_SCHEME.match(text, at) is not None:
        kind = "line"
    elif kind == "code" and (scheme := _SCHEME.match(text, at)) is not None:
        at = scheme.end()
    elif name.endswith("authorization") and (scheme := _ANY_SCHEME.match(text, at)) is not None:
        # Either of the two words may be the secret.
        second = _WORD.match(text, scheme.end())
        if scheme[0].strip().lower() in _SAID or second is None:
            return at, at
        return at, second.end()
    if kind == "code" and name.endswith("authorization") and _QUOTED_PART.match(text, at) is not None:
        kind = "line"
    if (call := _CALL.match(text, at)) is not None and (end := _balanced(text, call.end())) > 0:
        return at, end
    reference = _REFERENCE.match(text, at)
    value = _SHAPES[kind].match(text, at)
    word = "" if value is None else value[0].rstrip(_TRAILING if kind == "phrase" else None)
    is_path = name == "pwd" and word.startswith("/")
    is_count = word.isdigit() and (name.endswith("tokens") or (name.endswith("pass") and len(word) < _LONG_NUMBER))
    is_said = is_told and word.rstrip(_TRAILING).lower() in _SAID
    is_none = reference is not None or is_path or is_count or is_said or _is_no_value(word)
    return at, at if is_none else at + len(word)


def _quoted(text: str, at: int) -> tuple[int, int]:
    """Return a value in quotes."""
    opening = _OPENING.match(text, at)
    if opening is None:
        return at, at
    start = opening.end()
    end = _closing(text, start, opening[2], len(opening[1]))
    inside = text[start:end]
    return start, start if _is_no_value(inside) or _REFERENCE.fullmatch(inside) is not None else end


def _bracketed(text: str, at: int, name: str) -> tuple[int, int]:
    """Return a value that is a list or a table: what is in its brackets, and in the quotes at their ends."""
    end = _balanced(text, at)
    if end == 0:
        line = _TO_THE_END.match(text, at + 1)
        end = at + 1 if line is None else line.end() + 1
    start, end = at + 1, end - 1
    inside = text[start:end]
    is_table = text[at] == "{" and name.endswith(("auth", "pass"))
    is_numbers = name.endswith("tokens") and _NUMBERS.fullmatch(inside) is not None
    if is_table or is_numbers or _REFERENCE.match(text, at) is not None or not inside.strip():
        return at, at
    opening = _OPENING.match(inside)
    if opening is not None and inside.endswith(opening[1] + opening[2]) and len(inside) > 2 * len(opening[0]):
        start, end = start + opening.end(), end - len(opening[1] + opening[2])
    return start, start if _is_no_value(text[start:end].strip()) else end


def _balanced(text: str, at: int) -> int:
    """Return the place after the closing bracket; 0 where the bracket is not closed."""
    open_ones: list[str] = []
    until = at + _FARTHEST_BRACKET
    for _ in range(_MOST_BRACKETS):
        found = _BRACKETS.search(text, at, until)
        if found is None:
            return 0
        sign, at = found[0], found.end()
        if sign in _CLOSES:
            open_ones.append(_CLOSES[sign])
        elif sign in "\"'":
            at = text.find(sign, at, until) + 1
            if at == 0:
                return 0
        elif not open_ones or open_ones.pop() != sign:
            return 0
        if not open_ones:
            return at
    return 0


def _encoded(text: str, at: int) -> tuple[int, int]:
    """Return a value in a text that is encoded for a URL."""
    at += 3 if text[at : at + 3] in {"%22", "%27"} else 0
    value = _ENCODED.match(text, at)
    return at, at if value is None or _is_no_value(value[0]) else value.end()


def _block(text: str, block: re.Match[str]) -> tuple[int, int]:
    """Return the lines of a value of YAML, which are indented alike."""
    start = block.end()
    end = start
    while (line := _TO_THE_END.match(text, end)) is not None:
        end = line.end()
        following = end + (2 if text.startswith("\r\n", end) else 1)
        if end - start > _FARTHEST or not text.startswith(block["indent"], following):
            break
        end = following + len(block["indent"])
    return start, end


def _as_said(text: str, at: int) -> tuple[int, int]:
    """Return the secret that a sentence names: with a digit in it, or in quotes."""
    if _OPENING.match(text, at) is not None:
        return _quoted(text, at)
    value = _WORD.match(text, at)
    word = "" if value is None else value[0].rstrip(".:!?")
    is_secret_word = len(word) >= _LONG_NUMBER and any(map(str.isdigit, word))
    return at, at + len(word) if is_secret_word else at


def _is_no_value(word: str) -> bool:
    return len(word) < _LONGEST_NONE and word.lower() in _NO_VALUES


def _closing(text: str, start: int, quote: str, slashes: int) -> int:
    """Return the end of a quoted value; one that was cut off ends with its line."""
    at = start
    while (at := text.find(quote, at, start + _FARTHEST)) >= 0:
        before = at
        while before > start and text[before - 1] == "\\":
            before -= 1
        count = at - before
        if count <= slashes if slashes else count % 2 == 0:
            if slashes or not text.startswith(quote, at + 1):
                return before if slashes else at
            at += 1  # a quote that is doubled is inside
        at += 1
    line = _TO_THE_END.match(text, start)
    return start if line is None else line.end()
