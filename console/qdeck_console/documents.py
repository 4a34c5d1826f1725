"""The JSON of each value, as commands write it and screens export it: fields are added, never renamed or dropped."""

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
        Group,
        HealthReport,
        JobDetail,
        JobLocation,
        JobRecord,
        Outcomes,
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
    """The function for each type; one that builds on another stands before it."""
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


def snapshot(seen: Snapshot) -> dict[str, Any]:
    """`qdeck status`."""
    server = seen.server
    return {
        "at": iso(seen.at_ms),
        "server": {
            "version": server.version,
            "mode": server.mode,
            "role": server.role,
            "name": server.name,
            "address": server.address,
            "uptime_s": server.uptime_s,
            "clients": server.clients,
            "memory_bytes": server.memory_bytes,
            "max_memory_bytes": server.max_memory_bytes,
            "eviction": server.eviction,
            "persistence": server.persistence,
            "save_failed": server.save_failed,
            "commands_per_s": server.commands_per_s,
        },
        "status": seen.status.value,
        "findings": [finding.as_json() for finding in seen.findings],
        "notices": list(seen.notices),
        "adapters": list(seen.adapters),
        "totals": {
            "ready": seen.totals.ready,
            "delayed": seen.totals.delayed,
            "blocked": seen.totals.blocked,
            "running": seen.totals.running,
            "stuck": seen.totals.stuck,
            "late": seen.totals.late,
            "dead": seen.totals.dead,
        },
        "workers_alive": seen.workers_alive,
        "queues": [queue(row) for row in seen.queues],
    }


def exact(text: str | None) -> Any:
    """A text, or where it stands for bytes that are none, these bytes as `{"base64": …}`."""
    if text is None or text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"base64": base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()}
    return text


def queue(row: QueueRow) -> dict[str, Any]:
    """One queue of `qdeck status`."""
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
        "limit": row.limit,
        "rate": None if row.rate is None else {"count": row.rate[0], "per_s": row.rate[1] / 1000},
        "in_per_s": seconds(row.in_per_s),
        "out_per_s": seconds(row.out_per_s),
        "workers": row.workers,
        "totals": dict(row.totals),
        "unknown_tasks": [
            {"task": one.task, "jobs": one.jobs, "since": iso(one.since_ms)} for one in row.unknown_tasks
        ],
        "problem": None if row.problem is None else row.problem.text,
        "problem_code": None if row.problem is None else row.problem.code.value,
    }


def job(record: JobRecord) -> dict[str, Any]:
    """One job of a list."""
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
    """One place of `qdeck find`."""
    return {
        "adapter": place.adapter,
        "queue": exact(place.queue),
        "id": exact(place.id),
        "key": exact(place.key),
        "state": place.state,
    }


def worker(row: WorkerRow) -> dict[str, Any]:
    """One worker of `qdeck workers`."""
    return {
        "id": row.id,
        "adapter": row.adapter,
        "alive": row.alive,
        "state": row.state,
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
    """One dead letter of a list."""
    return job(record) | _queue_from(record)


def whole_letter(record: JobDetail, listed: JobRecord) -> dict[str, Any]:
    """One line of `qdeck dead export`: all about a job that a list has."""
    return detail(record) | _queue_from(listed)


def _queue_from(record: JobRecord) -> dict[str, Any]:
    return {"queue_from": getattr(record, "queue_from", None) or record.queue}


def group(found: Group, *, exact: bool) -> dict[str, Any]:
    """One group of dead letters."""
    return {
        "error_class": found.error_class,
        "message_shape": found.message_shape,
        "adapter": found.adapter,
        "queue": found.queue,
        "count": found.count,
        "first_at": iso(found.first_ms or None),
        "last_at": iso(found.last_ms or None),
        "newest_id": found.newest_id,
        "exact": exact,
    }


def schedule(row: ScheduleRow) -> dict[str, Any]:
    """One schedule of `qdeck schedule`."""
    return {
        "name": row.name,
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
        "priority": row.priority,
        "late_s": row.late_s,
        "problem": row.problem or None,
    }


def operation(entry: Activity) -> dict[str, Any]:
    """One operation of `qdeck activity`."""
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
    }


def plan_entry(entry: PlanEntry) -> dict[str, Any]:
    """One entry of a plan; of a purge with the rule that took it."""
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
    """What happened to the jobs of an operation."""
    return {
        "total": found.total,
        "done": found.done,
        "dead_again": found.dead_again,
        "waiting": found.waiting,
        "running": found.running,
        "cancelled": found.cancelled,
        "gone": found.gone,
        "failed_again": found.failed_again,
        "unknown": found.unknown,
    }


def batch_outcomes(found: BatchOutcomes) -> dict[str, Any]:
    """The same of a batch that was applied before, as far as it is kept."""
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
    """`qdeck health`."""
    from qdeck.admin import health_document

    return health_document(report)


def removal(one: Removal) -> dict[str, Any]:
    """One temporary queue that `qdeck clean` removes or would remove."""
    return {
        "queue": one.name,
        "outcome": one.outcome,
        "messages": one.messages,
        "bytes": one.bytes,
        "idle_s": one.idle_s,
        "undoable": one.undoable,
    }


def temporary_task(row: TaskRow) -> dict[str, Any]:
    """One task that owns temporary queues."""
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
    """One temporary queue that is registered."""
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
    """A plan without its entries, of which it may have a million."""
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
        "count": planned.count,
        "states": tail.states,
        "bytes": tail.bytes,
        "totals": {
            "dependents": tail.totals.dependents,
            "unique": tail.totals.unique,
            "unique_held": tail.totals.unique_held,
            "running": tail.totals.running,
            "failure_handlers": tail.totals.failure_handlers,
        },
        "skipped": [skip.as_json() for skip in tail.skipped],
        "cautions": [caution.as_json() for caution in tail.cautions],
    }
    if planned.verb is not Verb.PURGE:
        return facts
    return facts | {"rules": [used.as_json() for used in head.rules], "counts": tail.rules}


def _adapter_of(queues: Sequence[QueueRef]) -> str | None:
    """The adapter of all these queues; None when they are of several."""
    adapters = {queue.adapter for queue in queues}
    return adapters.pop() if len(adapters) == 1 else None if adapters else "native"


def batch(result: BatchResult, found: Outcomes | None = None) -> dict[str, Any]:
    """What was done by a plan."""
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
