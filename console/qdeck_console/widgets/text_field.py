"""A field of one line: nothing in it blinks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from textual.widgets import Input

if TYPE_CHECKING:
    from textual.suggester import Suggester

# What a terminal could obey, and tabs and ends of lines, whose width is not what it is counted.
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class TextField(Input):
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

    def validate_value(self, value: str) -> str:
        """Return what is pasted may hold anything: controls are blanks here, one for one, so that the cursor stays."""
        return _CONTROLS.sub(" ", value)
