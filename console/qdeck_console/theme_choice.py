"""The theme that this user chose last: the console opens with it."""

from __future__ import annotations

import contextlib
from typing import Final

from qdeck import QdeckError
from qdeck_console.browser_mode import is_served

_FILE: Final = "theme"
_LONGEST: Final = 200


def load() -> str:
    """Return the name of the theme; empty where none was chosen or it cannot be read."""
    if is_served():
        return ""
    from qdeck.admin import state_dir

    with (
        contextlib.suppress(OSError, QdeckError),
        (state_dir() / _FILE).open(encoding="utf-8", errors="replace") as file,
    ):
        return file.read(_LONGEST).strip()
    return ""


def save(name: str) -> None:
    """Keep the name of the theme. Visitors of a served console share its files, so their choice is not kept."""
    if is_served():
        return
    from qdeck.admin import state_dir

    with contextlib.suppress(OSError, QdeckError):
        (state_dir() / _FILE).write_text(f"{name}\n", encoding="utf-8")
