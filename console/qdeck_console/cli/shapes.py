"""The JSON of each thing, as `cli.md` promises it: fields are added here freely, never renamed or dropped."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from qdeck.admin import iso
from qdeck_console.cli.output import seconds

if TYPE_CHECKING:
    from qdeck.admin import Found, JobDetail, JobRecord, QueueRow, Snapshot, StuckJob, WorkerRow


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
    held = getattr(record, "stuck", None)
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
        # Of an entry of another system: what is wrong with it, and why it does not move.
        "problem": getattr(record, "problem", None),
        "stuck": None if held is None else str(held),
        "stuck_code": None if held is None else held.code.value,
    }


def _s(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def found(place: Found) -> dict[str, Any]:
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
