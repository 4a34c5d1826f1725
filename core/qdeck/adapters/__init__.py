"""Adapters: other queue systems, read and operated where they stand. adapter.py has what an adapter is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._adapter_names import FOREIGN
from qdeck._errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from qdeck.adapters.adapter import Adapter

NAMES: Final = FOREIGN


def make(name: str, patterns: Sequence[str] = ()) -> Adapter:
    """Return a new adapter of that name, whose package is loaded now. `patterns` are of lists."""
    from importlib import import_module

    if name not in NAMES:
        raise InvalidOption(f"there is no adapter {name!r}", hint=f"adapters are: native, {', '.join(NAMES)}")
    kind: Callable[..., Adapter] = import_module(f"qdeck.adapters.{name}").ADAPTER
    return kind(patterns) if getattr(kind, "takes_patterns", False) else kind()


def make_all(names: Iterable[str] = NAMES, patterns: Sequence[str] = ()) -> list[Adapter]:
    """New adapters of these names."""
    return [make(name, patterns) for name in names if name in NAMES]
