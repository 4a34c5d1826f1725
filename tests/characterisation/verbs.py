"""Every verb on every adapter, as command lines: the dry run alone, and with `--yes` what is done."""

from __future__ import annotations

from typing import Final

from characterisation.seed import ADAPTERS, POOL
from characterisation.seed_native import BILLS, MAIL

QUEUES: Final = {"native": MAIL, "vmpooler": POOL, "ifdb": "ifdb", "scheduler": "scheduler", "lists": MAIL}
REQUESTS: Final = "requests:on-demand"
_FIRST: Final = {
    "native": "running-leased", "vmpooler": "running-one", "ifdb": "runs", "scheduler": "held", "lists": "oldest",
}  # fmt: skip


def of(adapter: str) -> list[str]:
    """Every verb on the main queue of an adapter, and what is particular to it."""
    queue = QUEUES[adapter]
    lines = [
        f"dead retry {queue}",
        "dead retry",
        f"dead retry {queue} --where error:*Error",
        f"dead retry {queue} --id nowhere",
        f"dead retry {queue} --priority HIGH",
        f"dead discard {queue}",
        f"jobs cancel {queue}",
        f"jobs cancel {queue} --id {_FIRST[adapter]}",
        f"jobs discard {queue}",
        f"jobs discard {queue} --state ready",
        f"jobs complete {queue}",
        f"jobs move {queue} --to {BILLS}",
        f"jobs run {queue}",
        f"jobs reprioritise {queue} --priority HIGH",
        f"jobs reprioritise {queue} --priority 7",
        f"requeue {queue}",
        f"requeue {queue} --all-running",
        f"requeue {queue} --id {_FIRST[adapter]}",
        "requeue",
        f"bury {queue}",
        f"bury {queue} --state ready",
        "bury",
    ]
    return [f"{line} --adapter {adapter}" for line in [*lines, *_MORE.get(adapter, ())]]


_MORE: Final = {
    "native": [
        f"jobs cancel {MAIL} --where age>1h",
        f"jobs cancel {MAIL} --state dead",
        f"jobs move {MAIL} --to {MAIL}",
        f"jobs move {MAIL} --to nothing",
        f"jobs run {BILLS}",
        f"jobs reprioritise {MAIL} --priority 900",
        f"bury {MAIL} --all-running",
    ],
    "vmpooler": [
        f"jobs cancel {REQUESTS}",
        f"jobs complete {REQUESTS}",
        f"jobs discard {REQUESTS}",
        "jobs cancel tasks:create",
        "jobs discard tasks:create",
        "jobs discard tasks:disk",
        "dead discard dlq:pending",
        "dead discard dlq:tasks",
        "dead retry dlq:pending",
        "bury gone-pool",
    ],
    "lists": [
        "jobs discard execution:agent_run:free:*",
        "bury execution:agent_run:free:* --state ready",
        "jobs discard shop:dev:mail:callbacks:task-17",
    ],
}
# Without an adapter: queues of the same name, and of all adapters.
COLLIDING: Final = [
    f"dead retry {MAIL}",
    *(f"dead retry {adapter}/{MAIL}" for adapter in ("native", "lists")),
    f"dead discard lists/{MAIL}",
    f"jobs discard vmpooler/{MAIL} --state ready",
    f"jobs discard lists/{MAIL} --id twin",
    f"jobs cancel native/{MAIL}",
    f"dead retry --where queue:lists/{MAIL}",
    "jobs discard scheduler",
    "jobs discard vmpooler/scheduler",
    "jobs cancel scheduler/scheduler",
    "dead retry scheduler/scheduler",
    "dead retry",
    "dead discard",
    "requeue",
    "bury",
    "jobs cancel nowhere",
    f"jobs move native/{MAIL} --to scheduler",
    f"jobs move native/{MAIL} --to native/{BILLS}",
    f"jobs move native/{MAIL} --to native/{MAIL}",
]
LISTS: Final = {**{adapter: of(adapter) for adapter in ADAPTERS}, "colliding": COLLIDING}
_RULES: Final = (
    "ready_too_old", "lease_expired", "done_too_old", "dead_too_old", "dead_too_many", "cancelled_too_old",
    "orphaned_records", "pending_too_old", "request_too_old", "task_too_old", "broken_entries", "overdue_delayed",
    "expired_queues", "unread_queues", "orphaned_queues",
)  # fmt: skip
PURGES: Final = [
    "purge",
    *(f"purge --rule {rule}" for rule in _RULES),
    "purge --rule dead_too_many --set dlq_max_entries=2",
    "purge --rule dead_too_old --rule dead_too_many --set dlq_max_entries=2 --set dlq_ttl=1h",
    "purge --set dlq_enabled=yes",
    "purge --rule ready_too_old --rule pool_ready_too_old --set max_ready_age=1m --set max_ready_age_pool=2d",
    f"purge native/{MAIL} --rule done_too_old --set max_completed_age=1m",
    "purge scheduler/scheduler",
    "purge scheduler",
    "purge nowhere",
    "purge --rule no_such_rule",
    "purge --set max_ready_age=soon",
    "purge --set no_such=1",
]
REFUSED: Final = [
    f"dead retry {MAIL} --dry-run --yes",
    f"dead retry {MAIL} --apply x",
    "dead retry --apply no-such-plan",
    "jobs cancel",
    "jobs cancel --apply no-such-plan",
    "jobs reprioritise shop:mail:actions --priority many",
    f"dead retry {MAIL} --rate soon",
    f"jobs cancel {MAIL} --state no-such-state",
    f"dead retry {MAIL} --where 'age>'",
    "purge --now",
    "purge --yes",
    "undo no-such-batch",
    "undo",
    f"job edit {MAIL} dead-one --payload nothing.json --adapter native",
    "job edit ifdb bad --payload nothing.json",
]
