"""Characters that a terminal interprets, that hide text or that reverse it: escaped wherever text is shown."""

from __future__ import annotations

import re
from typing import Final

_RANGES: Final = (
    (0x00, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD),
    (0x034F, 0x034F),  # the joiner of graphemes
    (0x0600, 0x0605), (0x061C, 0x061C), (0x06DD, 0x06DD), (0x070F, 0x070F), (0x0890, 0x0891), (0x08E2, 0x08E2),
    (0x115F, 0x1160), (0x3164, 0x3164), (0xFFA0, 0xFFA0),  # letters of Hangul that are blank
    (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F),
    (0xD800, 0xDFFF), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFF0, 0xFFFB), (0xFFFE, 0xFFFF),
    (0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),  # tags, more selectors, and what is kept for their like
)  # fmt: skip
HIDDEN: Final = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _RANGES) + "]")
"""Controls, formats, halves of characters, and every character that terminals may ignore."""


def is_shown(char: str) -> bool:
    """Return whether a character shows as itself."""
    return char.isprintable() and HIDDEN.match(char) is None


def escaped_json(text: str) -> str:
    """Return JSON without a character that a terminal could obey; it means the same."""
    return text if text.isascii() and text.isprintable() else HIDDEN.sub(lambda found: json_escape(found[0]), text)


def json_escape(char: str) -> str:
    """Return a character as JSON escapes it."""
    code = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{code[at]:02x}{code[at + 1]:02x}" for at in range(0, len(code), 2))
