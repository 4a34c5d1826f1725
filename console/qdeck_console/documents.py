"""The JSON of each value, as commands and exports write it. Fields are added, never renamed or dropped."""

from __future__ import annotations

import base64
from functools import cache
from typing import TYPE_CHECKING, Any

from qdeck.admin import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck.admin import (
        Activity,
        BatchOutcomes,
        BatchResult,
        Finding,
        Group,
        HealthReport,
        JobDetail,
        JobLocation,
        JobRecord,
        Outcomes,
        Pause,
        Plan,
        PlanEntry,
        QueueRef,
        QueueRow,
        ScheduleRow,
        Snapshot,
        StuckJob,
        WorkerRow,
    )
    from qdeck.messages import Removal, TaskRow, TemporaryQueue


def document(value: object) -> dict[str, Any]:
    """Return the JSON of a value of the model, by its type."""
    for kind, make in _makers().items():
        if isinstance(value, kind):
            return make(value)
    raise TypeError(f"{type(value).__name__} has no JSON")


@cache
def _makers() -> dict[type, Callable[[Any], dict[str, Any]]]:
    """Return the function for each type, subclasses first."""
    from qdeck import admin, messages

    return {
        admin.QueueRow: queue,
        admin.JobDetail: detail,
        admin.JobRecord: job,
        admin.StuckJob: stuck,
        admin.WorkerRow: worker,
        admin.ScheduleRow: schedule,
        admin.Activity: operation,
        admin.PlanEntry: plan_entry,
        admin.BatchOutcomes: batch_outcomes,
        admin.HealthReport: health,
        messages.Removal: removal,
        messages.TaskRow: temporary_task,
        messages.TemporaryQueue: temporary_queue,
    }


def seconds(value: float | None) -> float | None:
    """Return an age to the millisecond."""
    return None if value is None else round(value, 3)


def _fields(value: object, names: str) -> dict[str, Any]:
    """Return attributes that have the same name and value in JSON."""
    return {name: getattr(value, name) for name in names.split()}


def snapshot(seen: Snapshot) -> dict[str, Any]:
    """Return the JSON of `qdeck status`."""
    from qdeck.admin import answers

    return {
        "at": iso(seen.at_ms),
        "server": _fields(
            seen.server,
            "version mode role name address uptime_s clients memory_bytes max_memory_bytes eviction persistence "
            "save_failed commands_per_s",
        ),
        "status": seen.status.value,
        "findings": [finding.as_json() for finding in seen.findings],
        "notices": list(seen.notices),
        "adapters": list(seen.adapters),
        "totals": _fields(seen.totals, "ready delayed blocked running stuck late dead"),
        "workers_alive": seen.workers_alive,
        "answers": [answer.as_json() for answer in answers(seen.findings, seen.checks)],
        "queues": [queue(row) | {"answers": found} for row, found in zip(seen.queues, _answers(seen), strict=True)],
    }


def _answers(seen: Snapshot) -> list[dict[str, str]]:
    """Return how each queue stands in each of the three questions."""
    from qdeck.admin import answers, findings_of

    told: dict[QueueRef, list[Finding]] = {}
    for one in seen.findings:
        if one.queue is not None:
            told.setdefault(one.queue, []).append(one)
    found = (answers(findings_of(row, told.get(row.ref, ()), seen.severities)) for row in seen.queues)
    return [{one.question.value: one.as_json()["status"] for one in each} for each in found]


def exact(text: str | None) -> Any:
    """Return a text, or `{"base64": …}` where it stands for bytes that are not text."""
    if text is None or text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"base64": base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()}
    return text


