"""Each verb of RQ, Celery, BullMQ and Sidekiq with its connection cut after each of its commands, one job each.

The job is as before or as afterwards, never between; the same plan then ends what was begun, once, and its undo
restores everything.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from characterisation.cutting import Cutter
from core.adapters.bullmq import records as bullmq
from core.adapters.celery import records as celery
from core.adapters.rq import records as rq
from core.adapters.sidekiq import records as sidekiq
from qdeck import QdeckError
from qdeck.admin import Writer
from qdeck.testing.adapters import contents

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.servers import Server

MOST: Final = 100  # commands of one operation on one job
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z?|\d{10,13}(\.\d+)?")


class Case(NamedTuple):
    """A verb on one job, which `fill` writes."""

    fill: Callable[[Any], object]
    verb: str
    queue: str
    job: str
    stuck: bool = False


def _abandoned(raw: redis.Redis) -> None:
    rq.put(raw, "mail", "one", "started", ago_s=9000, score=time.time() - 4000)


def _lost(raw: redis.Redis) -> None:
    rq.put(raw, "mail", "one", "handover", ago_s=9000)
    raw.set("rq:queue:mail:intermediate:first_seen:one", time.time() - 4000)


def _in_rq(state: str) -> Callable[[Any], object]:
    def fill(raw: redis.Redis) -> None:
        rq.put(raw, "mail", "one", state)
        rq.put(raw, "mail", "other", state)

    return fill


def _in_bullmq(state: str, version: str = "5.81.5", **more: Any) -> Callable[[Any], object]:
    def fill(raw: redis.Redis) -> None:
        bullmq.queue(raw, version=version)
        bullmq.put(raw, "other", state, **more)
        bullmq.put(raw, "one", state, **more)
        if more.get("parentKey"):
            bullmq.put(raw, "parent", "waiting-children")
            raw.zadd(bullmq.P + "parent:unsuccessful", {bullmq.P + "one": 5})

    return fill


def _stalled(raw: redis.Redis) -> None:
    bullmq.queue(raw)
    bullmq.put(raw, "one", "active", ago_ms=9_000_000, locked=False)
    raw.sadd(bullmq.P + "stalled", "one")


def _waiting_task(raw: redis.Redis) -> None:
    celery.bind(raw, "celery")
    raw.lpush("celery", celery.message("one"), celery.message("other"))


def _held_task(raw: redis.Redis) -> None:
    celery.bind(raw, "celery")
    celery.hold(raw, "one", ago_s=9000, priority=6)


def _failed_task(raw: redis.Redis) -> None:
    celery.bind(raw, "celery")
    celery.result(raw, "one")


def _in_sidekiq(key: str) -> Callable[[Any], object]:
    def fill(raw: redis.Redis) -> None:
        raw.sadd("queues", "default")
        raw.zadd(key, {sidekiq.failed("one", retry_count=3): 9_999_999_999.5, sidekiq.failed("other"): 9_999_999_999.5})

    return fill


def _waiting_in_sidekiq(raw: redis.Redis) -> None:
    raw.sadd("queues", "default")
    raw.zadd("retry", {sidekiq.failed("other"): 9_999_999_999})
    raw.lpush("queue:default", sidekiq.job("one"), sidekiq.job("two"))


CASES: Final[dict[str, Case]] = {
    "rq retry": Case(_in_rq("failed"), "retry", "rq/mail", "one"),
    "rq run": Case(_in_rq("scheduled"), "run", "rq/mail", "one"),
    "rq cancel queued": Case(_in_rq("queued"), "cancel", "rq/mail", "one"),
    "rq cancel scheduled": Case(_in_rq("scheduled"), "cancel", "rq/mail", "one"),
    "rq discard queued": Case(_in_rq("queued"), "discard", "rq/mail", "one"),
    "rq discard failed": Case(_in_rq("failed"), "discard", "rq/mail", "one"),
    "rq requeue": Case(_abandoned, "requeue", "rq/mail", "one", stuck=True),
    "rq requeue handed over": Case(_lost, "requeue", "rq/mail", "one", stuck=True),
    "rq bury": Case(_abandoned, "bury", "rq/mail", "one", stuck=True),
    "celery retry": Case(_failed_task, "retry", "celery/results", "one"),
    "celery discard waiting": Case(_waiting_task, "discard", "celery/celery", "one"),
    "celery discard result": Case(_failed_task, "discard", "celery/results", "one"),
    "celery requeue": Case(_held_task, "requeue", "celery/celery", "one", stuck=True),
    "bullmq 5 retry": Case(_in_bullmq("failed"), "retry", "bullmq/post", "one"),
    "bullmq 6 retry": Case(_in_bullmq("failed", "6.7.0", priority=3), "retry", "bullmq/post", "one"),
    "bullmq retry of a child": Case(
        _in_bullmq("failed", parentKey=bullmq.P + "parent"), "retry", "bullmq/post", "one"
    ),
    "bullmq run": Case(_in_bullmq("delayed"), "run", "bullmq/post", "one"),
    "bullmq discard": Case(_in_bullmq("wait"), "discard", "bullmq/post", "one"),
    "bullmq requeue": Case(_stalled, "requeue", "bullmq/post", "one", stuck=True),
    "sidekiq retry": Case(_in_sidekiq("dead"), "retry", "sidekiq/set:dead", "one"),
    "sidekiq run retry": Case(_in_sidekiq("retry"), "run", "sidekiq/set:retry", "one"),
    "sidekiq run scheduled": Case(_in_sidekiq("schedule"), "run", "sidekiq/set:schedule", "one"),
    "sidekiq bury": Case(_in_sidekiq("retry"), "bury", "sidekiq/set:retry", "one"),
    "sidekiq discard": Case(_in_sidekiq("dead"), "discard", "sidekiq/set:dead", "one"),
    "sidekiq discard waiting": Case(_waiting_in_sidekiq, "discard", "sidekiq/default", "one"),
}  # fmt: skip
QUICK: Final = ("rq retry", "celery requeue", "bullmq 5 retry", "sidekiq bury")


def shown(raw: redis.Redis) -> str:
    """What a server holds, without moments and without what an undo leaves."""
    found: dict[bytes, Any] = contents(raw, without=bullmq.EMITTED)
    lines = []
    for key, (value, is_lasting) in sorted(found.items()):
        ordered = (
            sorted(value.items()) if isinstance(value, dict) else sorted(value) if isinstance(value, set) else value
        )
        lines.append(f"{key!r} {ordered} {is_lasting}")
    return _TIME.sub("T", "\n".join(lines))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [name for name in CASES if name not in QUICK])
def test_every_verb_is_whole_where_its_connection_ends(shared_server: Server, raw: redis.Redis, name: str) -> None:
    _check(shared_server, raw, CASES[name])


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", QUICK)
def test_a_verb_is_whole_where_its_connection_ends(shared_server: Server, raw: redis.Redis, name: str) -> None:
    _check(shared_server, raw, CASES[name])


def _check(server: Server, raw: redis.Redis, case: Case) -> None:
    case.fill(raw)
    exact, before = contents(raw, without=bullmq.EMITTED), shown(raw)
    states = set()
    with Writer(server.url) as writer, Cutter(server.port) as cutter:
        done = writer.apply(_plan(writer, case))
        assert done.applied == 1
        after = shown(raw)
        assert after != before
        writer.undo(done.batch)
        assert contents(raw, without=bullmq.EMITTED) == exact
        for number in range(1, MOST):
            plan = _plan(writer, case)
            cutter.arm(number, for_good=True)
            with suppress(QdeckError), Writer(cutter.url) as cut:
                cut.apply(plan)
            struck = cutter.struck
            cutter.arm(None)
            now = shown(raw)
            assert now in (before, after), number
            states.add(now)
            done = writer.apply(plan)
            assert done.applied == 1, number
            assert shown(raw) == after, number
            assert writer.undo(done.batch).restored == 1, number
            assert contents(raw, without=bullmq.EMITTED) == exact, number
            if not struck:
                break
    assert not struck
    assert states == {before, after}


def _plan(writer: Writer, case: Case) -> Any:
    plan = writer.plan(case.verb, case.queue, ids=(case.job,), stuck=case.stuck)
    assert plan.count == 1
    return plan
