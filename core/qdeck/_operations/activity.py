"""The log of operations: what is told of plans and batches, and reading it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._deck import activity_log, queue_settings
from qdeck._deck.activity_log import KEEP
from qdeck._deck.masking import mask_text
from qdeck._engine import keys
from qdeck._operations.model import Activity
from qdeck._redis import reads
from qdeck._settings.model import UsedRule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Program

_PAGE: Final = 500
_MOST_RULES: Final = 100  # other programs write here, too


_TEXTS: Final = ("who", "host", "filter", "detail", "outcome", "plan", "reason")  # other programs write here, too


def make(
    verb: str,
    at_ms: int,
    *,
    queues: Sequence[str] = (),
    filter: str = "",
    detail: str = "",
    rules: Sequence[UsedRule] = (),
    counts: Mapping[str, int] | None = None,
    outcome: str = "done",
    batch: str | None = None,
    plan: str | None = None,
    reason: str = "",
    undo_until_ms: int | None = None,
) -> Activity:
    """An entry of this user on this host."""
    who, _, host = queue_settings.actor().rpartition("@")
    return Activity(
        at_ms=at_ms, who=who, host=host, verb=verb, queues=tuple(queues[:20]),
        filter=mask_text(filter), detail=mask_text(detail), rules=tuple(rules),
        counts=MappingProxyType(dict(counts or {})), outcome=outcome, batch=batch, plan=plan, reason=mask_text(reason),
        undo_until_ms=undo_until_ms,
    )  # fmt: skip


def as_json(entry: Activity) -> dict[str, Any]:
    """An entry as it is written: what looks like a secret in its filter and its reason was masked."""
    return {
        "at_ms": entry.at_ms, "who": entry.who, "host": entry.host, "verb": entry.verb, "queues": list(entry.queues),
        "filter": entry.filter, "detail": entry.detail,
        "rules": [one.as_json() for one in entry.rules], "counts": dict(entry.counts), "outcome": entry.outcome,
        "batch": entry.batch, "plan": entry.plan, "reason": entry.reason, "undo_until_ms": entry.undo_until_ms,
    }  # fmt: skip


def record(entry: Activity) -> Program[None]:
    """Writes an entry to the server and to the file; that one of them cannot be written stops no operation."""
    yield from activity_log.write(as_json(entry))


def record_again(entry: Activity) -> Program[None]:
    """Writes an entry to the server that did not answer before, unless it came there then; the file has it already."""
    told = yield from newest()
    if not any((row.at_ms, row.who, row.host, row.verb) == (entry.at_ms, entry.who, entry.host, entry.verb)
               for row in told):  # fmt: skip
        yield from activity_log.write(as_json(entry), in_file=False)


def read(since_ms: int | None = None, most: int = KEEP) -> Program[list[Activity]]:
    """Return the entries since a moment, oldest first."""
    key = keys.ACTIVITY.encode()
    rows: list[Any] = []
    start = b"-" if since_ms is None else b"%d" % since_ms
    while len(rows) < most:
        page = yield (b"XRANGE", key, start, b"+", b"COUNT", _PAGE)
        rows += page
        if len(page) < _PAGE:
            break
        start = b"(" + page[-1][0]
    return _entries(rows)


def newest(most: int = 500) -> Program[list[Activity]]:
    """Return the newest entries, the last one first, in one round trip."""
    return _entries((yield (b"XREVRANGE", keys.ACTIVITY.encode(), b"+", b"-", b"COUNT", most)))


def _entries(rows: Sequence[Any]) -> list[Activity]:
    """Return those that are ours; one that tells of a beginning only as long as its end is not there."""
    entries = [read_entry(dict(reads.pairs(flat)).get(b"e")) for _, flat in rows]
    found = [entry for entry in entries if entry is not None]
    ended = {entry.batch for entry in found if entry.batch is not None and entry.outcome != "begun"}
    return [entry for entry in found if entry.outcome != "begun" or entry.batch not in ended]


def read_entry(raw: bytes | None) -> Activity | None:
    """An entry of the log; None when it is none of ours."""
    try:
        data = msgspec.json.decode(raw or b"")
        known = {name: data[name] for name in as_json(Activity(at_ms=0, who="", host="", verb="")) if name in data}
        known |= {name: mask_text(known[name]) for name in _TEXTS if isinstance(known.get(name), str)}
        known["queues"] = tuple(known.get("queues") or ())
        known["rules"] = tuple(msgspec.convert(known.get("rules") or [], list[UsedRule]))[:_MOST_RULES]
        known["counts"] = MappingProxyType(dict(known.get("counts") or {}))
        return Activity(**known)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return None
