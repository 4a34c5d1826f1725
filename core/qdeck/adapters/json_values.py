"""Values that another program wrote as JSON, which can hold halves of characters and numbers of any size."""

from __future__ import annotations

import json
from typing import Any


def whole_text(text: str) -> str:
    """Return a text in which halves of characters are written out."""
    return text.encode("utf-8", "backslashreplace").decode()


def stored_json(value: Any) -> bytes:
    """Return a value as JSON that every reader takes; what is nested too deeply is left out."""
    try:
        return json.dumps(value).encode()
    except (RecursionError, ValueError, TypeError):
        return b"null"
