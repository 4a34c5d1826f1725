"""Adapters: other queue systems, read and operated where they stand; and all that the author of one needs."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from msgspec import ValidationError, convert

from qdeck._adapter_names import ADAPTERS, FOREIGN, find_class
from qdeck._errors import InvalidOption
from qdeck._lazy_imports import attach
from qdeck._model.queue_ref import register
from qdeck._settings.model import AdapterSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qdeck._engine.stored_numbers import score_ms
    from qdeck._model.queue_ref import Feature
    from qdeck._model.reasons import CapabilityCode, Caution, CautionCode, SkipCode, Stuck, StuckCode
    from qdeck._model.values import Measure, QueueRow, State
    from qdeck._model.words import Unreadable, UnreadableCode, Verb
    from qdeck._redis.commands import Command, Program, Request, raw_of, text_of, with_errors
    from qdeck._redis.errors import good, is_error
    from qdeck._redis.parallel_programs import all_of, apart, together
    from qdeck._redis.reads import clock, fetch_all, pairs, try_all
    from qdeck.adapters import cells
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.cells import ANY, GUARD, THERE, Cell, Change, End, ScriptChange, adapter_script
    from qdeck.adapters.model import (
        NO_QUEUE,
        AdapterHealth,
        Capability,
        Entry,
        FoundKeys,
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

__all__ = [
    "ANY",
    "GUARD",
    "NAMES",
    "NO_QUEUE",
    "THERE",
    "Adapter",
    "AdapterHealth",
    "AdapterSettings",
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
    "FoundKeys",
    "InvalidOption",
    "Kind",
    "Look",
    "Measure",
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
    "Verb",
    "Want",
    "adapter_script",
    "age_s",
    "all_of",
    "apart",
    "cells",
    "change_each",
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
    "try_all",
    "with_errors",
]

NAMES: Final = FOREIGN
NO_SETTINGS: Final[Mapping[str, AdapterSettings]] = MappingProxyType({})
_HOMES: Final = {
    "qdeck._model.queue_ref": "Feature",
    "qdeck._model.values": "Measure QueueRow State",
    "qdeck._model.words": "Unreadable UnreadableCode Verb",
    "qdeck._engine.stored_numbers": "score_ms",
    "qdeck._model.reasons": "CapabilityCode Caution CautionCode SkipCode Stuck StuckCode",
    "qdeck._redis.commands": "Command Program Request raw_of text_of with_errors",
    "qdeck._redis.errors": "good is_error",
    "qdeck._redis.reads": "clock fetch_all pairs try_all",
    "qdeck.adapters.adapter": "Adapter",
    "qdeck.adapters.cells": "ANY GUARD THERE Cell Change End ScriptChange adapter_script",
    "qdeck.adapters.paging": "every first read_slice",
    "qdeck.adapters.model": (
        "AdapterHealth Capability Entry Outcome FoundKeys Kind Look NO_QUEUE Part Raw Seen Source StateHealth "
        "Retried Skipped Want age_s change_each short"
    ),
    "qdeck.adapters.plans": "Context Rule",
    "qdeck.adapters.times": "iso read_ms",
    "qdeck._redis.parallel_programs": "all_of apart together",
}


def make(name: str, settings: Mapping[str, AdapterSettings | Mapping[str, Any]] = NO_SETTINGS) -> Adapter:
    """Return a new adapter of that name, as in `jobs` or `jobs@eu`, with its settings among those of all adapters."""
    kind: type[Adapter] | None = find_class(name)
    if kind is None:
        raise InvalidOption(f"there is no adapter {name!r}", hint=f"Use one of: {', '.join(ADAPTERS)}")
    own = settings.get(name, {})
    try:
        made = kind(own if isinstance(own, AdapterSettings) else convert(own, kind.settings_type))
    except ValidationError as error:
        known = ", ".join(kind.settings_type.__struct_fields__)
        raise InvalidOption(f"the settings of the adapter {name}: {error}", hint=f"Use one of: {known}") from error
    made.name = name
    register(name, made.features)
    return made


def make_all(
    names: Iterable[str] = NAMES, settings: Mapping[str, AdapterSettings | Mapping[str, Any]] = NO_SETTINGS
) -> list[Adapter]:
    """Return new adapters of these names."""
    return [make(name, settings) for name in names]


if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, _HOMES)
