"""Names of secret fields, built in and from a configuration, and the mask of their values."""

from __future__ import annotations

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
LONGEST_NAME: Final = 200
MOST_NAMES: Final = 10_000
_BIG: Final = 1000  # smaller numbers under `pass` count what passed
_known_names: dict[str, bool] = {}
_PATTERN: Final = re.compile(r"[A-Za-z0-9 _.$*-]{1,100}")
_MOST_PATTERNS: Final = 100


class CustomNames:
    """The patterns of a configuration: names that are secret, too, and names that are not."""

    added: re.Pattern[str] | None = None
    exempt: re.Pattern[str] | None = None
    hints: tuple[str, ...] = ()
    """A part of each name that was added."""


def configure(add: Iterable[str] = (), exempt: Iterable[str] = ()) -> None:
    """Set the names of fields that are masked besides, and those that are not; `*` stands for any part of a name."""
    more, less = read_patterns("add", add), read_patterns("exempt", exempt)
    CustomNames.added, CustomNames.exempt = _any_of(more), _any_of(less)
    # The longest word of each, since what separates words may differ: `session` of `session_id` and `sessionId`.
    CustomNames.hints = tuple(max((*_PARTS.findall(one), *re.findall("[0-9]+", one)), key=len).lower() for one in more)
    _known_names.clear()


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
    """Return whether a field of this name holds a secret."""
    known = _known_names.get(name)
    if known is None:
        if len(_known_names) >= MOST_NAMES:
            _known_names.clear()
        known = _decide(name[-LONGEST_NAME:])
        if len(name) <= LONGEST_NAME:
            _known_names[name] = known
    return known


def _decide(name: str) -> bool:
    bare = _SEPARATORS.sub("", name).lower()
    if CustomNames.exempt is not None and CustomNames.exempt.fullmatch(bare):
        return False
    if _END.search(bare) or (CustomNames.added is not None and CustomNames.added.fullmatch(bare)):
        return True
    words = [word.lower() for word in _PARTS.findall(name)]
    for at, word in enumerate(words):
        if word in _STRONG and not _ABOUT.intersection(words[at + 1 :]):
            return True
    while len(words) > 1 and words[-1] in _BEHIND:
        words.pop()
    return bool(words) and words[-1] in _SHORT


def is_secret_field(name: str, value: Any) -> bool:
    """Return whether a field is secret: also by its value, since `pass` may count and `auth` may be a table."""
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
    """Return whether a word of a command line means that the next one is a secret: `--password`."""
    return word.startswith("--") and is_secret(word)
