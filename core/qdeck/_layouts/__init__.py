"""Layouts: other queue systems, read and operated where they stand. base.py has what a layout is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._errors import InvalidOption
from qdeck._layout_names import FOREIGN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

    from qdeck._layouts.base import Layout

NAMES: Final = FOREIGN


def make(name: str, patterns: Sequence[str] = ()) -> Layout:
    """A new layout of that name; each is a module of its own, loaded when it is asked for. `patterns` are of lists."""
    from importlib import import_module

    if name not in NAMES:
        raise InvalidOption(f"there is no layout {name!r}", hint=f"layouts are: native, {', '.join(NAMES)}")
    kind = _class_in(import_module(f"qdeck._layouts.{name}"), name)
    made: Layout = kind(patterns) if kind.takes_patterns else kind()
    return made


def make_all(names: Iterable[str] = NAMES, patterns: Sequence[str] = ()) -> list[Layout]:
    """New layouts of these names."""
    return [make(name, patterns) for name in names if name in NAMES]


def _class_in(module: ModuleType, name: str) -> Any:
    from qdeck._layouts.base import Layout

    for found in vars(module).values():
        if isinstance(found, type) and issubclass(found, Layout) and found.__module__ == module.__name__:
            return found
    raise InvalidOption(f"the module of the layout {name!r} has no class of one", hint="subclass Layout")
