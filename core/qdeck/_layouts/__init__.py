"""Layouts: other queue systems, read and operated where they stand. base.py has what a layout is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qdeck._layouts.base import Layout

NAMES: Final = ("lists", "vmpooler", "ifdb", "scheduler")


def make(name: str, patterns: Sequence[str] = ()) -> Layout:
    """A new layout of that name; each is a module of its own, loaded when it is asked for. `patterns` are of lists."""
    from importlib import import_module

    if name not in NAMES:
        raise InvalidOption(f"there is no layout {name!r}", hint=f"layouts are: native, {', '.join(NAMES)}")
    kind = getattr(import_module(f"qdeck._layouts.{name}"), _CLASS_OF[name])
    made: Layout = kind(patterns) if name == "lists" else kind()
    return made


def make_all(names: Iterable[str] = NAMES, patterns: Sequence[str] = ()) -> list[Layout]:
    """New layouts of these names."""
    return [make(name, patterns) for name in names if name in NAMES]


_CLASS_OF: Final = {"lists": "Lists", "vmpooler": "VmPooler", "ifdb": "Ifdb", "scheduler": "Scheduler"}
