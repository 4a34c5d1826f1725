"""What nobody should read off a screen, and the one place that masks it: fields by their names, and values in texts.

In a text only what follows the name of a secret is masked (`password: …`, `token=…`, `Authorization: Bearer …`,
`--token …`, `curl -u user:…`), the passwords of URLs, and private keys. It is for what is shown and exported: nothing
that is written to a server goes through here.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final

from qdeck._errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Iterable

MASK: Final = "***"
# The end of a field's name, in lower case and without what separates words: `userPassword`, `x-api-key`, `DB_TOKEN`;
# and what may stand behind it: `password_hash`, `secretValue`, `token2`.
_END: Final = re.compile(
    r"(?:passwords?|passwd|pswd|pwd|passphrases?|passcodes?|secrets?|tokens?|authorization|jwt|cred(?:ential)?s?|cookies?"
    r"|signature|clientkeydata|(?:api|access|private|auth|account|encryption|signing|secret|master|shared|ssh|hmac|aes|rsa"
    r"|deploy|license|subscription|servicerole|storage)keys?)"
    r"(?:[0-9]|confirm(?:ation|ed)?|again|repeat(?:ed)?|verify|hash(?:ed)?|digest|salt|values?|text|plain|string|raw|new|old"
    r"|current|previous|encrypted|base64|b64)*+$"
)
_SEPARATORS: Final = re.compile(r"[\s_.$-]+")
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Anywhere in a name these say enough, unless what follows says that it is only about one: `token_github`, not
# `token_type`.
_STRONG: Final = frozenset(
    ("password", "passwords", "passwd", "passphrase", "secret", "secrets", "token", "credentials")
)
_ABOUT: Final = frozenset((
    "age", "arn", "at", "attempts", "changed", "count", "created", "date", "enabled", "endpoint", "exp", "expired",
    "expires", "expiry", "field", "file", "id", "ids", "issuer", "kind", "length", "less", "limit", "manager", "max",
    "min", "name", "names", "on", "path", "policy", "provider", "ref", "reference", "required", "reset", "rotation",
    "server", "status", "strength", "time", "ttl", "type", "types", "updated", "uri", "url", "usage", "used", "user",
    "username", "version",
))  # fmt: skip
# At the end of a name only, because they are words of other things too.
_SHORT: Final = frozenset(("pass", "pw", "pin", "otp", "totp", "cvv", "cvc", "auth"))
_BEHIND: Final = frozenset(
    ("code", "confirm", "confirmation", "hash", "value", "again", "repeat", "old", "new", "number")
)
_LONGEST_NAME: Final = 200
_MOST_NAMES: Final = 10_000
_BIG: Final = 1000  # smaller numbers under `pass` count what passed
_names: dict[str, bool] = {}
_GITHUB: Final = re.compile("gh[oprsu]_")
_LONG: Final = 20  # characters: a shorter word is no token that is known by its look
_PATTERN: Final = re.compile(r"[A-Za-z0-9 _.$*-]{1,100}")
_MOST_PATTERNS: Final = 100


class _Custom:
    """The patterns of a configuration: which names are secret besides, and which are not."""

    added: re.Pattern[str] | None = None
    exempt: re.Pattern[str] | None = None
    hints: tuple[str, ...] = ()


def configure(add: Iterable[str] = (), exempt: Iterable[str] = ()) -> None:
    """Set the names of fields that are masked besides, and those that are not; `*` stands for any part of a name."""
    more, less = read_patterns("add", add), read_patterns("exempt", exempt)
    _Custom.added, _Custom.exempt = _any_of(more), _any_of(less)
    # The longest word of each, since what separates words may differ: `session` of `session_id` and `sessionId`.
    _Custom.hints = tuple(max((*_PARTS.findall(one), *re.findall("[0-9]+", one)), key=len).lower() for one in more)
    _names.clear()
    _label.cache_clear()
    import sys

    if (texts := sys.modules.get("qdeck._deck.masked_text")) is not None:
        texts.look_for(_Custom.hints)


def custom_hints() -> tuple[str, ...]:
    """Return a part of each name that was added."""
    return _Custom.hints


def read_patterns(key: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return patterns of names; raise where one could take long or match everything."""
    found = tuple(values)
    if len(found) > _MOST_PATTERNS:
        raise InvalidOption(f"masking.{key} has {len(found)} patterns", hint=f"Use at most {_MOST_PATTERNS}.")
    for one in found:
        if not _PATTERN.fullmatch(one) or one.count("*") > 2 or not any(map(str.isalnum, one)):
            raise InvalidOption(
                f"masking.{key}: {one!r} is not a pattern of names",
                hint="Use letters, digits, '_', '-', '.' and at most two '*', such as 'session_id' or '*_iban'.",
            )
    return found


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    if not patterns:
        return None
    bare = (_SEPARATORS.sub("", one).lower().split("*") for one in patterns)
    return re.compile("|".join(".*".join(map(re.escape, parts)) for parts in bare))


