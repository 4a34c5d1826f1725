"""The names of the adapters: each package in `adapters` is one, so a new one is found by itself."""

from __future__ import annotations

import os
from typing import Final

NATIVE: Final = "native"
_SCRIPTS: Final = "lua"
_FIRST: Final = ("lists", "vmpooler", "ifdb", "scheduler")  # in this order; others behind them


def find_names() -> tuple[str, ...]:
    """The adapters of other systems."""
    entries = os.listdir(os.path.join(os.path.dirname(__file__), "adapters"))  # noqa: PTH118, PTH120, PTH208 - each command starts with this
    found = {name for name in entries if "." not in name and name[0] != "_" and name not in (NATIVE, _SCRIPTS)}
    names = sorted(found - set(_FIRST))
    return (*(name for name in _FIRST if name in found), *names)


FOREIGN: Final = find_names()
ADAPTERS: Final = (NATIVE, *FOREIGN)
