"""Job ids: made by the caller, in order of time, unique without a server."""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
from typing import Final

from qdeck._errors import InvalidOption

_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_VALID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_MADE: Final = re.compile(r"[0-9a-f]{13}[0-9a-z]{7}")


class _IdMaker:
    """Rising microseconds, followed by a random part of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_us = 0
        self._node = "".join(secrets.choice(_ALPHABET) for _ in range(7))

    def make(self) -> str:
        with self._lock:
            us = time.time_ns() // 1000
            if us <= self._last_us:
                us = self._last_us + 1
            self._last_us = us
        return f"{us:013x}{self._node}"


_maker = _IdMaker()


def is_made(text: str) -> bool:
    """Return whether a text has the form of the ids that `new_id` makes."""
    return _MADE.fullmatch(text) is not None


def new_id() -> str:
    """Return a new id, greater than every id that this process made before, so that ties in time stay in order."""
    return _maker.make()


def check_id(text: object) -> str:
    """Return an id of a caller; raise for one that scripts or JSON cannot carry."""
    if not isinstance(text, str) or not _VALID.fullmatch(text):
        raise InvalidOption(
            f"job id {text!r} is not valid",
            hint="Use 1 to 128 of letters, digits and . _ : - starting with a letter or digit.",
        )
    return text


# A child of `fork` needs a random part of its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_maker.__init__)  # type: ignore[misc]  # started anew on purpose
