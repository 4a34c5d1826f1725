"""The entries of batches in the log of operations: the entries for plans and batches, and reading them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._engine import keys
from qdeck._errors import UsageError
from qdeck._formatting import duration
from qdeck._model.masking import mask_text
from qdeck._model.values import Pause
from qdeck._operations.model import Activity
from qdeck._redis import reads
from qdeck._server import activity_log, queue_settings
from qdeck._server.activity_log import KEEP
from qdeck._settings.model import UsedRule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Command, Program

_PAGE: Final = 500
_ENDS_PAUSE: Final = ("resume", "remove")  # verbs of the log
_PAUSED: Final = {"pause": "paused", "quiet": "asked to be quiet"}
# Other programs write here, too.
_MOST_RULES: Final = 100
_TEXTS: Final = ("who", "host", "filter", "detail", "outcome", "plan", "reason", "continued_by")


def make(
    verb: str,
    at_ms: int,
    *,
    by: str | None = None,
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
    continued_by: str = "",
) -> Activity:
    """Return an entry, of this user on this host unless it is by another."""
    who, _, host = (queue_settings.actor() if by is None else by).rpartition("@")
    return Activity(
        at_ms=at_ms, who=who, host=host, verb=verb, queues=tuple(queues[:20]),
        filter=mask_text(filter), detail=mask_text(detail), rules=tuple(rules),
        counts=MappingProxyType(dict(counts or {})), outcome=outcome, batch=batch, plan=plan, reason=mask_text(reason),
        undo_until_ms=undo_until_ms, continued_by=continued_by,
    )  # fmt: skip


def as_json(entry: Activity) -> dict[str, Any]:
    """Return an entry as it is written: what looks like a secret in its texts was masked."""
    return {
        "at_ms": entry.at_ms, "who": entry.who, "host": entry.host, "verb": entry.verb, "queues": list(entry.queues),
        "filter": entry.filter, "detail": entry.detail,
        "rules": [one.as_json() for one in entry.rules], "counts": dict(entry.counts), "outcome": entry.outcome,
        "batch": entry.batch, "plan": entry.plan, "reason": entry.reason, "undo_until_ms": entry.undo_until_ms,
        "continued_by": entry.continued_by,
    }  # fmt: skip


def record(entry: Activity, *, then: Sequence[Command] = ()) -> Program[None]:
    """Write an entry to the server and to the file; an error of either does not stop the operation."""
    yield from activity_log.write(as_json(entry), then=then)


def record_again(entry: Activity) -> Program[None]:
    """Write an entry again to a server that did not answer, unless it has it; the file has it already."""
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


def find_pause(verb: str, what: str) -> Program[Pause]:
    """Return who paused a schedule, or asked a worker to be quiet, when and why; an empty pause where it was resumed
    since, or no entry is kept. An edit or a run does not end a pause.
    """
    last = b"+"
    for _ in range(2 * KEEP // _PAGE):
        rows = yield (b"XREVRANGE", keys.ACTIVITY.encode(), last, b"-", b"COUNT", _PAGE)
        for entry in _entries(rows):
            if activity_log.named(entry.detail) == mask_text(what) and entry.verb in (verb, *_ENDS_PAUSE):
                if entry.verb != verb:
                    return Pause()
                return Pause(who=f"{entry.who}@{entry.host}", at_ms=entry.at_ms, reason=entry.reason)
        if len(rows) < _PAGE:
            break
        last = b"(" + rows[-1][0]
    return Pause()


def need_pause(shown: Pause | None, verb: str, what: str) -> Program[None]:
    """Raise where a schedule or a worker was paused again since `shown`."""
    stands = shown if shown is None else (yield from find_pause(verb, what))
    if stands != shown and stands is not None:
        words = stands.words(duration((yield from reads.clock()) - (stands.at_ms or 0)))
        raise UsageError(f"{what} was {_PAUSED[verb]} again {words}", hint="It still is. Resume it if that is over.")


def newest(most: int = 500) -> Program[list[Activity]]:
    """Return the newest entries, the last one first, in one round trip."""
    return _entries((yield (b"XREVRANGE", keys.ACTIVITY.encode(), b"+", b"-", b"COUNT", most)))


def _entries(rows: Sequence[Any]) -> list[Activity]:
    """Return those that are ours."""
    entries = [read_entry(dict(reads.pairs(flat)).get(b"e")) for _, flat in rows]
    return [entry for entry in entries if entry is not None]


def read_entry(raw: bytes | None) -> Activity | None:
    """Return an entry of the log; None when another program wrote it."""
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
