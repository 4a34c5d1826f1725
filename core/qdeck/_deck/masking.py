"""What nobody should read off a screen, and the one place that masks it: fields by their names, and values in texts.

In a text only what follows a well-known name is masked (`password: …`, `token=…`, `Authorization: Bearer …`,
`--token …`), the passwords of URLs, and private keys. It is for what is shown and exported: nothing that is written to
a server goes through here.
"""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"
# The end of a field's name, in lower case and without what separates words: `userPassword`, `x-api-key`, `DB_TOKEN`.
_SECRET: Final = re.compile(
    r"(passwords?|passwd|pwd|passphrase|secrets?|secretkey|tokens?|authorization|jwt|credentials?|cookies?|sessionid"
    r"|signature|(?:api|access|private|auth|account|encryption|signing)keys?)$"
)
_SEPARATORS: Final = re.compile(r"[\s_.-]+")
# One of these is in every name below: most texts have none, and looking for them is quick.
_HINTS: Final = ("pass", "pwd", "secret", "token", "key", "authoriz", "bearer", "cookie", "session", "credential",
                 "signature", "jwt")  # fmt: skip
# Without any of these there is no value.
_SIGNS: Final = (":", "=", "--", "',", '",', "</", "__token__", "earer ", "earer\t", "EARER ", "EARER\t")


def is_secret(name: str) -> bool:
    """Whether a field of this name holds something that nobody should read off a screen."""
    return _SECRET.search(_SEPARATORS.sub("", name).lower()) is not None


def is_secret_flag(word: str) -> bool:
    """Whether a word of a command line says that the next one is a secret: `--password`."""
    return word.startswith("--") and is_secret(word)


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
    # The patterns are made when the first text needs them: `qdeck status` shows none.
    if "://" in text:
        from qdeck._deck.masked_text import mask_urls

        text = mask_urls(text)
    low = text.lower()
    for hint in _HINTS:
        if hint in low:
            from qdeck._deck.masked_text import mask_named

            return mask_named(text)
    return text
