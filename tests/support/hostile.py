"""Text that wants to take a terminal over, or to look like other text."""

from __future__ import annotations

import unicodedata

HOSTILE = {
    "title": "\x1b]0;owned\x07",
    "clear": "\x1b[2J\x1b[31mred",
    "c1": "\x9b31m\x9d0;t\x9c",
    "clipboard": "\x1b]52;c;ZXZpbA==\x1b\\",
    "backspaces": "safe\b\b\b\bevil",
    "return": "long line\roverwritten",
    "delete": "a\x7fb",
    "nul": "a\x00b",
    "bidi": "user\u202egnp.exe\u2066x\u2069",
    "marks": "\u200eleft\u200fright",
    "invisible": "pay\u200bload\ufeff\u00ad\u2060",
    "separators": "one\u2028two\u2029three",
    "surrogate": "lone \ud800 half",
    "tags": "\U000e0041\U000e0042",
    "zalgo": "z" + "\u0301" * 500 + "!",
    "only marks": "\u0301\u0301",
    "markup": "[/] [bold [@click=app.quit]x[/] [link=javascript:1]",
    "lines": "first\r\nsecond\nthird\ttab",
}


def is_clean(text: str) -> bool:
    """Whether a terminal can only show the text."""
    return all(unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"} for char in text)
