"""The same promises through the deck, for each of the five adapters: native is one of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.test_conformance import FILL as FOREIGN
from qdeck import UsageError
from qdeck.admin import NATIVE, State, Writer
from qdeck.testing import Past
from qdeck_console.demo.seed import GONE, Seeder

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from qdeck.admin import JobRecord

ADAPTERS = (NATIVE, *FOREIGN)
VERBS = ("retry", "discard", "cancel", "run", "bury")


@pytest.fixture(params=ADAPTERS)
def writer(request: pytest.FixtureRequest, url: str, raw: redis.Redis) -> Iterator[Writer]:
    if request.param == NATIVE:
        with Past(url, worker=GONE) as past:
            Seeder(past).run()
    else:
        FOREIGN[request.param]().populate(raw)
    with Writer(url, adapters=(request.param,)) as writer:
        if request.param == NATIVE:
            writer.enqueue("shop:actions", "pay", kwargs={"token": "tok123"})
        yield writer


def whole(raw: redis.Redis, writer: Writer) -> object:
    """All of the server; of our own adapter, whose undo leaves a line in histories, what its lists show."""
    if writer.adapters.shows_native:
        return Counter((job.queue, job.key, job.state, job.due_ms, job.priority) for job in everything(writer))
    [adapter] = writer.adapters.non_native
    return FOREIGN[adapter.name]().contents(raw)


def everything(writer: Writer) -> list[JobRecord]:
    return [job for row in writer.snapshot().queues for job in writer.jobs(row.name)]


def name_of(job: JobRecord) -> str:
    return job.id if job.adapter == NATIVE else job.key


def test_looking_writes_nothing(writer: Writer, raw: redis.Redis) -> None:
    before = raw.info("commandstats")
    found = everything(writer)
    assert found
    for job in found[:30]:
        writer.job(job.queue, name_of(job))
    writer.find(found[0].id)
    writer.stuck()
    writer.groups()
    for verb in VERBS:
        try:
            writer.plan(verb)
        except UsageError:
            continue
    reading = {
        "hello", "info", "time", "scan", "sscan", "hscan", "type", "hget", "hmget", "hgetall", "hlen", "hstrlen",
        "hexists", "hkeys", "zrange", "zrevrange", "zrangebyscore", "zrevrangebyscore", "zcard", "zcount", "zscore",
        "zmscore", "zrank", "zrevrank", "scard", "sismember", "smismember", "smembers", "sintercard", "llen", "lrange",
        "lindex", "xlen", "xrange", "xrevrange", "get", "exists", "ttl", "client|setinfo", "client|no-touch", "config",
        "command", "ping", "randomkey", "dbsize", "zrandmember", "memory|usage", "client", "xinfo|stream", "pttl",
        "getrange", "xinfo|groups", "xinfo|consumers", "xpending", "config|get",
        "object|idletime", "srandmember", "hrandfield",
    }  # fmt: skip
    after = raw.info("commandstats")
    called = {
        name.removeprefix("cmdstat_")
        for name, stats in after.items()
        if stats["calls"] > before.get(name, {"calls": 0})["calls"]
    }
    assert called <= reading


def test_rows_count_what_lists_show(writer: Writer) -> None:
    counts = {
        (row.name, state): count
        for row in writer.snapshot().queues
        for state in State
        if (count := getattr(row, state.value)) is not None
    }
    assert sum(counts.values()) > 0
    assert {(name, state): len(list(writer.jobs(name, state=state.value))) for name, state in counts} == counts


def test_keys_are_identities_of_whole_records(writer: Writer) -> None:
    found = everything(writer)
    adapters = set(writer.snapshot().adapters)
    assert len({(job.queue, job.key) for job in found}) == len(found)
    for job in found[:60]:
        assert {job.adapter} == adapters
        detail = writer.job(job.queue, name_of(job))
        assert (detail.id, detail.state, detail.queue) == (job.id, job.state, job.queue)
        assert any(place.key == job.key for place in writer.find(job.id))


def test_filters_and_pages_leave_out_nothing(writer: Writer) -> None:
    found: set[str] = set()
    for row in writer.snapshot().queues:
        names = {job.key.partition("#")[0] for job in writer.jobs(row.name)}
        by_state = {
            job.key.partition("#")[0] for state in State for job in writer.jobs(row.name, where=f"state:{state.value}")
        }
        assert by_state == names
        cursor, seen = None, set()
        for _ in range(2000):
            page = writer.page(row.name, cursor=cursor, most=7)
            seen |= {job.key.partition("#")[0] for job in page.jobs}
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == names
        found |= names
    assert found


def test_secrets_are_masked(writer: Writer) -> None:
    jobs = everything(writer)
    assert jobs
    for job in jobs:
        assert "tok123" not in job.text()
        assert "tok123" not in str(job.payload())


@pytest.mark.parametrize("verb", VERBS)
def test_a_batch_is_its_plan_once_and_comes_back(writer: Writer, raw: redis.Redis, verb: str) -> None:
    before = whole(raw, writer)
    options: dict[str, Any] = {"state": "ready"} if verb in ("bury", "discard") else {}
    try:
        plan = writer.plan(verb, **options)
    except UsageError:
        return  # with the reason: see test_verbs
    assert whole(raw, writer) == before
    result = writer.apply(plan)
    assert result.error is None
    assert result.applied + result.skipped_count - len(plan.tail.skipped) == plan.count
    changed = whole(raw, writer)
    writer.apply(plan)
    assert whole(raw, writer) == changed
    if result.applied:
        undone = writer.undo(result.batch)
        assert undone.restored >= result.undoable
        if (
            verb not in ("cancel", "bury") or not writer.adapters.shows_native
        ):  # running ones are only asked; handlers stay
            assert whole(raw, writer) == before


def test_entries_that_are_the_same_are_all_there(url: str, raw: redis.Redis) -> None:
    raw.rpush("crowd:jobs", *(["again"] * 1200))
    with Writer(url, adapters=("lists",), adapter_settings={"lists": {"patterns": ["crowd:jobs"]}}) as writer:
        assert [row.ready for row in writer.snapshot().queues] == [1200]
        found = list(writer.jobs("crowd:jobs"))
        assert len(found) == len({job.key for job in found}) == 1200
        assert writer.job("crowd:jobs", found[-1].key).key == found[-1].key
        plan = writer.plan("discard", "crowd:jobs")
        assert writer.apply(plan).applied == 1200
        assert not raw.exists("crowd:jobs")
