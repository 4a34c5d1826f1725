"""The messages that a service receives besides the jobs of its queues: callbacks on temporary queues, events of other
services, and actions that other programs push to lists of its name.

They are moved to a queue of the service's workers under a fixed id, and deleted last: moved twice has the effect of
once. From there on retries, backoff and dead letters are those of every job.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from qdeck._engine import codec, programs
from qdeck._engine.transitions import NewJob
from qdeck._errors import LayoutMismatch, NotAllowed, QdeckError, UsageError
from qdeck._redis import reads
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import ReplyCode, code_of, is_error
from qdeck.messages import _cleaning as cleaning
from qdeck.messages import _registry as registry
from qdeck.messages import _transport as transport
from qdeck.messages._envelopes import DomainAction
from qdeck.messages._message_checks import why_other_task
from qdeck.messages._names import segment

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from qdeck._redis.commands import Arg, Program
    from qdeck.messages._messenger import Messenger

_log = logging.getLogger(__name__)
SWEEP_S: Final = 5.0  # queues without a wake-up are found then
EXPIRED_S: Final = 15.0
RECLAIM_MS: Final = 15_000
DELIVERIES: Final = 10
COUNT: Final = 100
REFUSED_TASK: Final = "callbacks.refused"
"""The task of a callback that was refused before a handler could get it."""
REFUSED_ACTION: Final = "actions.refused"
"""The same of an action."""


@dataclass(frozen=True, slots=True)
class Follower:
    """All temporary callback queues `{inbox}:…`, and the queue where their messages wait for handlers.

    `refused` is the task of those that cannot be read, `others` of those whose type is none of `tasks`; if it is empty,
    a type is a task.
    """

    inbox: str
    retries: int
    refused: str = REFUSED_TASK
    others: str = ""
    tasks: set[str] = field(default_factory=set)

    def job(self, raw: bytes, task: str = "") -> NewJob:
        """Return the job for a message on a task's queue; one that cannot be read or belongs elsewhere is a dead
        letter.

        It must never stop the messages behind it.
        """
        digest = hashlib.sha256(raw).hexdigest()[:32]
        try:
            action = DomainAction.parse(raw)
            # As it was written: a value near the interpreter's limit of nesting cannot be written one level deeper.
            why, message = why_other_task(action, task), cast("Any", msgspec.Raw(raw))
            if not why:
                is_known = not self.others or action.action_type in self.tasks
                return transport.job_of(action, retries=self.retries, task="" if is_known else self.others)
        except UsageError as error:
            kind, message = self.refused.partition("s.")[0], raw.decode("utf-8", "backslashreplace")
            why = f"{kind} cannot be read: {error}"
        found = codec.encode_json({"refused": why, "message": message})
        return _raw_job(f"x{digest}", self.refused, found, retries=0)

    def forward(self, name: str, task: str = "") -> Program[int]:
        """Move messages of one queue, which is registered to a task; few at once, so that other queues are not
        delayed.
        """
        for count in range(COUNT):
            raw = yield from transport.first_of(name)
            if raw is None:
                return count
            yield from transport.forward(name, self.inbox, self.job(raw, task), raw)
        return COUNT

    def sweep(self) -> Program[int]:
        """Move the messages of all registered queues, except those on which a reader waits."""
        count, after = 0, ""
        while names := (yield from registry.callbacks_of(f"{self.inbox}:", cleaning.SLICE, after)):
            sizes = yield with_errors(*((b"LLEN", name) for name in names), key=names[0].encode())
            full = [name for name, size in zip(names, sizes, strict=True) if isinstance(size, int) and size]
            now = yield from reads.clock()
            for name, known in zip(full, (yield from registry.describe(full)), strict=True):
                if known is not None and known.waited_until_ms <= now:
                    count += yield from self._forward_some(name, known.task)
            after = names[-1]
        return count

    def forward_named(self, name: str) -> Program[int]:
        """Move the messages of the queue that a wake-up names."""
        if not name.startswith(f"{self.inbox}:"):
            return 0
        [known] = yield from registry.describe([name])
        now = yield from reads.clock()
        if known is not None and known.waited_until_ms > now:
            return 0
        return (yield from self._forward_some(name, "" if known is None else known.task))

    def _forward_some(self, name: str, task: str) -> Program[int]:
        """Move messages of a queue; where some may be left, add a wake-up for them."""
        count = yield from self.forward(name, task)
        if count == COUNT:
            yield from transport.wake(name)
        return count


def _raw_job(job_id: str, task: str, raw: bytes, *, retries: int) -> NewJob:
    try:
        msgspec.json.decode(raw)
        body = b"[[" + raw + b"],{}]"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = codec.encode_json([[raw.decode("utf-8", "backslashreplace")], {}])
    template = codec.JobHead(enqueued_ms=0, priority=100, retries=retries, task=task, keep_ms=0).template()
    return NewJob(job_id, 100, template, body)


@dataclass(frozen=True, slots=True)
class Subscription:
    """One topic: its stream, the group of this service, and the queue where its events wait for handlers."""

    stream: str
    group: str
    inbox: str
    task: str
    retries: int
    start: str

    def open(self, start: str = "") -> Program[None]:
        """Create the group: from then on no event is missed."""
        made = (b"XGROUP", b"CREATE", self.stream, self.group, start or self.start, b"MKSTREAM")
        [reply] = yield with_errors(made, key=self.stream.encode())
        if is_error(reply) and code_of(reply) is not ReplyCode.GROUP_EXISTS:
            raise reply

    def destroy(self) -> Program[None]:
        """Remove the group, and the stream when it was the last."""
        yield from registry.call("unsubscribe", [self.stream.encode()], [self.group])

    def read(self, consumer: str) -> tuple[Arg, ...]:
        """Return the command that waits for new events, without the time to block."""
        return (b"XREADGROUP", b"GROUP", self.group, consumer, b"COUNT", COUNT, b"BLOCK")

    def take(self, entries: Sequence[Any], many: dict[bytes, int] | None = None) -> Program[int]:
        """Move events to the workers' queue, then acknowledge them."""
        jobs, ids = [], []
        for entry_id, flat in entries:
            ids.append(entry_id)
            if flat is None:
                continue  # deleted meanwhile
            fields = dict(zip(flat[::2], flat[1::2], strict=True))
            raw = fields.get(b"data", b"null")
            times = (many or {}).get(entry_id, 0)
            if times > DELIVERIES:
                raw = codec.encode_json({"undeliverable": times, "event": raw.decode("utf-8", "backslashreplace")})
            job_id = f"{segment(self.group)}.{entry_id.decode()}"
            jobs.append(_raw_job(job_id, self.task, raw, retries=self.retries))
        if jobs:
            yield from programs.enqueue(self.inbox, jobs)
        if ids:
            yield with_errors((b"XACK", self.stream, self.group, *ids), key=self.stream.encode())
        return len(ids)

    def reclaim(self, consumer: str, idle_ms: int) -> Program[int]:
        """Move the events that a consumer received and did not acknowledge in time."""
        count, cursor = 0, b"0-0"
        while True:
            claim = (b"XAUTOCLAIM", self.stream, self.group, consumer, idle_ms, cursor, b"COUNT", COUNT)
            reply = yield claim
            cursor, entries = reply[0], reply[1]
            if entries:
                pending = (b"XPENDING", self.stream, self.group, entries[0][0], entries[-1][0], COUNT * 10, consumer)
                [rows] = yield with_errors(pending, key=self.stream.encode())
                many = {row[0]: row[3] for row in rows} if isinstance(rows, list) else {}
                count += yield from self.take(entries, many)
            if cursor == b"0-0":
                return count

    def trim(self) -> Program[int]:
        """Drop the events that all groups have acknowledged."""
        key = self.stream.encode()
        [groups] = yield with_errors((b"XINFO", b"GROUPS", self.stream), key=key)
        if is_error(groups) or not groups:
            return 0
        rows = [dict(zip(row[::2], row[1::2], strict=True)) for row in groups]
        # First all groups in one reply, then the pending events: new ones are always later than those delivered then.
        oldest: list[tuple[int, int]] = []
        for row in rows:
            if not row[b"pending"]:
                ms, _, number = row[b"last-delivered-id"].partition(b"-")
                oldest.append((int(ms), int(number) + 1))
                continue
            [summary] = yield with_errors((b"XPENDING", self.stream, row[b"name"]), key=key)
            if is_error(summary) or not summary[1]:
                return 0  # acknowledged meanwhile; the next trim sees it
            ms, _, number = summary[1].partition(b"-")
            oldest.append((int(ms), int(number)))
        first = "{}-{}".format(*min(oldest))
        [gone] = yield with_errors((b"XTRIM", self.stream, b"MINID", first), key=key)
        return gone if isinstance(gone, int) else 0


