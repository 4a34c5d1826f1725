"""Beside a VMPooler that has no health check of its own, the agent writes the hash in which VMPooler tells of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdeck._deck.model import Status
from qdeck._errors import QdeckError
from qdeck.adapters.vmpooler.adapter import VmPooler
from qdeck.adapters.vmpooler.health import own_shape, read_letters, write_health

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._redis.commands import Program
    from qdeck._settings.thresholds import Thresholds
    from qdeck.admin import AsyncWriter


async def keep_health(writer: AsyncWriter, now: int) -> str | None:
    """Writes `vmpooler__health` while nobody else does; tells what came of it, None where there is no VMPooler."""
    adapter = next((one for one in writer.others.adapters if isinstance(one, VmPooler)), None)
    if adapter is None or adapter.sight is None or not adapter.sight.is_there:
        return None
    try:
        metrics = await writer.run(_metrics(adapter, now))
        return await writer.write(write_health(metrics, judge(metrics, writer.thresholds).value, now))
    except QdeckError as error:
        return f"not written: {error}"


def _metrics(adapter: VmPooler, now: int) -> Program[dict[str, Any]]:
    health = yield from adapter.health(now)
    return own_shape(health, (yield from read_letters()))


def judge(metrics: Mapping[str, Any], limits: Thresholds) -> Status:
    """VMPooler's own verdict on its metrics: the first rule that fits."""
    errors = metrics["errors"]
    dead, stuck = errors["dlq_total_size"] or 0, errors["stuck_vm_count"] or 0
    pools = [pool for name, pool in metrics["queues"].items() if name != "dlq"]
    pending = max(((pool["pending"].get("size") or 0) for pool in pools), default=0)
    ready = max(((pool["ready"].get("size") or 0) for pool in pools), default=0)
    most_pending, most_ready = limits.pending_queue_max, limits.ready_queue_max
    if dead > limits.dlq_max_critical or stuck > limits.stuck_vm_max_critical:
        return Status.UNHEALTHY
    if pending > 2 * most_pending or ready > 2 * most_ready:
        return Status.UNHEALTHY
    if dead > limits.dlq_max_warning or stuck > limits.stuck_vm_max_warning:
        return Status.DEGRADED
    return Status.DEGRADED if pending > most_pending or ready > most_ready else Status.HEALTHY
