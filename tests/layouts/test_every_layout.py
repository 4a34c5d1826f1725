"""The same promises through the deck, for each of the five layouts: native is one of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from layouts.conformance import picture
from layouts.test_conformance import FILL as FOREIGN
from qdeck._connection import Endpoint, SyncClient
from qdeck._deck.deck import Deck
from qdeck._deck.model import NATIVE, State
from qdeck._errors import UsageError
from qdeck._operations import api
from qdeck_console.demo.seed import Seeder

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from qdeck._deck.model import JobRecord

LAYOUTS = (NATIVE, *FOREIGN)
VERBS = ("retry", "discard", "cancel", "run", "bury")


@pytest.fixture(params=LAYOUTS)
def deck(request: pytest.FixtureRequest, url: str, raw: redis.Redis) -> Iterator[Deck]:
    if request.param == NATIVE:
        client = SyncClient(Endpoint(url))
        Seeder(client, 1).run()
        client.close()
    else:
        FOREIGN[request.param]().populate(raw)
    with Deck(url, layouts=(request.param,)) as deck:
        if request.param == NATIVE:
            deck.enqueue("shop:actions", "pay", kwargs={"token": "tok123"})
        yield deck


def whole(raw: redis.Redis, deck: Deck) -> object:
    """All of the server; of our own layout, whose undo leaves a line in histories, what its lists show."""
    if deck.others.shows_native:
        return Counter((job.queue, job.key, job.state, job.due_ms, job.priority) for job in everything(deck))
    return picture(raw)


def everything(deck: Deck) -> list[JobRecord]:
    return [job for row in deck.status().queues for job in deck.jobs(row.name)]


def name_of(job: JobRecord) -> str:
    return job.id if job.layout == NATIVE else job.key


def test_looking_writes_nothing(deck: Deck, raw: redis.Redis) -> None:
    before = raw.info("commandstats")
    found = everything(deck)
    assert found
    for job in found[:30]:
        deck.job(job.queue, name_of(job))
    deck.find(found[0].id)
    api.read_stuck(deck)
    api.read_groups(deck)
    for verb in VERBS:
        try:
            api.build_plan(deck, verb)
        except UsageError:
            continue
    reading = {
        "hello", "info", "time", "scan", "sscan", "hscan", "type", "hget", "hmget", "hgetall", "hlen", "hstrlen",
        "hexists", "hkeys", "zrange", "zrevrange", "zrangebyscore", "zrevrangebyscore", "zcard", "zcount", "zscore",
        "zmscore", "zrank", "zrevrank", "scard", "sismember", "smismember", "smembers", "sintercard", "llen", "lrange",
        "lindex", "xlen", "xrange", "xrevrange", "get", "exists", "ttl", "client|setinfo", "client|no-touch", "config",
        "command", "ping", "randomkey", "dbsize", "zrandmember", "memory|usage", "client", "xinfo|stream", "pttl",
    }  # fmt: skip
    after = raw.info("commandstats")
    called = {
        name.removeprefix("cmdstat_")
        for name, stats in after.items()
        if stats["calls"] > before.get(name, {"calls": 0})["calls"]
    }
    assert called <= reading


def test_rows_count_what_lists_show(deck: Deck) -> None:
    for row in deck.status().queues:
        for state in State:
            count = getattr(row, state.value)
            if count is not None:
                assert len(list(deck.jobs(row.name, state=state.value))) == count, (row.name, state)


def test_keys_are_identities_of_whole_records(deck: Deck) -> None:
    found = everything(deck)
    layouts = set(deck.status().layouts)
    assert len({(job.queue, job.key) for job in found}) == len(found)
    for job in found[:60]:
        assert {job.layout} == layouts
        detail = deck.job(job.queue, name_of(job))
        assert (detail.id, detail.state, detail.queue) == (job.id, job.state, job.queue)
        assert any(place.key == job.key for place in deck.find(job.id))


def test_filters_and_pages_leave_out_nothing(deck: Deck) -> None:
    for row in deck.status().queues:
        names = {job.key.partition("#")[0] for job in deck.jobs(row.name)}
        by_state = {
            job.key.partition("#")[0] for state in State for job in deck.jobs(row.name, where=f"state:{state.value}")
        }
        assert by_state == names
        cursor, seen = None, set()
        for _ in range(2000):
            page = deck.page(row.name, cursor=cursor, most=7)
            seen |= {job.key.partition("#")[0] for job in page.jobs}
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == names


def test_secrets_are_masked(deck: Deck) -> None:
    for job in everything(deck):
        assert "tok123" not in job.text()
        assert "tok123" not in str(job.payload())


@pytest.mark.parametrize("verb", VERBS)
def test_a_batch_is_its_plan_once_and_comes_back(deck: Deck, raw: redis.Redis, verb: str) -> None:
    before = whole(raw, deck)
    options: dict[str, Any] = {"state": "ready"} if verb in ("bury", "discard") else {}
    try:
        plan = api.build_plan(deck, verb, **options)
    except UsageError:
        return  # with the reason: see test_verbs
    assert whole(raw, deck) == before
    result = api.apply_plan(deck, plan)
    assert result.error is None
    assert result.applied + result.skipped_count - len(plan.tail.skipped) == plan.count
    changed = whole(raw, deck)
    api.apply_plan(deck, plan)
    assert whole(raw, deck) == changed
    if result.applied:
        undone = api.undo_batch(deck, result.batch)
        assert undone.restored >= result.undoable
        if verb not in ("cancel", "bury") or not deck.others.shows_native:  # running ones are only asked; handlers stay
            assert whole(raw, deck) == before


def test_entries_that_are_the_same_are_all_there(url: str, raw: redis.Redis) -> None:
    raw.rpush("crowd:jobs", *(["again"] * 1200))
    with Deck(url, layouts=("lists",), patterns=("crowd:jobs",)) as deck:
        assert [row.ready for row in deck.status().queues] == [1200]
        found = list(deck.jobs("crowd:jobs"))
        assert len(found) == len({job.key for job in found}) == 1200
        assert deck.job("crowd:jobs", found[-1].key).key == found[-1].key
        plan = api.build_plan(deck, "discard", "crowd:jobs")
        assert api.apply_plan(deck, plan).applied == 1200
        assert not raw.exists("crowd:jobs")
