"""What was typed before in a field, for the keys up and down."""

from __future__ import annotations

from collections import deque
from typing import Final

_MOST: Final = 100


class TypedHistory:
    """Texts that were used, the newest last; each is kept once."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque(maxlen=_MOST)

    def add(self, text: str) -> None:
        """Keep a text as the newest."""
        if text.strip():
            if text in self._texts:
                self._texts.remove(text)
            self._texts.append(text)

    def step(self, text: str, by: int) -> str:
        """Return the text that is `by` later than a kept one, empty after the newest; the same where none is kept."""
        if not self._texts:
            return text
        place = self._texts.index(text) if text in self._texts else len(self._texts)
        at = max(0, place + by)
        return self._texts[at] if at < len(self._texts) else ""

    def __contains__(self, text: str) -> bool:
        """Return whether a text is kept."""
        return text in self._texts
