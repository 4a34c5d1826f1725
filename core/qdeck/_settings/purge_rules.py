"""The purge rules by name: what each takes, its setting, and whether it runs only where it is named."""

from __future__ import annotations

import difflib
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from qdeck._errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Mapping


class Takes(StrEnum):
    """What the entries of a purge rule are."""

    JOBS = "jobs"
    RECORDS = "records"
    """Records of no job."""
    QUEUES = "queues"
    """Temporary queues as a whole."""


class PurgeRule(StrEnum):
    """A purge rule of native; in the order in which a plan has them."""

    LEASE_EXPIRED = "lease_expired"
    READY_TOO_OLD = "ready_too_old"
    DONE_TOO_OLD = "done_too_old"
    DEAD_TOO_OLD = "dead_too_old"
    DEAD_TOO_MANY = "dead_too_many"
    CANCELLED_TOO_OLD = "cancelled_too_old"
    ORPHANED_RECORDS = "orphaned_records"


class KnownRule(Struct, frozen=True, kw_only=True):
    """A purge rule: its name, what it takes in a sentence, and its threshold.

    What it takes of a queue is data of the adapter that has it.
    """

    name: str
    about: str
    setting: str = ""
    """The setting that is its threshold; some need none."""
    age_s: int = 0
    """Its threshold where no setting changes it."""
    label: str = ""
    """Its name in few words; without one, its name says it."""
    takes: Takes = Takes.JOBS
    state: str = ""
    """The state of the jobs that it takes of native."""
    non_native: bool = False
    """Whether only adapters of other systems have it."""
    by_name: bool = False
    """Whether it runs only where it is named: what it takes may still be wanted."""


UNUSED_S: Final = 86_400
"""How long an orphaned queue was not used, at least."""
PURGE_RULES: Final[Mapping[str, KnownRule]] = MappingProxyType(
    {
        rule.name: rule
        for rule in (
            KnownRule(
                name=PurgeRule.LEASE_EXPIRED.value, state="running", setting="max_pending_age",
                about="A running job whose lease expired, and that no worker or agent has requeued.",
            ),
            KnownRule(
                name=PurgeRule.READY_TOO_OLD.value, state="ready", setting="max_ready_age",
                about="A job that has been ready for too long. Its caller has given up by now.",
            ),
            KnownRule(
                name=PurgeRule.DONE_TOO_OLD.value, state="done", setting="max_completed_age",
                about="The record of a job that succeeded, with its result and its output.",
            ),
            KnownRule(
                name=PurgeRule.DEAD_TOO_OLD.value, state="dead", setting="dlq_ttl",
                about="A dead letter that was neither retried nor discarded.",
            ),
            KnownRule(
                name=PurgeRule.DEAD_TOO_MANY.value, state="dead", setting="dlq_max_entries",
                about="The oldest dead letters of a queue beyond this number.",
            ),
            KnownRule(
                name=PurgeRule.CANCELLED_TOO_OLD.value, state="cancelled", setting="max_request_age",
                about="A job that was cancelled, or that expired before it could start.",
            ),
            KnownRule(
                name=PurgeRule.ORPHANED_RECORDS.value, setting="max_orphaned_age", label="records", takes=Takes.RECORDS,
                about="Data of a job that is in no state, left by a crash or by another program.",
            ),
            KnownRule(
                name="pending_too_old", setting="max_pending_age", non_native=True,
                about="A VM that is still pending: its pool clones a new one. An entry of a stream that its consumer "
                "did not acknowledge: it is buried.",
            ),
            KnownRule(
                name="pool_ready_too_old", setting="max_ready_age_pool", label="ready in pool", non_native=True,
                about="A VM that is ready in its pool, and that no request asked for.",
            ),
            KnownRule(
                name="request_too_old", setting="max_request_age", non_native=True,
                about="A request that its client no longer polls.",
            ),
            KnownRule(
                name="task_too_old", setting="max_task_age", non_native=True, about="A task that has ended."
            ),
            KnownRule(name="broken_entries", non_native=True, about="An entry that its own system cannot read."),
            KnownRule(
                name="overdue_delayed", non_native=True,
                about="A delayed entry that has been due for over a minute, and that no worker moved to ready.",
            ),
            KnownRule(
                name="expired_queues", takes=Takes.QUEUES,
                about="A temporary queue (responses, callbacks) that has expired and is empty.",
            ),
            KnownRule(
                name="unread_queues", takes=Takes.QUEUES, by_name=True,
                about="A temporary queue that has expired and still holds messages.",
            ),
            KnownRule(
                name="orphaned_queues", takes=Takes.QUEUES, by_name=True, age_s=UNUSED_S,
                about="A list that is named like a temporary queue, that no task or service registered, and that "
                "was not used for a day.",
            ),
        )
    }
)  # fmt: skip


def check_rule(name: str, takes: Takes | None = None) -> None:
    """Raise for a name that no rule has, or none that takes such entries."""
    known = [rule.name for rule in PURGE_RULES.values() if takes is None or rule.takes is takes]
    if name not in known:
        near = [one for one in known if one.startswith(name)] or difflib.get_close_matches(name, known, 1)
        hint = f"Did you mean {' or '.join(map(repr, near))}?" if name and near else f"Use one of: {', '.join(known)}"
        raise InvalidOption(f"there is no purge rule {name!r}", hint=hint)
