"""The metrics for Prometheus: those of the document on queue reliability, dots as underscores, with the prefix
`qdeck_`.

What the document writes into a name (a pool, a queue) is a label here; what the agents counted is the same on
every agent.
"""

from __future__ import annotations

import re
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from qdeck._engine.stored_numbers import whole
from qdeck._hidden_characters import HIDDEN, json_escape
from qdeck._model.values import State
from qdeck._rules.health import stuck_vms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from qdeck._model.values import QueueRow, Snapshot
    from qdeck._server.agent_tasks import AgentTask
    from qdeck.messages import LifeCycleCount

_OBEYED: Final = re.compile(rf"(?!\n){HIDDEN.pattern}")
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# The document's names for what a purge takes, and the rules of qdeck for it.
PURGES: Final = {
    "pending": ("pending_too_old", "lease_expired"),
    "ready": ("ready_too_old", "pool_ready_too_old"),
    "completed": ("done_too_old",),
    "orphaned": ("orphaned_records",),
}
_QUEUE: Final = ("adapter", "queue")
NO_KINDS: Final[Mapping[str, int | None]] = MappingProxyType({})


def expose(
    snapshot: Snapshot,
    report: Mapping[str, Any],
    tasks: Sequence[AgentTask],
    life: Sequence[LifeCycleCount] = (),
    dead: Mapping[str, int | None] = NO_KINDS,
) -> bytes:
    """Return the text of `/metrics`; `dead` has the number of dead letters where they are stored by kind."""
    registry = CollectorRegistry()
    queues = (*_queues(snapshot), *_kinds(dead), *_health(snapshot, report))
    registry.register(_Collected([*queues, *_purge(tasks), *_agents(tasks), *_life(life)]))
    # A name of another system's queue may have any character, and this may be shown in a terminal.
    return _OBEYED.sub(lambda found: "\\" + json_escape(found[0]), generate_latest(registry).decode()).encode()


