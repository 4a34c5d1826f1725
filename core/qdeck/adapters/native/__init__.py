"""qdeck's own queue, read and planned as every other adapter reads and plans its system."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from qdeck._lazy_imports import attach
from qdeck._model.values import State

if TYPE_CHECKING:
    from collections.abc import Mapping

SLICE: Final = 500  # jobs of a page
ALL_STATES: Final = (
    State.RUNNING, State.READY, State.DELAYED, State.BLOCKED, State.DEAD, State.CANCELLED, State.DONE,
)  # fmt: skip
WAITING: Final = (State.READY, State.DELAYED, State.BLOCKED)
VERBS: Final[Mapping[str, tuple[State, ...]]] = MappingProxyType(
    {
        "retry": (State.DEAD,),
        "discard": (*WAITING, State.DEAD, State.CANCELLED, State.DONE),
        "cancel": (*WAITING, State.RUNNING),
        "run": (State.DELAYED,),
        "reprioritise": WAITING,
        "requeue": (State.RUNNING,),
        "bury": (*WAITING, State.RUNNING),
        "move": (State.READY, State.DELAYED),
        "edit": (*WAITING, State.DEAD),
    }
)
"""Return the verbs of native jobs, and the states to which they apply."""


def newest_first(state: str, newest: bool | None) -> bool:
    """Return whether a list starts with its highest scores: those of ended jobs do, `ready` never does."""
    if state == State.READY:
        return False
    return state in (State.DONE, State.DEAD, State.CANCELLED) if newest is None else newest


if not TYPE_CHECKING:  # most of what is imported from here is asked for before there is an adapter
    __getattr__, __dir__ = attach(__name__, {"qdeck.adapters.native.adapter": "ADAPTER=Native"})
