"""Ids of jobs: made by the caller, in order of time, unique without asking anyone."""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
from typing import Final

from qdeck._errors import InvalidOption

ID_LENGTH: Final = 20
_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_VALID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def _new_node() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(7))


_lock = threading.Lock()
_node = _new_node()
_last_us = 0


def new_ids(count: int) -> list[str]:
    """`count` new ids, each greater than every id this process made before, so that ties in time stay in order."""
    global _last_us
    with _lock:
        first = max(_last_us + 1, time.time_ns() // 1000)
        _last_us = first + count - 1
        node = _node
    return [f"{us:013x}{node}" for us in range(first, first + count)]


def new_id() -> str:
    """One new id."""
    return new_ids(1)[0]


def check_id(text: str) -> str:
    """Returns an id that came from a caller if scripts and JSON can carry it as it is."""
    if not _VALID.fullmatch(text):
        raise InvalidOption(
            f"job id {text!r} is not valid",
            hint="use 1 to 128 of letters, digits and . _ : - starting with a letter or digit",
        )
    return text


def _after_fork() -> None:
    global _node, _lock
    _node = _new_node()
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
