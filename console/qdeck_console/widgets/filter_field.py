"""The field of a filter: it completes what is typed, and keeps the filters before."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from qdeck_console.filter_completion import FilterSuggester
from qdeck_console.widgets.text_field import TextField

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qdeck_console.feed import FeedState
    from qdeck_console.typed_history import TypedHistory


class FilterField(TextField):
    """`tab` completes, `up` and `down` go through the filters that were kept."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "cursor_right", "complete", show=False),
        Binding("up", "recall(-1)", "the filter before", show=False),
        Binding("down", "recall(1)", "the next filter", show=False),
    ]

    def __init__(self, *, placeholder: str, completes: bool, history: TypedHistory) -> None:
        self._completion = FilterSuggester() if completes else None
        super().__init__(id="filter", placeholder=placeholder, suggester=self._completion)
        self._history = history

    def complete_to(self, rows: Iterable[object], feed_state: FeedState) -> None:
        """Complete to the values of these jobs or groups, and of the queues."""
        if self._completion is not None:
            self._completion.listed = (list(rows), feed_state.snapshot)

    def keep(self) -> None:
        """Remember the filter as the newest one."""
        self._history.add(self.value)

    def action_recall(self, by: int) -> None:
        """Write an earlier filter, or a later one; after the newest the field is empty."""
        if by < 0 or self.value in self._history:
            self.value = self._history.step(self.value, by)
            self.cursor_position = len(self.value)
