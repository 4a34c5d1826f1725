"""A field of one line: nothing in it blinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Input

if TYPE_CHECKING:
    from textual.suggester import Suggester


class Entry(Input):
    """A field without a frame, whose cursor stands still: what blinks takes the eye away from what is wrong."""

    def __init__(
        self,
        value: str = "",
        *,
        id: str | None = None,
        placeholder: str = "",
        suggester: Suggester | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(value, placeholder, id=id, suggester=suggester, classes=classes, compact=True)
        self.cursor_blink = False
