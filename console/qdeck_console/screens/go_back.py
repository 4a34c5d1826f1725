"""What esc does: the first of some steps that there is something to do for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from qdeck_console.actions import ActionHandler

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class BackStep:
    """One step back: whether there is something to do, what, and the label of the key then; without one it is that of
    the steps after it.
    """

    applies: Callable[[Any], bool]
    run: Callable[[Any], object]
    label: str = ""


def _can_cancel(screen: Any) -> bool:
    work = screen.console.operator.work
    return work is not None and not work.cancelled and work.stops_on in (None, getattr(screen, "drive", None))


CANCEL: Final = BackStep(applies=_can_cancel, run=lambda screen: screen.console.operator.cancel())
_LEAVE_FILTER: Final = BackStep(applies=lambda screen: screen.is_filter_typed, run=lambda screen: screen.set_filter(""))
CLEAR_FILTER: Final = BackStep(
    applies=lambda screen: screen.filter_text != "", run=lambda screen: screen.set_filter("")
)
CLEAR_MARKS: Final = BackStep(
    applies=lambda screen: bool(screen.view.marks or screen.view.all_marked),
    run=lambda screen: screen.clear_marks(),
    label="clear marks",
)


def _close(screen: Any) -> None:
    screen.on_key()  # rows below must not move under someone who goes back to them
    screen.console.back()


CLOSE: Final = BackStep(applies=lambda _screen: True, run=_close)


def back(*steps: BackStep) -> ActionHandler[Any]:
    """Return what does the first of these steps that applies; before all of them, esc clears a filter that is typed."""

    def first(screen: Any) -> BackStep | None:
        return next((step for step in (_LEAVE_FILTER, *steps) if step.applies(screen)), None)

    def run(screen: Any) -> None:
        step = first(screen)
        if step is not None:
            step.run(screen)

    def label(screen: Any) -> str:
        return next((step.label for step in steps if step.label and step.applies(screen)), "")

    return ActionHandler(
        run=run,
        reason=lambda screen: "" if first(screen) is not None else "nothing to close",
        label=label,
        offered=lambda screen: first(screen) is not None,
    )