def queue(row: QueueRow) -> dict[str, Any]:
    """Return one queue of `qdeck status`."""
    return {
        "adapter": row.adapter,
        "name": exact(row.name),
        "ready": row.ready,
        "delayed": row.delayed,
        "blocked": row.blocked,
        "running": row.running,
        "done": row.done,
        "dead": row.dead,
        "cancelled": row.cancelled,
        "stuck": row.stuck,
        "late": row.late,
        "oldest_s": seconds(row.oldest_s),
        "paused": row.paused,
        "pause": None if row.pause is None else pause(row.pause),
        "limit": row.limit,
        "rate": None if row.rate is None else {"count": row.rate[0], "per_s": row.rate[1] / 1000},
        "in_per_s": seconds(row.in_per_s),
        "out_per_s": seconds(row.out_per_s),
        "workers": row.workers,
        "failing": None if row.failing is None else {"now_percent": row.failing[0], "before_percent": row.failing[1]},
        "orphaned": row.orphaned,
        "totals": dict(row.totals),
        "unknown_tasks": [
            {"task": one.task, "jobs": one.jobs, "since": iso(one.since_ms)} for one in row.unknown_tasks
        ],
        "problem": None if row.problem is None else row.problem.text,
        "problem_code": None if row.problem is None else row.problem.code.value,
    }


def pause(value: Pause) -> dict[str, Any]:
    """Return who paused a queue, when and why."""
    return {"who": value.who, "at": iso(value.at_ms), "reason": value.reason}


def job(record: JobRecord) -> dict[str, Any]:
    """Return one job of a list."""
    return {
        "id": exact(record.id),
        "key": exact(record.key),
        "adapter": record.adapter,
        "queue": exact(record.queue),
        "state": record.state,
        "native_state": record.native_state,
        "name": exact(record.name),
        "task": record.task,
        "priority": record.priority,
        "priority_name": record.priority_name,
        "attempts": record.attempts,
        "crashes": record.crashes,
        "tags": list(record.tags),
        "enqueued_at": iso(record.enqueued_ms),
        "due_at": iso(record.due_ms),
        "age_s": seconds(record.age_s),
        "worker": record.worker,
        "error_class": record.error,
        "error_message": record.message,
        "failed_at": iso(record.failed_ms),
        "payload": record.payload(),
    }


def detail(record: JobDetail) -> dict[str, Any]:
    """`qdeck job`."""
    failure = record.failure
    held = record.stuck
    return job(record) | {
        "history": [{**event.data, "at": iso(event.at_ms), "kind": event.kind} for event in record.history],
        "error": None
        if failure is None
        else {
            "class": failure.class_name,
            "message": failure.message,
            "traceback": failure.traceback,
            "kind": failure.kind,
            "at": iso(failure.at_ms),
        },
        "depends_on": list(record.depends_on),
        "dependents": list(record.dependents),
        "more_dependents": record.more_dependents,
        "has_result": record.has_result,
        "result": record.result,
        "log": record.log,
        "limits": {
            "retries": record.retries,
            "backoff": record.backoff,
            "time_limit_s": _s(record.time_limit_ms),
            "lease_s": _s(record.lease_ms),
            "keep_result_s": _s(record.keep_result_ms),
            "expires_at": iso(record.expires_ms),
        },
        "unique": record.unique,
        "outages": record.outages,
        "on_failure": record.on_failure,
        "handler_of": record.handler_of,
        "run_anyway": record.run_anyway,
        "claimed_at": iso(record.claimed_ms),
        "lease_until": iso(record.lease_until_ms),
        "cancel_requested": record.cancel_requested,
        "payload_bytes": record.body_bytes,
        "problem": record.problem,
        "stuck": None if held is None else str(held),
        "stuck_code": None if held is None else held.code.value,
    }


