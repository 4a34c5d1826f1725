"""qdeck's own queue, read and planned as every other adapter reads and plans its system."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from qdeck._lazy_imports import attach
from qdeck._model.words import State, Verb

if TYPE_CHECKING:
    from collections.abc import Mapping

SLICE: Final = 500  # jobs of a page
ALL_STATES: Final = (
    State.RUNNING, State.READY, State.DELAYED, State.BLOCKED, State.DEAD, State.CANCELLED, State.DONE,
)  # fmt: skip
WAITING: Final = (State.READY, State.DELAYED, State.BLOCKED)
VERBS: Final[Mapping[Verb, tuple[State, ...]]] = MappingProxyType(
    {
        Verb.RETRY: (State.DEAD,),
        Verb.DISCARD: (*WAITING, State.DEAD, State.CANCELLED, State.DONE),
        Verb.CANCEL: (*WAITING, State.RUNNING),
        Verb.COMPLETE: (*WAITING, State.DEAD),
        Verb.RUN: (State.DELAYED,),
        Verb.REPRIORITISE: WAITING,
        Verb.REQUEUE: (State.RUNNING,),
        Verb.BURY: (*WAITING, State.RUNNING),
        Verb.MOVE: (State.READY, State.DELAYED),
        Verb.EDIT: (*WAITING, State.DEAD),
    }
)
"""The verbs of native jobs, and the states to which they apply."""


def newest_first(state: str, newest: bool | None) -> bool:
    """Return whether a list starts with its highest scores: those of ended jobs do, `ready` never does."""
    if state == State.READY:
        return False
    return state in (State.DONE, State.DEAD, State.CANCELLED) if newest is None else newest


if not TYPE_CHECKING:  # most of what is imported from here is asked for before there is an adapter
    __getattr__, __dir__ = attach(__name__, {"qdeck.adapters.native.adapter": "ADAPTER=Native"})
