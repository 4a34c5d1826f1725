"""Jobs of Sidekiq: JSON in a list, a sorted set, or the hash of what a process runs."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine.stored_numbers import score_ms, whole
from qdeck._model import payload
from qdeck._model.payload import shown_text, whole_text
from qdeck._model.reasons import Stuck, StuckCode
from qdeck._model.values import State
from qdeck._redis.commands import text_of
from qdeck.adapters.model import Entry, short
from qdeck.adapters.sidekiq.keys import NAME, RUNNING
from qdeck.adapters.stored_values import decode_json, inflated, stored_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.adapters.model import Raw

GRACE_MS: Final = 120_000  # processes look for due jobs every few seconds, the more of them the more rarely
_IN_MS: Final = 100_000_000_000  # Sidekiq 8 writes moments in ms, those before it in seconds
Job = dict[str, Any]


def read(raw: bytes | None) -> Job | None:
    """Return a job; None if it cannot be read."""
    value = decode_json(raw)
    return value if isinstance(value, dict) else None


def written(job: Job) -> bytes:
    """Return a job as Sidekiq writes it."""
    return json.dumps(job, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def in_ms(moment: Any) -> int | None:
    """Return a moment of a job in ms."""
    if isinstance(moment, bool) or not isinstance(moment, int | float):
        return None
    return whole(moment if abs(moment) > _IN_MS else moment * 1000)


def like(now: int, moment: Any) -> float | int:
    """Return a moment in the unit in which a job has another one."""
    is_ms = isinstance(moment, int | float) and abs(moment) > _IN_MS
    return now if is_ms else now / 1000


def fill(queue: str, raws: Sequence[Raw], now: int) -> list[Entry]:
    """Return the jobs of some members of a list or of a sorted set."""
    return [_entry(queue, raw, read(raw.member), now) for raw in raws]


def fill_running(queue: str, raws: Sequence[Raw], now: int) -> list[Entry]:
    """Return the jobs of a queue that processes run: a copy that is some seconds old."""
    found = []
    for raw in raws:
        work = read(raw.value) or {}
        if work.get("queue") != queue:
            continue
        inside = work.get("payload")
        job = read(inside.encode("utf-8", "replace")) if isinstance(inside, str) else inside
        job = job if isinstance(job, dict) else None
        entry = _entry(queue, raw, job, now, since=in_ms(work.get("run_at")), identity=_identity(raw))
        found.append(entry)
    return found


def _identity(raw: Raw) -> str:
    return text_of(raw.source.key).removesuffix(":work")


def _entry(
    queue: str, raw: Raw, job: Job | None, now: int, *, since: int | None = None, identity: str | None = None
) -> Entry:
    source = raw.source
    facts: dict[str, Any] = {
        "adapter": NAME, "queue": queue, "state": source.state, "native_state": source.native_state, "seen": raw.seen(),
    }  # fmt: skip
    if job is None or not isinstance(job.get("jid"), str):
        name = short(raw.member)
        return Entry(id=name, key=_key(queue, raw, name), problem="it is not a Sidekiq job", body=raw.member, **facts)
    jid = payload.mask_text(whole_text(job["jid"]))
    due = score_ms(raw.score, 1000) if source.state is State.DELAYED else None
    failed = in_ms(job.get("retried_at")) or in_ms(job.get("failed_at"))
    since = (
        since or (score_ms(raw.score, 1000) if source.state is State.DEAD else None) or in_ms(job.get("enqueued_at"))
    )
    home = shown_text(job.get("queue"))
    late = None if due is None else now - due
    overdue = late is not None and late > GRACE_MS
    error = job.get("error_class")
    return Entry(
        id=jid, key=_key(queue, raw, jid), task=shown_text(job.get("wrapped")) or shown_text(job.get("class")),
        enqueued_ms=in_ms(job.get("enqueued_at")) or in_ms(job.get("created_at")), due_ms=due,
        since_ms=since or in_ms(job.get("created_at")), worker=identity,
        attempts=_attempts(job), tags=_tags(job), queue_from=None if home == queue else home,
        error=shown_text(error) if error else None, message=shown_text(job.get("error_message")),
        failed_ms=failed if source.state is State.DEAD else None, log=_backtrace(job),
        body=stored_json({"class": job.get("class"), "args": job.get("args")}),
        stuck=Stuck(code=StuckCode.OVERDUE, seconds=(late or 0) / 1000) if overdue else None, **facts,
    )  # fmt: skip


def _key(queue: str, raw: Raw, name: str) -> str:
    """Return a unique key: the same job may be in a set with several scores."""
    place = "" if raw.score is None else f"@{text_of(raw.score)}"
    thread = text_of(raw.member) if raw.source.native_state == RUNNING else ""
    return f"{NAME}/{queue}/{raw.source.native_state}/{name}{place}{thread and '/' + thread}"


def _attempts(job: Job) -> int | None:
    """Return the number of failed attempts: the first failure has the count 0."""
    count = whole(job.get("retry_count"))
    return None if count is None else count + 1


def _tags(job: Job) -> tuple[str, ...]:
    tags, batch = job.get("tags"), shown_text(job.get("bid"))
    own = tuple(whole_text(one) for one in tags if isinstance(one, str)) if isinstance(tags, list) else ()
    return (*own, f"batch:{batch}") if batch else own


def _backtrace(job: Job) -> str | None:
    """Return the backtrace, if the job has one: JSON that is compressed and encoded."""
    stored = job.get("error_backtrace")
    if isinstance(stored, list):
        lines: Any = stored
    elif isinstance(stored, str):
        try:
            lines = json.loads(inflated(base64.b64decode(stored)) or b"")
        except (ValueError, RecursionError):
            return None
    else:
        return None
    return payload.mask_text(whole_text("\n".join(str(line) for line in lines))) if isinstance(lines, list) else None