class Incoming:
    """The asyncio tasks of one worker that move callbacks and events to its queue."""

    def __init__(
        self, owner: Messenger, followers: list[Follower], subscriptions: list[Subscription], lists: list[Follower]
    ) -> None:
        self._owner = owner
        self._followers = list({one.inbox: one for one in followers}.values())
        self._subscriptions = subscriptions
        self._lists = lists
        # The same after a restart: the events of this consumer are found under its name.
        self._consumer = socket.gethostname() or "host"
        self._tasks: list[asyncio.Task[None]] = []
        self._listening: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Subscribe, and start the tasks."""
        client = self._owner.app.aclient()
        for subscription in self._subscriptions:
            try:
                await client.run(subscription.open())
            except LayoutMismatch as error:
                # A topic whose key another program overwrote; it is opened as soon as possible.
                _log.error("%s: %s", subscription.stream, error)
        loops: list[Coroutine[Any, Any, None]] = [self._expire(), *map(self._take, self._lists)]
        if self._followers:
            loops.append(self._follow())
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        listening = [loop for one in self._subscriptions for loop in (self._listen(one), self._maintain(one))]
        self._listening = [asyncio.create_task(loop) for loop in listening]

    async def close(self) -> None:
        """Stop the tasks; messages that were not moved yet are found again."""
        await _end(self._tasks)
        await self.unsubscribe()

    async def unsubscribe(self) -> None:
        """Stop reading events."""
        await _end(self._listening)

    async def _follow(self) -> None:
        client = self._owner.app.aclient()
        wakeup = transport.wakeup_key(self._followers[0].inbox)
        swept = 0.0
        while True:
            async with _patient("callbacks"):
                if time.monotonic() - swept > SWEEP_S:
                    for follower in self._followers:
                        await client.run(follower.sweep())
                    swept = time.monotonic()
                name = await client.run(transport.pop(wakeup, time.monotonic() + SWEEP_S))
                for follower in self._followers if name is not None else ():
                    await client.run(follower.forward_named((name or b"").decode("utf-8", "replace")))

    async def _take(self, actions: Follower) -> None:
        """Move what other programs push to a list with the name of a queue of actions, in either spelling."""
        client = self._owner.app.aclient()
        names = [str(name) for name in self._owner.names.parse(actions.inbox).spellings]
        while True:
            async with _patient(actions.inbox):
                try:
                    for name in names:
                        while await client.run(actions.forward(name)) == COUNT:
                            continue
                    await client.run(transport.peek(actions.inbox, time.monotonic() + SWEEP_S))
                except LayoutMismatch:
                    await asyncio.sleep(SWEEP_S)  # another type of key has this name
                except NotAllowed as error:
                    _log.warning("the list %s is not read: %s", actions.inbox, error)
                    return

    async def _listen(self, subscription: Subscription) -> None:
        client = self._owner.app.aclient()
        head = subscription.read(self._consumer)

        def command(seconds: float) -> tuple[Arg, ...]:
            return (*head, max(1, round(seconds * 1000)), b"STREAMS", subscription.stream, b">")

        while True:
            async with _patient(subscription.stream):
                try:
                    found = await client.run(transport.wait(command, subscription.stream, time.monotonic() + 60))
                except QdeckError as error:
                    if code_of(error) is not ReplyCode.NO_GROUP:
                        raise
                    # The stream was removed, or the server restarted without it: every event in it is new.
                    await client.run(subscription.open("0"))
                    continue
                for _, entries in found or ():
                    await client.run(subscription.take(entries))

    async def _maintain(self, subscription: Subscription) -> None:
        client = self._owner.app.aclient()
        while True:
            async with _patient(subscription.stream):
                await client.run(subscription.reclaim(self._consumer, RECLAIM_MS))
                await client.run(subscription.trim())
            await asyncio.sleep(SWEEP_S)

    async def _expire(self) -> None:
        client = self._owner.app.aclient()
        while True:
            async with _patient("temporary queues"):
                await client.run(cleaning.ExpiredCleaning().run())
            await asyncio.sleep(EXPIRED_S)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, Exception):
            _log.error("delivering messages failed", exc_info=ended)


@contextlib.asynccontextmanager
async def _patient(what: str) -> Any:
    """Log an error and wait a second, so that a server that is away does not end the task."""
    try:
        yield
    except QdeckError as error:
        _log.warning("%s: %s", what, error)
        await asyncio.sleep(1.0)
    except Exception:  # noqa: BLE001 - whatever it was
        # Unexpected data: the task continues, because nothing else would start it again.
        _log.exception("%s", what)
        await asyncio.sleep(1.0)