class _Collected(Collector):
    def __init__(self, found: Sequence[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


def _queues(snapshot: Snapshot) -> Iterable[Metric]:
    rows = snapshot.queues  # counts that cannot be read are None, and left out
    sizes = GaugeMetricFamily("qdeck_health_queue_size", "Jobs of a queue in a state", labels=(*_QUEUE, "state"))
    for row in rows:
        for state in State:
            if (count := getattr(row, state.value)) is not None:
                sizes.add_metric((row.adapter, row.name, state.value), count)
    yield sizes
    yield _gauge(rows, "health_queue_oldest_age", "Seconds that the oldest job has waited to start", "oldest_s")
    yield _gauge(rows, "health_queue_stuck", "Jobs that are stuck", "stuck")
    yield _gauge(rows, "health_queue_late", "Jobs that have waited to start for longer than the threshold", "late")
    yield _gauge(rows, "health_queue_workers", "Living workers that serve the queue", "workers")
    yield _gauge(rows, "dlq_size", "Dead letters", "dead")
    for name, about in _TOTALS.items():
        family = CounterMetricFamily(f"qdeck_queue_{name}", about, labels=_QUEUE)
        for row in rows:
            if name in row.totals:
                family.add_metric((row.adapter, row.name), row.totals[name])
        yield family


_TOTALS: Final = {
    "enqueued": "Jobs enqueued since the queue was created",
    "done": "Jobs that succeeded",
    "failed": "Attempts that failed",
    "dead": "Jobs that became dead letters",
    "crashed": "Attempts whose worker was lost",
    "dropped_dead": "Dead letters dropped because of their age or number",
    "quarantined": "Outbox entries that could not be read and were moved to quarantine",
}


def _gauge(rows: Sequence[QueueRow], name: str, about: str, field: str) -> Metric:
    family = GaugeMetricFamily(f"qdeck_{name}", about, labels=_QUEUE)
    for row in rows:
        if (value := getattr(row, field)) is not None:
            family.add_metric((row.adapter, row.name), value)
    return family


def _kinds(dead: Mapping[str, int | None]) -> Iterable[Metric]:
    for kind, size in dead.items():
        if size is not None:
            yield GaugeMetricFamily(f"qdeck_dlq_{kind}_size", f"Dead letters of VMPooler of kind {kind}", value=size)


def _health(snapshot: Snapshot, report: Mapping[str, Any]) -> Iterable[Metric]:
    yield GaugeMetricFamily(
        "qdeck_health_status", "0 healthy, 1 degraded, 2 unhealthy", value=snapshot.status.exit_code
    )
    found = GaugeMetricFamily(
        "qdeck_health_findings", "Findings of the last refresh", labels=("code", "severity", *_QUEUE)
    )
    for labels, count in Counter(
        (one.code.value, one.severity.value, *(one.queue or ("", ""))) for one in snapshot.findings
    ).items():
        found.add_metric(labels, count)
    yield found
    said = report.get("errors")
    errors = said if isinstance(said, dict) else {}
    about = "Jobs older than the threshold, as the health report counts them in stuck_vm_count"
    yield GaugeMetricFamily("qdeck_health_stuck_vms_count", about, value=stuck_vms(snapshot.queues))
    if (orphans := whole(errors.get("orphaned_count"))) is not None:
        yield GaugeMetricFamily("qdeck_health_orphaned_count", "Records that belong to no job", value=orphans)
    rates = [row.out_per_s for row in snapshot.queues if row.out_per_s is not None]
    if rates:
        yield GaugeMetricFamily("qdeck_health_processing_rate", "Jobs that ended per minute", value=60 * sum(rates))
    of_systems = report.get("processing_rate")
    if isinstance(of_systems, dict) and isinstance(cloned := of_systems.get("clone_rate"), int | float):
        yield GaugeMetricFamily("qdeck_health_clone_rate", "VMs that VMPooler cloned per minute", value=cloned)
    memory = snapshot.server.memory_bytes
    if memory is not None:
        yield GaugeMetricFamily("qdeck_server_memory_bytes", "Memory that the server uses", value=memory)
    if snapshot.workers_alive is not None:
        yield GaugeMetricFamily("qdeck_workers_alive", "Living workers", value=snapshot.workers_alive)
    unknown = GaugeMetricFamily("qdeck_notice", "1 for each message about what cannot be read", labels=("message",))
    for notice in snapshot.notices:
        unknown.add_metric((notice,), 1)
    yield unknown


def _purge(tasks: Sequence[AgentTask]) -> Iterable[Metric]:
    counted = next((task.counters for task in tasks if task.name == "purge"), {})
    for name, some in PURGES.items():
        # A gauge by its type, because the format adds `_total` to the names of counters; it only ever grows.
        about = f"Entries that purges took under the rule {' or '.join(some)}"
        yield GaugeMetricFamily(f"qdeck_purge_{name}_count", about, value=sum(counted.get(rule, 0) for rule in some))
    rules = CounterMetricFamily("qdeck_purge_entries", "Entries that purges took", labels=("rule",))
    for rule, count in counted.items():
        rules.add_metric((rule,), count)
    yield rules


def _agents(tasks: Sequence[AgentTask]) -> Iterable[Metric]:
    runs = CounterMetricFamily("qdeck_agent_runs", "Runs of a maintenance task", labels=("task", "outcome"))
    last = GaugeMetricFamily(
        "qdeck_agent_last_run_timestamp_seconds", "When a maintenance task last ended", labels=("task",)
    )
    for task in tasks:
        runs.add_metric((task.name, "done"), task.runs)
        runs.add_metric((task.name, "failed"), task.failed)
        if task.ended_ms is not None:
            last.add_metric((task.name,), task.ended_ms / 1000)
    yield runs
    yield last


_LIFE: Final = ("service", "type", "tier")


def _life(counts: Sequence[LifeCycleCount]) -> Iterable[Metric]:
    """Yield what happened to temporary queues: how many were made and how they ended, and what they held; and how many
    actions a queue manager enqueued.
    """
    enqueued = CounterMetricFamily("qdeck_actions_enqueued", "Actions that were enqueued", labels=_LIFE)
    events = CounterMetricFamily("qdeck_temporary_queues", "Temporary queues by event", labels=("event", *_LIFE))
    lost = CounterMetricFamily("qdeck_temporary_messages_discarded", "Messages that were never read", labels=_LIFE)
    freed = CounterMetricFamily("qdeck_temporary_freed_bytes", "Memory that was freed", labels=_LIFE)
    for one in counts:
        labels = (one.service, one.type, one.tier)
        if one.event == "discarded":
            lost.add_metric(labels, one.count)
        elif one.event == "freed":
            freed.add_metric(labels, one.count)
        elif one.event == "enqueued":
            enqueued.add_metric(labels, one.count)
        else:
            events.add_metric((one.event, *labels), one.count)
    return events, lost, freed, enqueued
