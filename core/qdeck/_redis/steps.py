"""Operations of many steps as generators: programs to run, work off the event loop, and pauses."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from qdeck._engine.ops import Program

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """A program to run; a reader refuses one that `writes`."""

    program: Program[Any]
    writes: bool = True


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds to wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Offload:
    """Work that takes too long for an event loop, such as reading a large plan."""

    work: Callable[[], Any]


Steps = Generator[Step | Pause | Offload, Any, T]
_GLANCE_S: Final = 0.2


def waiting(seconds: float, cancelled: Callable[[], bool] | None) -> Steps[None]:
    """Waits, in pieces where it can be cancelled: at a slow rate whoever stops it would else wait for long."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not (cancelled is not None and cancelled()):
        yield Pause(left if cancelled is None else min(left, _GLANCE_S))
