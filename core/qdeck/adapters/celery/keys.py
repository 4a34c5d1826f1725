"""The keys of Celery and of kombu, its transport."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from qdeck._redis.commands import raw_of
from qdeck._settings.model import AdapterSettings

NAME: Final = "celery"
RESULTS: Final = "results"
"""The queue in which results are shown: most of them do not contain their queue."""
_SEPARATOR: Final = b"\x06\x16"
_BINDING: Final = b"_kombu.binding."
_OTHERS: Final = (b"celery.pidbox", b"celeryev")  # exchanges of Celery itself, which have no tasks


class CelerySettings(AdapterSettings, frozen=True, kw_only=True):
    """`[adapters.celery]`: settings of the application that differ from Celery's defaults."""

    prefix: str = ""
    """`global_keyprefix` of `broker_transport_options`."""
    result_prefix: str = ""
    """`global_keyprefix` of `result_backend_transport_options`."""
    priority_steps: tuple[int, ...] = (0, 3, 6, 9)
    """The same of `broker_transport_options`."""
    separator: str = _SEPARATOR.decode()
    """`sep` of `broker_transport_options`."""
    redbeat_prefix: str = "redbeat:"
    """`redbeat_key_prefix`, if RedBeat runs the periodic tasks."""
    visibility_timeout_s: int = 3600
    """`visibility_timeout` of `broker_transport_options`."""


class CeleryKeys:
    """Builds the names of the keys for one configuration."""

    def __init__(self, settings: CelerySettings) -> None:
        self._prefix, self._separator = settings.prefix.encode(), settings.separator.encode()
        self._steps = sorted(settings.priority_steps) or [0]
        self.unacked = self._prefix + b"unacked"
        self.unacked_index = self._prefix + b"unacked_index"
        self.bindings = self._prefix + _BINDING
        self.results = settings.result_prefix.encode() + b"celery-task-meta-"

    def binding(self, exchange: str) -> bytes:
        """Return the set of the queues of an exchange."""
        return self.bindings + exchange.encode()

    def is_binding(self, name: bytes) -> bool:
        """Return whether a key is the set of the queues of an exchange for tasks."""
        exchange = name.removeprefix(self.bindings)
        return exchange != name and not exchange.endswith(_OTHERS)

    def queue_in(self, member: bytes) -> bytes | None:
        """Return the queue that a member of a binding names; None for a queue of Celery itself."""
        parts = member.split(_SEPARATOR)
        queue = parts[-1] if len(parts) == 3 else b""
        return queue if queue and not queue.endswith(_OTHERS) and not queue.startswith(b"celeryev.") else None

    def lists(self, queue: str) -> list[bytes]:
        """Return the lists of a queue, by priority: the first is consumed first."""
        name = self._prefix + raw_of(queue)
        return [name if not step else name + self._separator + b"%d" % step for step in self._steps]

    def list_for(self, queue: str, priority: object) -> bytes:
        """Return the list for a message of a priority."""
        number = priority if isinstance(priority, int) and 0 <= priority <= 9 else 0
        return self.lists(queue)[max(0, bisect_right(self._steps, number) - 1)]

    def result(self, task: bytes) -> bytes:
        """Return the result of a task."""
        return self.results + task


def sent_key(task: bytes) -> bytes:
    """Return the key in which qdeck stores that a failed task was sent again; Celery has no such note."""
    return b"qdeck:celery:sent:" + task
