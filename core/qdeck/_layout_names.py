"""The names of the layouts: a module of `_layouts` whose name has no underscore, and is none of what all share, is one.

So a new layout is a new module, and nothing else has to know of it.
"""

from __future__ import annotations

import os
from typing import Final

NATIVE: Final = "native"
_SHARED: Final = ("base", "discovery", "listing", "measures", "model", "others", "steps", "times", "together")
_FIRST: Final = ("lists", "vmpooler", "ifdb", "scheduler")  # in this order; others behind them


def find_names() -> tuple[str, ...]:
    """The layouts of other systems."""
    files = os.listdir(os.path.join(os.path.dirname(__file__), "_layouts"))  # noqa: PTH118, PTH120, PTH208 - each command starts with this
    found = {name[:-3] for name in files if name.endswith(".py") and "_" not in name}
    names = sorted(found - set(_SHARED) - set(_FIRST))
    return (*(name for name in _FIRST if name in found), *names)


FOREIGN: Final = find_names()
LAYOUTS: Final = (NATIVE, *FOREIGN)
