"""Adapters: other queue systems, read and operated where they stand; and all that the author of one needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._adapter_names import FOREIGN, NATIVE, entry_point
from qdeck._deck.queue_ref import register
from qdeck._errors import InvalidOption
from qdeck._lazy import attach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from qdeck._deck.model import QueueRow, State
    from qdeck._deck.queue_ref import Feature
    from qdeck._deck.reasons import CapabilityCode, Caution, CautionCode, SkipCode, Stuck, StuckCode
    from qdeck._deck.words import Unreadable, UnreadableCode
    from qdeck._engine.numbers import score_ms
    from qdeck._redis.commands import Command, Program, Request, ask, raw_of, text_of
    from qdeck._redis.errors import good, is_error
    from qdeck._redis.reads import ask_all, clock, fetch_all, pairs
    from qdeck.adapters import cells
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.cells import ANY, GUARD, THERE, Cell, Change, End, ScriptChange, adapter_script
    from qdeck.adapters.model import (
        NO_QUEUE,
        Act,
        AdapterHealth,
        Capability,
        Entry,
        Group,
        Kind,
        Look,
        Outcome,
        Part,
        Raw,
        Retried,
        Seen,
        Skipped,
        Source,
        StateHealth,
        Want,
        age_s,
        short,
    )
    from qdeck.adapters.paging import every, first, read_slice
    from qdeck.adapters.plans import Context, Rule
    from qdeck.adapters.times import iso, read_ms
    from qdeck.adapters.together import all_of, apart, together

__all__ = [
    "ANY",
    "GUARD",
    "NAMES",
    "NO_QUEUE",
    "THERE",
    "Act",
    "Adapter",
    "AdapterHealth",
    "Capability",
    "CapabilityCode",
    "Caution",
    "CautionCode",
    "Cell",
    "Change",
    "Command",
    "Context",
    "End",
    "Entry",
    "Feature",
    "Group",
    "InvalidOption",
    "Kind",
    "Look",
    "Outcome",
    "Part",
    "Program",
    "QueueRow",
    "Raw",
    "Request",
    "Retried",
    "Rule",
    "ScriptChange",
    "Seen",
    "SkipCode",
    "Skipped",
    "Source",
    "State",
    "StateHealth",
    "Stuck",
    "StuckCode",
    "Unreadable",
    "UnreadableCode",
    "Want",
    "adapter_script",
    "age_s",
    "all_of",
    "apart",
    "ask",
    "ask_all",
    "cells",
    "clock",
    "every",
    "fetch_all",
    "first",
    "good",
    "is_error",
    "iso",
    "make",
    "make_all",
    "pairs",
    "raw_of",
    "read_ms",
    "read_slice",
    "score_ms",
    "short",
    "text_of",
    "together",
]

NAMES: Final = FOREIGN
_HOMES: Final = {
    "qdeck._deck.queue_ref": "Feature",
    "qdeck._deck.model": "QueueRow State",
    "qdeck._deck.words": "Unreadable UnreadableCode",
    "qdeck._engine.numbers": "score_ms",
    "qdeck._deck.reasons": "CapabilityCode Caution CautionCode SkipCode Stuck StuckCode",
    "qdeck._redis.commands": "Command Program Request ask raw_of text_of",
    "qdeck._redis.errors": "good is_error",
    "qdeck._redis.reads": "ask_all clock fetch_all pairs",
    "qdeck.adapters.adapter": "Adapter",
    "qdeck.adapters.cells": "ANY GUARD THERE Cell Change End ScriptChange adapter_script",
    "qdeck.adapters.paging": "every first read_slice",
    "qdeck.adapters.model": (
        "Act AdapterHealth Capability Entry Outcome Group Kind Look NO_QUEUE Part Raw Seen Source StateHealth Retried "
        "Skipped Want age_s short"
    ),
    "qdeck.adapters.plans": "Context Rule",
    "qdeck.adapters.times": "iso read_ms",
    "qdeck.adapters.together": "all_of apart together",
}


def make(name: str, patterns: Sequence[str] = ()) -> Adapter:
    """Return a new adapter of that name, whose package is loaded now. `patterns` are of lists.

    A name may say which one of several of a system is meant, as in `jobs@eu`. A system that is not among those of qdeck
    is looked for among the entry points of what else is installed.
    """
    from importlib import import_module

    kind: Callable[..., Adapter]
    system = name.partition("@")[0]
    if system in NAMES:
        kind = import_module(f"qdeck.adapters.{system}").ADAPTER
    elif (found := entry_point(system)) is not None:
        kind = found.load()
    else:
        raise InvalidOption(f"there is no adapter {name!r}", hint=f"adapters are: native, {', '.join(NAMES)}")
    made = kind(patterns) if getattr(kind, "takes_patterns", False) else kind()
    made.name = name
    register(name, made.features)
    return made


def make_all(names: Iterable[str] = NAMES, patterns: Sequence[str] = ()) -> list[Adapter]:
    """Return new adapters of these names."""
    return [make(name, patterns) for name in names if name != NATIVE]


if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, _HOMES)
