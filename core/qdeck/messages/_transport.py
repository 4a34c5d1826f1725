"""The steps of the patterns as programs: sending an action, answering it, calling back, announcing."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import codec, keys, programs
from qdeck._engine.transitions import NewJob
from qdeck._errors import LayoutMismatch, OutcomeUnknown, PayloadTooLarge, ServerUnreachable
from qdeck._queue_names import QueueType
from qdeck._redis import commands
from qdeck._redis.commands import with_errors
from qdeck._task_options import read_task_name
from qdeck.messages import _registry as registry
from qdeck.messages._names import TIERS, segment

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._engine.transitions import EnqueueResult
    from qdeck._queue_names import QueueName
    from qdeck._redis.commands import Arg, Program
    from qdeck.messages._envelopes import DomainAction, DomainActionResponse

WITHIN: Final = "reply_within_ms"
"""In an action's metadata: how long after the enqueue its sender waits for the answer, by the server's clock."""

PIECE_S: Final = 5.0  # a silent connection is noticed after this long
MOST_UNHEARD: Final = 10_000
"""Events that are kept, about, of a topic without subscribers; where there are some, each is kept until all took it."""
_LONGEST_MS: Final = 366 * 86_400_000
_WAKEUP: Final = "{qdeck:messages}:wakeup:"
_WAKEUP_MS: Final = 60_000
_JOB_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


def job_id(message_id: str) -> str:
    """Return the id of the job: the message's own, so that a message sent twice is one job."""
    return message_id if _JOB_ID.fullmatch(message_id) else f"m{segment(message_id)}"


@lru_cache(maxsize=2048)
def _template(
    task: str, priority: int, retries: int, expires_ms: int | None, tier: str | None, backoff: str | None
) -> str:
    return codec.JobHead(
        enqueued_ms=0,
        priority=priority,
        retries=retries,
        task=read_task_name(task),
        expires_after_ms=expires_ms,
        backoff=backoff,
        tags=(f"tier:{tier}",) if tier else (),
        keep_ms=0,
    ).template()


def job_of(
    action: DomainAction,
    *,
    retries: int,
    expires_ms: int | None = None,
    priority: int | None = None,
    backoff: str | None = None,
    id: str = "",
    task: str = "",
) -> NewJob:
    """Return the job that carries an action: its task is the action's type, its only argument the envelope."""
    tier = action.tier if action.tier in TIERS else None
    first = TIERS.get(tier or "", 100) if priority is None else priority
    body = b"[[" + action.to_json() + b"],{}]"
    if len(body) > codec.MAX_PAYLOAD:
        raise PayloadTooLarge(
            f"action {action.action_type!r} takes {len(body):,} bytes, the limit is {codec.MAX_PAYLOAD:,}",
            hint="Store the data elsewhere and send its location.",
        )
    template = _template(task or action.action_type, first, retries, expires_ms, tier, backoff)
    return NewJob(id or job_id(action.action_id), first, template, body)


def send(queue: str, job: NewJob) -> Program[EnqueueResult]:
    """Put an action on a service's queue."""
    [made] = yield from programs.enqueue(queue, [job])
    return made


def deadline_of(action: DomainAction, enqueued_ms: int) -> int | None:
    """Return the time until which the sender waits for the answer; None if the action has no valid number for it."""
    within = action.metadata.get(WITHIN)
    if not isinstance(within, int) or isinstance(within, bool) or not 0 <= within <= _LONGEST_MS:
        return None
    return enqueued_ms + within


def reply(name: str, action: DomainAction, response: DomainActionResponse, deadline_ms: int | None) -> Program[str]:
    """Answer a request, once; a late answer is not sent."""
    return (
        yield from registry.answer(
            name,
            job_id(action.action_id),
            response.to_json(),
            ttl_ms=round(registry.TTL_S * 1000),
            deadline_ms=deadline_ms,
        )
    )


def event_task(callbacks: QueueName) -> str:
    """Return the task of callbacks on the queue of an event that have no type of their own: `query.rag_results`."""
    return callbacks.detail.replace(":", ".")


