"""The names of the adapters: each package in `adapters` is one, so a new one is found without being listed."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

NATIVE: Final = "native"
_SCRIPTS: Final = "lua"
_FIRST: Final = (NATIVE, "lists", "vmpooler", "ifdb", "scheduler")  # in this order; others behind them


def find_names() -> tuple[str, ...]:
    """Return the adapters, that of qdeck's own queues first."""
    entries = os.listdir(os.path.join(os.path.dirname(__file__), "adapters"))  # noqa: PTH118, PTH120, PTH208 - each command starts with this
    found = {name for name in entries if "." not in name and name[0] != "_" and name != _SCRIPTS}
    names = sorted(found - set(_FIRST))
    return (*(name for name in _FIRST if name in found), *names)


ADAPTERS: Final = find_names()
FOREIGN: Final = ADAPTERS[1:]
"""The adapters of other systems."""
UNLISTED: Final = {"messages": "qdeck.messages._adapter"}
"""Adapters whose queues hold no jobs, each with its module: they are in no list, and only a purge reads them."""


def entry_point(name: str) -> EntryPoint | None:
    """Return where another installed distribution has an adapter of this name, in its group `qdeck.adapters`.

    They are searched by name only, because reading all that is installed takes longer than the start of a command.
    """
    from importlib.metadata import entry_points

    return next(iter(entry_points(group="qdeck.adapters", name=name)), None)


def find_class(name: str) -> Any:
    """Return the class of an adapter, whose package is loaded now; None where there is none.

    A name may say which one of several of a system is meant, as in `jobs@eu`. A system that is not among those of qdeck
    is searched among the entry points of other distributions.
    """
    system, at, _ = name.partition("@")
    if system in UNLISTED:
        return import_module(UNLISTED[system]).ADAPTER
    if system in (FOREIGN if at else ADAPTERS):
        return import_module(f"qdeck.adapters.{system}").ADAPTER
    found = entry_point(system)
    return None if found is None else found.load()


def is_adapter(name: str) -> bool:
    """Return whether there is an adapter of this name, or of the system that it begins with, as in `jobs@eu`."""
    system, at, label = name.partition("@")
    if at and not label.replace("-", "").isalnum():
        return False
    return system in (FOREIGN if at else ADAPTERS) or entry_point(system) is not None
