"""Masking of secrets in shown text: fields by their names, and values in texts.

In a text, the values after names of secrets are masked (`password: …`, `token=…`, `Authorization: Bearer …`,
`--token …`, `curl -u user:…`), the passwords of URLs, and private keys. Text that is shown, exported or
logged is masked, never a job on a server.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

from qdeck._model import secret_names
from qdeck._model.secret_names import LONGEST_NAME, MOST_NAMES, CustomNames

if TYPE_CHECKING:
    from collections.abc import Iterable

_GITHUB: Final = re.compile("gh[oprsu]_")
_LONG: Final = 20  # characters: a shorter word is no token that is known by its look


def configure(add: Iterable[str] = (), exempt: Iterable[str] = ()) -> None:
    """Set the names of fields that are masked besides, and those that are not; `*` stands for any part of a name."""
    secret_names.configure(add, exempt)
    _label.cache_clear()


def _has_hint(low: str) -> bool:
    """Return whether a text has one of the parts that secrets have; true rather too often."""
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
        or (bool(CustomNames.hints) and any(hint in low for hint in CustomNames.hints))
    )  # fmt: skip


def _ends(low: str, word: str) -> bool:
    """Return whether a word ends somewhere: these are parts of too many other words."""
    at = low.find(word)
    while at >= 0:
        end = at + len(word)
        if not low[end : end + 1].isalpha() or low.startswith(("code", "value", "hash", "confirm", "number"), end):
            return True
        at = low.find(word, end)
    return False


def may_hold_secrets(raw: bytes) -> bool:
    """Return whether these bytes may have something to mask: quick, and true rather too often."""
    # Filters ask this of a million payloads. A text is looked through four times as fast as bytes.
    low = raw.lower().decode("latin-1")
    return _has_hint(low) or ("/" in low and "://" in low)


def mask_text(text: str) -> str:
    """Return a text with the passwords of its URLs and the values after well-known names masked."""
    if len(text) < _LONG and text.isalnum():
        return text
    # The patterns are made when the first text needs them: `qdeck status` shows none. A URL hides a login before its
    # `@`, or a value behind a `=`.
    if ("://" in text and ("@" in text or "=" in text)) or "sig=" in text:
        from qdeck._model.masked_text import mask_urls

        text = mask_urls(text)
    low = text.lower()
    if _has_hint(low):
        from qdeck._model.masked_text import mask_named

        return mask_named(text, low)
    return text


def mask_label(text: str) -> str:
    """Return a short text that many jobs share, such as a tag, with its secrets masked."""
    # Most are a word, which holds none.
    return (
        text if len(text) < _LONG and text.isalnum() else _label(text) if len(text) <= LONGEST_NAME else mask_text(text)
    )


_label: Final = functools.lru_cache(MOST_NAMES)(mask_text)
