"""Loading quickly: what is loaded stays, so the collector of garbage need not look at it.

While modules are loaded, Python's collector would look at all of them again and again, and once more when the process
ends. That is a fifth of the time of a short command, and finds next to nothing.
"""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Process:
    ours = False  # whether it was started as `qdeck`: the collector of another program is left alone


def begin() -> None:
    """The process is a `qdeck` of its own and starts to load."""
    _Process.ours = True
    gc.disable()


def end() -> None:
    """What was loaded is set aside; from here on garbage is collected as usual."""
    if _Process.ours:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Loads more, in the block."""
    if _Process.ours:
        gc.disable()
    try:
        yield
    finally:
        end()
