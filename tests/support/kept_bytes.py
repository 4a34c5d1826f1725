"""How many bytes a thing keeps, counted without a clock and without the rest of the process."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def kept_bytes(make: Callable[[], object]) -> int:
    """Return the bytes of what a function makes."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = make()
        after = tracemalloc.get_traced_memory()[0]
        assert made
        return after - before
    finally:
        tracemalloc.stop()
