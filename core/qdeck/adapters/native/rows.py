"""A job as a filter sees it while very many are looked at: what a filter asks for is read out of the raw values when it
asks, and the short ways are taken for what is asked of nearly every dead letter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from qdeck._deck import payload
from qdeck._deck.model import NATIVE, JobRecord, State
from qdeck._deck.records import Raw, make_record
from qdeck._engine.codec import BAND
from qdeck._engine.numbers import clipped, digits
from qdeck._redis.commands import text_of

if TYPE_CHECKING:
    from qdeck._filter import Filter
    from qdeck._filter.nodes import Node

_MOST_CLASSES: Final = 10_000
_DONE: Final = State.DONE  # found here at half the cost
ENDED: Final = (State.DEAD, State.CANCELLED, State.DONE)
# An event as workers write it; every other one is read the long way.
_class_in: Final = re.compile(rb'([0-9]+) (?:failed|timeout) {"class":"([^"\\]+)"').match
_FAILED: Final = b'failed {"class":"'
_TIME: Final = 15  # from before the line to after its time and a blank
_decode: Final = msgspec.json.Decoder().decode
_classes: dict[bytes, str] = {}


class _Told(msgspec.Struct):
    message: str


_decode_told: Final = msgspec.json.Decoder(_Told).decode


class Row(msgspec.Struct, eq=False, gc=False):
    """One job, lazily. It has the attributes that a filter asks records for.

    A struct that the garbage collector passes over, because millions are made; it is in no circle.
    """

    adapter: ClassVar[str] = NATIVE

    queue: str
    state: str
    raw_id: bytes
    score: bytes
    now: int
    plain: bool
    since: int | None = None
    head_raw: bytes | None = None
    tries_raw: bytes | None = None
    lease_raw: bytes | None = None
    error_raw: bytes | None = None
    body_raw: bytes | None = None
    record: JobRecord | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.full(), name)

    def put(self, part: str, value: bytes | None) -> None:
        """Gives it a raw value."""
        setattr(self, f"{part}_raw", value)

    @property
    def raw(self) -> Raw:
        """What was read of it."""
        return Raw(
            self.id, self.state, float(self.score), self.head_raw, self.tries_raw, self.lease_raw, self.error_raw,
            self.body_raw,
        )  # fmt: skip

    def full(self) -> JobRecord:
        """The record with everything that was read."""
        if self.record is None:
            self.record = make_record(self.queue, self.raw, self.now)
        return self.record

    @property
    def id(self) -> str:
        """Its id."""
        return text_of(self.raw_id)

    @property
    def at(self) -> int:
        """Its score."""
        return clipped(self.score)

    @property
    def since_ms(self) -> int | None:
        """When it came into its state."""
        if self.since is not None:
            return self.since
        if self.state in ENDED:
            return self.at
        if self.state == State.READY:
            return self.at % BAND
        return self.full().since_ms

    @property
    def age_s(self) -> float | None:
        """How long it is in its state."""
        since = self.since if self.since is not None else self.since_ms
        return None if since is None else (self.now - since) / 1000

    @property
    def error(self) -> str | None:
        """The bare class of what went wrong last."""
        raw = self.error_raw
        if raw is None or self.state == _DONE:
            return self.full().error
        start = raw.rfind(b"\n") + _TIME
        # Up to the end of the class in an event as workers write it; it is only known when it was read the long way.
        opening = raw[start : raw.find(b'"', start + len(_FAILED))]
        known = _classes.get(opening)
        if known is None:
            known = self.full().error or ""
            found = _class_in(raw, start - _TIME + 1)
            if found is not None and opening == _FAILED + found[2] and len(_classes) < _MOST_CLASSES:
                _classes[opening] = known
        return known

    @property
    def message(self) -> str | None:
        """The message of what went wrong last."""
        raw = self.error_raw
        found = None if raw is None else _class_in(raw, raw.rfind(b"\n") + 1)
        if raw is None or found is None or self.state == _DONE:
            return self.full().message
        try:
            text = _decode_told(raw[raw.index(b"{", found.start()) :]).message
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self.full().message
        return payload.mask_text(text)

    @property
    def failed_ms(self) -> int | None:
        """When it went wrong last."""
        raw = self.error_raw
        found = None if raw is None else _class_in(raw, raw.rfind(b"\n") + 1)
        at = None if found is None else digits(found[1])
        return at if at is not None and self.state != _DONE else self.full().failed_ms

    def payload(self) -> Any:
        """The payload; without the work of masking where nothing in it can be a secret that this filter reaches."""
        body = self.body_raw
        if self.plain and body is not None and not payload.may_hold_secrets(body):
            try:
                value = _decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return self._shown()
            return value if type(value) is list else self._shown()
        return self._shown()

    def _shown(self) -> Any:
        body = self.body_raw
        # A failure handler's payload is netstrings, which start with a length.
        return payload.read(body, is_handler=body is not None and body[:1].isdigit())

    def text(self) -> str:
        """All its text, with secrets masked."""
        return self.full().text()


def reaches_no_secret(wanted: Filter | None) -> bool:
    """Whether none of the payload fields that a filter names could be masked, so that masking cannot matter."""
    return wanted is None or _plain(wanted.node)


def _plain(node: Node) -> bool:
    parts: Any = getattr(node, "nodes", None)
    if parts is not None:
        return all(map(_plain, parts))
    inner: Any = getattr(node, "node", None)
    if inner is not None:
        return _plain(inner)
    return not any(payload.is_secret(segment) for segment in getattr(node, "path", ()))