def _s(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def found(place: JobLocation) -> dict[str, Any]:
    """Return one place of `qdeck find`."""
    return {
        "adapter": place.adapter,
        "queue": exact(place.queue),
        "id": exact(place.id),
        "key": exact(place.key),
        "state": place.state,
        "match": place.match,
    }


def worker(row: WorkerRow) -> dict[str, Any]:
    """Return one worker of `qdeck workers`."""
    return {
        "id": row.id,
        "adapter": row.adapter,
        "alive": row.alive,
        "state": row.state,
        "condition": row.condition,
        "requested": row.requested,
        "host": row.host,
        "pid": row.pid,
        "version": row.version,
        "queues": dict(row.queues),
        "concurrency": row.concurrency,
        "running": row.running,
        "done": row.done,
        "failed": row.failed,
        "stuck_handlers": row.stuck_handlers,
        "memory_bytes": row.memory_bytes,
        "started_at": iso(row.started_ms),
        "heartbeat_at": iso(row.heartbeat_ms),
        "heartbeat_s": seconds(row.heartbeat_s),
    }


def stuck(job: StuckJob) -> dict[str, Any]:
    """One line of `qdeck stuck`."""
    return {
        "id": exact(job.id),
        "adapter": job.adapter,
        "queue": exact(job.queue),
        "code": job.why.code.value,
        "why": str(job.why),
        "age_s": seconds(job.age_s),
        "stuck_s": seconds(job.stuck_s),
        "worker": job.worker,
        "worker_alive": job.worker_alive,
        "task": job.task,
        "attempts": job.attempts,
    }


def letter(record: JobRecord) -> dict[str, Any]:
    """Return one dead letter of a list."""
    return job(record) | _queue_from(record)


def whole_letter(record: JobDetail, listed: JobRecord) -> dict[str, Any]:
    """Return one line of `qdeck dead export`: a listed job in full."""
    return detail(record) | _queue_from(listed)


def _queue_from(record: JobRecord) -> dict[str, Any]:
    return {"queue_from": getattr(record, "queue_from", None) or record.queue}


def group(found: Group, *, exact: bool) -> dict[str, Any]:
    """Return one group of dead letters."""
    return {
        "error_class": found.error_class,
        "message_shape": found.message_shape,
        "adapter": found.adapter,
        "queue": found.queue,
        "count": found.count,
        "first_at": iso(found.first_ms or None),
        "last_at": iso(found.last_ms or None),
        "newest_id": found.newest_id,
        "permanent": found.is_permanent,
        "exact": exact,
    }


def schedule(row: ScheduleRow) -> dict[str, Any]:
    """Return one schedule of `qdeck schedule`."""
    return {
        "name": row.name,
        "adapter": row.adapter or "native",
        "queue": row.queue,
        "task": row.task,
        "cron": row.cron,
        "tz": row.tz,
        "next_at": iso(row.next_ms),
        "last_at": iso(row.last_ms),
        "last_outcome": row.last_outcome,
        "enabled": row.enabled,
        "missed_runs": row.missed_runs,
        "missed_policy": row.policy,
        "jobs_made": row.jobs_made,
        "last_id": row.last_id,
        "next_id": row.next_id,
        "priority": row.priority,
        "late_s": row.late_s,
        "problem": row.problem or None,
    }


def operation(entry: Activity) -> dict[str, Any]:
    """Return one operation of `qdeck activity`."""
    return {
        "at": iso(entry.at_ms),
        "who": entry.who,
        "host": entry.host,
        "verb": entry.verb,
        "queues": list(entry.queues),
        "filter": entry.filter,
        "detail": entry.detail,
        "rules": [used.as_json() for used in entry.rules],
        "counts": dict(entry.counts),
        "outcome": entry.outcome,
        "batch": entry.batch,
        "plan": entry.plan,
        "reason": entry.reason,
        "undo_until": iso(entry.undo_until_ms),
        "continued_by": entry.continued_by or None,
    }


def plan_entry(entry: PlanEntry) -> dict[str, Any]:
    """Return one entry of a plan; of a purge with its rule."""
    rule = {"rule": entry.rule} if entry.rule else {}
    return {
        "adapter": entry.adapter,
        "queue": entry.queue,
        "id": entry.id,
        "state": entry.state,
        **rule,
        "verb": entry.verb,
        "reason": entry.reason,
        "age_s": seconds(entry.age_s),
        "bytes": entry.bytes,
    }


def outcomes(found: Outcomes) -> dict[str, Any]:
    """Return what happened to the jobs of an operation."""
    return _fields(found, "total done dead_again waiting running cancelled gone failed_again unknown")


def batch_outcomes(found: BatchOutcomes) -> dict[str, Any]:
    """Return the stored outcomes of an earlier batch."""
    return {
        "batch": found.batch,
        "verb": found.verb,
        "queues": list(found.queues),
        "undone": found.undone,
        "undo_until": iso(found.until_ms),
        "errors": dict(found.errors),
        "outcomes": outcomes(found),
    }


def health(report: HealthReport) -> dict[str, Any]:
    """Return the JSON of `qdeck health`."""
    from qdeck.admin import health_document

    return health_document(report)


def removal(one: Removal) -> dict[str, Any]:
    """Return one temporary queue of `qdeck clean`."""
    return {
        "queue": one.name,
        "outcome": one.outcome,
        "why": one.outcome.why,
        "cause": one.cause,
        "messages": one.messages,
        "bytes": one.bytes,
        "idle_s": one.idle_s,
        "undoable": one.undoable,
    }


def temporary_task(row: TaskRow) -> dict[str, Any]:
    """Return one task that owns temporary queues."""
    return {
        "task": row.task,
        "queues": row.queues,
        "waited_on": row.waited_on,
        "expired": row.expired,
        "services": list(row.services),
        "tier": row.tier,
        "made_at": iso(row.made_ms),
        "expires_at": iso(row.expires_ms),
    }


def temporary_queue(row: TemporaryQueue) -> dict[str, Any]:
    """Return one registered temporary queue."""
    return {
        "queue": row.name,
        "service": row.service,
        "type": row.type,
        "tier": row.tier,
        "task": row.task,
        "made_at": iso(row.made_ms),
        "ttl_s": row.ttl_ms / 1000,
        "expires_at": iso(row.expires_ms),
        "waited_on_until": iso(row.waited_until_ms or None),
        "exists": row.exists,
        "bytes": row.bytes,
        "idle_s": row.idle_s,
    }


def plan(planned: Plan) -> dict[str, Any]:
    """Return a plan without its entries, which can be a million."""
    from qdeck.admin import Verb

    head, tail = planned.head, planned.tail
    queues = head.queues
    facts = {
        "plan": planned.id,
        "file": str(planned.path),
        "verb": planned.verb.value,
        "adapter": _adapter_of(queues),
        "queue": queues[0].name if len(queues) == 1 else None,
        "queues": {planned.label(queue): count for queue, count in planned.by_queue.items()},
        "created_at": iso(head.created_ms),
        "expires_at": iso(head.expires_ms),
        "filter": head.filter,
        "priority": head.priority,
        "target": head.target,
        "ignore_dependencies": head.ignore_dependencies,
        "count": planned.count,
        "states": tail.states,
        "bytes": tail.bytes,
        "totals": _fields(tail.totals, "dependents starting unique unique_held running failure_handlers waiting_again"),
        "skipped": [skip.as_json() for skip in tail.skipped],
        "cautions": [caution.as_json() for caution in tail.cautions],
        "undoable": planned.count if tail.undoable is None else tail.undoable,
    }
    if planned.verb is not Verb.PURGE:
        return facts
    return facts | {"rules": [used.as_json() for used in head.rules], "counts": tail.rules}


def _adapter_of(queues: Sequence[QueueRef]) -> str | None:
    """Return the adapter of these queues; None for several, and for none."""
    adapters = {queue.adapter for queue in queues}
    return adapters.pop() if len(adapters) == 1 else None


def batch(result: BatchResult, found: Outcomes | None = None) -> dict[str, Any]:
    """Return the batch of a plan."""
    return {
        "batch": result.batch,
        "verb": result.verb.value,
        "adapter": _adapter_of(result.queues),
        "queue": result.queues[0].name if len(result.queues) == 1 else None,
        "queues": result.labels,
        "applied": result.applied,
        "cancel_requested": result.cancel_requested,
        "skipped": [skip.as_json() for skip in result.skipped],
        "skipped_count": result.skipped_count,
        "undo_until": iso(result.undo_until_ms),
        "undoable": result.undoable,
        "stopped": None if result.stopped is None else result.stopped.text,
        "stopped_code": None if result.stopped is None else result.stopped.code.value,
        "error": result.error,
        "outcomes": None if found is None else outcomes(found),
    }
