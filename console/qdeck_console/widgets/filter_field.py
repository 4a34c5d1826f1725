"""The field of a filter: it completes what is typed, and keeps the filters before."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from qdeck_console.widgets.text_field import TextField

if TYPE_CHECKING:
    from collections import deque

    from textual.suggester import Suggester


class FilterField(TextField):
    """`tab` completes, `up` and `down` go through the filters that were kept."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "cursor_right", "complete", show=False),
        Binding("up", "recall(-1)", "the filter before", show=False),
        Binding("down", "recall(1)", "the next filter", show=False),
    ]

    def __init__(self, *, placeholder: str, suggester: Suggester | None, past: deque[str]) -> None:
        super().__init__(id="filter", placeholder=placeholder, suggester=suggester)
        self._past = past
        self._at: int | None = None

    def keep(self) -> None:
        """Remember the filter as the newest one."""
        self._at = None
        if self.value.strip():
            if self.value in self._past:
                self._past.remove(self.value)
            self._past.append(self.value)

    def action_recall(self, by: int) -> None:
        """Write an earlier filter, or a later one; after the newest the field is empty."""
        if not self._past or (self._at is None and by > 0):
            return
        at = max(0, (len(self._past) if self._at is None else min(self._at, len(self._past))) + by)
        self._at = at if at < len(self._past) else None
        self.value = self._past[at] if self._at is not None else ""
        self.cursor_position = len(self.value)
