"""Entries of an outbox: effects on other queues, written by the scripts and delivered by any client."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck._engine.codec import MAX_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FIELDS: Final = {"release": "io", "resolve": "qiro", "accept": "qischbae", "job": "qiptb", "watch": "ri"}
_OPAQUE: Final = ("b", "h", "e")  # payloads, heads and events are bytes as they are
_QUEUE: Final = re.compile(r"[^\s{}\x00-\x1f\x7f]{1,512}")
_PRIORITY: Final = re.compile(r"[0-9]{1,3}")
_OUTCOMES: Final = ("done", "dead", "cancelled", "discarded", "unknown")
_STATES: Final = ("ready", "delayed")


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """One effect: its kind, and its fields as text and as bytes."""

    kind: str
    text: dict[str, str]
    fields: dict[str, bytes]

    @property
    def makes_job(self) -> bool:
        """Return whether it adds a job to another queue."""
        return self.kind in ("accept", "job")

    @property
    def other_queue(self) -> str:
        """Return the queue that it is for; empty for an effect on its own queue."""
        return self.text["r"].partition("@")[2] if self.kind == "watch" else self.text.get("q", "")

    def job(self) -> dict[str, bytes]:
        """Return the fields of its job, as `accept_job` takes them; a new job has no state yet."""
        return (
            self.fields
            if self.kind == "accept"
            else {"c": self.fields["p"], "h": self.fields["t"], "b": self.fields["b"]}
        )


def read_entry(flat: Sequence[bytes]) -> OutboxEntry:
    """Read the names and values of an entry; raise `ValueError` for one that cannot be delivered."""
    fields = {name.decode("utf-8", "replace"): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
    text = {name: _text(name, value) for name, value in fields.items() if name not in _OPAQUE}
    kind = text.get("k", "")
    if kind not in _FIELDS:
        raise ValueError(f"unknown kind {kind[:40]!r}")
    for name in _FIELDS[kind]:
        if name not in fields:
            raise ValueError(f"an entry of kind {kind!r} without field {name!r}")
        if name in _CHECKS and not _CHECKS[name](text[name]):
            raise ValueError(f"field {name!r} of an entry of kind {kind!r} is {text[name][:40]!r}")
    if kind == "watch" and not _is_in_other_queue(text["r"]):
        raise ValueError(f"field 'r' of an entry of kind {kind!r} is {text['r'][:40]!r}")
    return OutboxEntry(kind, text, fields)


def _text(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ValueError(f"field {name[:40]!r} is not UTF-8: {value[:20]!r}") from None


def _is_score(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def _is_in_other_queue(ref: str) -> bool:
    parent, _, queue = ref.partition("@")
    return bool(parent) and _QUEUE.fullmatch(queue) is not None


_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "i": lambda text: text != "",
    "q": lambda text: _QUEUE.fullmatch(text) is not None,
    "o": lambda text: text in _OUTCOMES,
    "s": lambda text: text in _STATES,
    "c": _is_score,
    "p": lambda text: _PRIORITY.fullmatch(text) is not None and int(text) <= MAX_PRIORITY,
}
