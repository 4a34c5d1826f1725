"""Lazy imports: a module's names are imported when first used, so that a command loads only what it needs."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def attach(module: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a module. `homes` has the names of each other module, `public=name` where
    one goes by another name here.

    A module defines them at run time only: otherwise a type checker would accept every name.
    """
    found = {
        public: (home, name or public)
        for home, names in homes.items()
        for public, _, name in (word.partition("=") for word in names.split())
    }

    def get(public: str) -> Any:
        if public not in found:
            raise AttributeError(f"module {module!r} has no attribute {public!r}")
        home, name = found[public]
        value = vars(sys.modules[module])[public] = getattr(import_module(home), name)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *found})

    return get, names