def call_back(
    text: str, asked: DomainAction, callback: DomainAction, *, retries: int, target: QueueName
) -> Program[str]:
    """Call back, once for each action and outcome: to a queue of workers, or to the temporary one of a task.

    `target` is that queue.
    """
    # A dead action that is retried may still succeed: then that is sent too, each outcome once.
    once = f"{job_id(asked.action_id)}-{'done' if callback.data.get('success', True) else 'failed'}"
    native = yield (b"HEXISTS", keys.QUEUES, text)
    if native:
        task = "" if asked.callback_action_type else event_task(target)
        [made] = yield from programs.enqueue(text, [job_of(callback, retries=retries, id=once, task=task)])
        return "sent" if made.created else "again"
    [known] = yield from registry.describe([text])
    ttl_ms = (known.ttl_ms if known else 0) or round(registry.TTL_S * 1000)
    outcome = yield from registry.answer(text, once, callback.to_json(), ttl_ms=ttl_ms, deadline_ms=None)
    if known is None and outcome == "sent":
        # It had expired, or its task had ended: registered again, it is found even if no follower takes the wake-up.
        # The message cannot decide which task it belongs to. A list that existed is left unregistered: otherwise it
        # would be removed with everything that others put into it.
        kind, tier = QueueType.CALLBACKS.value, asked.tier or ""
        yield from registry.register(text, kind, target.service, task="", tier=tier, ttl_ms=ttl_ms)
    else:
        yield from registry.touch([text])
    yield from wake(text)
    return outcome


def wake(name: str) -> Program[None]:
    """Add a wake-up for the followers of a service's callbacks."""
    key = wakeup_key(name)
    yield with_errors((b"RPUSH", key, name), (b"LTRIM", key, -100, -1), (b"PEXPIRE", key, _WAKEUP_MS), key=key.encode())


def wakeup_key(callbacks: str) -> str:
    """Return the key that followers of a service's callbacks block on; its entries name the queues to look at."""
    return _WAKEUP + callbacks.partition(f":{QueueType.CALLBACKS}")[0]


def forward(name: str, inbox: str, job: NewJob, message: bytes) -> Program[None]:
    """Move one message of a temporary queue to the workers' queue; done twice it has the effect of one."""
    yield from programs.enqueue(inbox, [job])
    yield with_errors((b"LREM", name, 1, message), key=name.encode())


def first_of(name: str) -> Program[bytes | None]:
    """Return the first message of a list, which stays there; None also where the key is not a list."""
    try:
        message: bytes | None = yield (b"LINDEX", name, 0)
    except LayoutMismatch:
        return None
    return message


def peek_command(name: str, seconds: float) -> tuple[Arg, ...]:
    """Build the command that waits for the first message of a list and leaves it there.

    It moves the message of a list to the list itself, so a reader whose connection broke can repeat it.
    """
    return (b"BLMOVE", name, name, b"LEFT", b"LEFT", b"%.3f" % max(seconds, 0.001))


def peek(name: str, until: float) -> Program[bytes | None]:
    """Return the first message of a list, which stays there; None when none came in time."""
    found: bytes | None = yield from wait(lambda seconds: peek_command(name, seconds), name, until)
    return found


def pop(name: str, until: float) -> Program[bytes | None]:
    """Take the first entry of a list; for wake-ups only, because a reply may be lost."""
    found = yield from wait(lambda seconds: (b"BLPOP", name, b"%.3f" % max(seconds, 0.001)), name, until)
    return found[1] if found else None


def wait(command: Callable[[float], tuple[Arg, ...]], name: str, until: float) -> Program[Any]:
    """Send a command that blocks until it has a reply or the timeout; the server may be unreachable meanwhile."""
    while (left := until - time.monotonic()) > 0:
        seconds, patience_s = min(left, PIECE_S), min(left, 1.0)
        try:
            [reply] = yield commands.wait(command(seconds), name.encode(), seconds, patience_s=patience_s)
        except (OutcomeUnknown, ServerUnreachable):
            continue
        if reply is not None:
            return reply
    return None


def announce(stream: str, event: DomainAction) -> Program[str]:
    """Add an event to a stream for all who subscribed; an event that is sent again arrives twice, under one action
    id.
    """
    made: bytes = yield from registry.call("announce", [stream.encode()], [event.to_json(), MOST_UNHEARD])
    return made.decode()


def skip(name: str, message: bytes) -> Program[None]:
    """Remove a message that was read from its list."""
    yield with_errors((b"LREM", name, 1, message), key=name.encode())