def is_secret(name: str) -> bool:
    """Whether a field of this name holds something that nobody should read off a screen."""
    known = _names.get(name)
    if known is None:
        if len(_names) >= _MOST_NAMES:
            _names.clear()
        known = _decide(name[-_LONGEST_NAME:])
        if len(name) <= _LONGEST_NAME:
            _names[name] = known
    return known


def _decide(name: str) -> bool:
    bare = _SEPARATORS.sub("", name).lower()
    if _Custom.exempt is not None and _Custom.exempt.fullmatch(bare):
        return False
    if _END.search(bare) or (_Custom.added is not None and _Custom.added.fullmatch(bare)):
        return True
    words = [word.lower() for word in _PARTS.findall(name)]
    for at, word in enumerate(words):
        if word in _STRONG and not _ABOUT.intersection(words[at + 1 :]):
            return True
    while len(words) > 1 and words[-1] in _BEHIND:
        words.pop()
    return bool(words) and words[-1] in _SHORT


def is_secret_field(name: str, value: Any) -> bool:
    """Whether the value of a field is secret: also by what it is, since `pass` may count and `auth` may be a table."""
    if value is None or value is True or value is False or not is_secret(name):
        return False
    kind = type(value)
    if kind is str:
        return True
    low = name.lower()
    if low.endswith("tokens"):
        return kind not in (int, float) and not (kind is list and all(type(item) in (int, float) for item in value))
    if kind is list:
        return True
    if low.endswith(("pass", "auth")):
        return kind is int and value >= _BIG
    return True


def is_secret_flag(word: str) -> bool:
    """Whether a word of a command line says that the next one is a secret: `--password`."""
    return word.startswith("--") and is_secret(word)


def _has_hint(low: str) -> bool:
    """Whether the text has a part that every secret has which can be found in it; true rather too often."""
    # Filters ask this of each job. One expression, with short parts and a letter before those that hold it, takes a
    # third of the time of a loop over whole words.
    return (
        "pass" in low or "cre" in low or "auth" in low or "signa" in low
        or ("k" in low and ("tok" in low or "key" in low or "cook" in low))
        or (" " in low and ("earer " in low or "basic " in low or " -" in low or "ied by" in low))
        or ("-" in low and ('"-' in low or "'-" in low or "sk-" in low or "glpat-" in low or "xox" in low))
        or ("_" in low and ("k_live_" in low or "k_test_" in low or "hub_pat_" in low
                          or ("gh" in low and _GITHUB.search(low) is not None)))
        or ("w" in low and ("pwd" in low or "pswd" in low or ("pw" in low and _ends(low, "pw"))))
        or ("j" in low and ("jwt" in low or "eyj" in low)) or ("v" in low and ("cvv" in low or "cvc" in low))
        or ("z" in low and "aiza" in low) or ("/" in low and ("slack." in low or "sqlplus" in low or ":thin:" in low))
        or ("(" in low and "@tcp(" in low)
        or ("pin" in low and _ends(low, "pin")) or ("otp" in low and _ends(low, "otp"))
        or (bool(_Custom.hints) and any(hint in low for hint in _Custom.hints))
    )  # fmt: skip


def _ends(low: str, word: str) -> bool:
    """Whether a word ends somewhere: these are parts of too many other words."""
    at = low.find(word)
    while at >= 0:
        end = at + len(word)
        if not low[end : end + 1].isalpha() or low.startswith(("code", "value", "hash", "confirm", "number"), end):
            return True
        at = low.find(word, end)
    return False


def may_hold_secrets(raw: bytes) -> bool:
    """Whether there may be something to mask in these bytes: quick, and true rather too often."""
    # Filters ask this of a million payloads. A text is looked through four times as fast as bytes.
    low = raw.lower().decode("latin-1")
    return _has_hint(low) or ("/" in low and "://" in low)


def mask_text(text: str) -> str:
    """A text with the passwords of the URLs in it replaced, and with them the values after well-known names."""
    if len(text) < _LONG and text.isalnum():
        return text
    # The patterns are made when the first text needs them: `qdeck status` shows none.
    if "://" in text or "sig=" in text:
        from qdeck._deck.masked_text import mask_urls

        text = mask_urls(text)
    low = text.lower()
    if _has_hint(low):
        from qdeck._deck.masked_text import mask_named

        return mask_named(text, low)
    return text


def mask_label(text: str) -> str:
    """Return a short text that many jobs share, such as a tag, with its secrets masked."""
    # Most are a word, which holds none.
    return (
        text
        if len(text) < _LONG and text.isalnum()
        else _label(text)
        if len(text) <= _LONGEST_NAME
        else mask_text(text)
    )


_label: Final = functools.lru_cache(_MOST_NAMES)(mask_text)
