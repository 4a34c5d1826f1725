"""Five adapters among a million keys of others: what a look costs the server, counted rather than timed."""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.adapters.test_conformance import FILL
from qdeck._redis import keyspace_scan
from qdeck._redis.keyspace_scan import FIRST_S, NEXT_STEPS, STEP
from qdeck._server import native_queues
from qdeck.adapters import discovery
from qdeck.adapters.lists.adapter import Lists
from qdeck.admin import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck.admin import Program, Snapshot
    from support.servers import Server

ALL = ("native", "lists", "vmpooler", "ifdb", "scheduler")
KEYS = 1_000_000


def scans(raw: redis.Redis) -> int:
    stats = raw.info("commandstats")
    raw.config_resetstat()
    found: int = stats.get("cmdstat_scan", {}).get("calls", 0)
    return found


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_million_unrelated_keys(make_server: Callable[..., Server]) -> None:
    server = make_server("--enable-debug-command", "local")
    with server.client(timeout_s=60) as raw, Writer(server.url, adapters=ALL) as writer:
        raw.execute_command("DEBUG", "POPULATE", KEYS, "other:key", 40)
        for adapter in FILL.values():
            adapter().populate(raw)
        writer.enqueue("shop:actions", "t")
        scans(raw)
        raw.config_set("slowlog-log-slower-than", 10_000)
        raw.slowlog_reset()
        began = time.monotonic()
        seen = writer.snapshot()
        took = time.monotonic() - began
        first = scans(raw)
        assert set(seen.adapters) <= set(ALL)
        assert first <= 2 * (KEYS // STEP + 10)
        while is_unfinished(writer):
            assert took >= FIRST_S  # only a machine under load does not come to the end at once
        seen = writer.snapshot()
        assert seen.adapters == ALL
        scans(raw)
        for _ in range(3):
            with Writer(server.url, adapters=ALL) as fresh:  # it remembers what the first one found
                began = time.monotonic()
                again = fresh.snapshot()
                print(f"first look {took:.2f} s with {first} scans, then {time.monotonic() - began:.3f} s")  # noqa: T201 - figures for whoever runs it with -s
            assert [row.name for row in again.queues] == [row.name for row in seen.queues]
            assert scans(raw) <= 2 * NEXT_STEPS + 1


def push_lists(raw: redis.Redis, numbers: range) -> None:
    pipe = raw.pipeline(transaction=False)
    for number in numbers:
        pipe.rpush(f"execution:agent_run:free:{number}", b'{"task_id": "%d"}' % number)
        if number % 10_000 == 9_999:
            pipe.execute()
    pipe.execute()


def is_unfinished(writer: Writer) -> bool:
    return any("is not complete yet" in notice for notice in writer.snapshot().notices)


def test_many_lists_of_one_entry_are_one_queue(url: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 4000
    monkeypatch.setattr(keyspace_scan, "STEP", 500)
    monkeypatch.setattr(keyspace_scan, "FIRST_S", 0.0)
    push_lists(raw, range(count))
    looks = 0
    for _ in range(count):
        with Writer(url, adapters=("lists",)) as writer:  # each look by another process: what one found, the next knows
            looks += 1
            if not is_unfinished(writer):
                break
    assert 1 < looks <= count // (500 * NEXT_STEPS) + 3
    with Writer(url, adapters=("lists",)) as writer:
        [row] = writer.snapshot().queues
        assert (row.name, row.ready) == ("execution:agent_run:free:*", count)
        seen = {job.key for job in writer.jobs(row.name)}
        assert len(seen) == count


def test_a_list_that_comes_later_is_found_by_whoever_looks_only_once(
    url: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `qdeck status` of a cron job: each goes on where the last one ended."""
    monkeypatch.setattr(keyspace_scan, "STEP", 100)
    raw.execute_command("DEBUG", "POPULATE", 2000, "other:key", 5)
    with Writer(url, adapters=("lists",)) as writer:
        while is_unfinished(writer):
            pass
    raw.rpush("shop:sub:actions", "late")
    for _ in range(2 * 2000 // (100 * NEXT_STEPS) + 4):
        with Writer(url, adapters=("lists",)) as writer:
            if writer.snapshot().queues:
                break
    else:
        pytest.fail("it was never found")


@pytest.mark.parametrize(
    "told",
    [
        "", "{", "null", '{"passes": 5}', '{"passes": {"€": {}}}',
        *(f'{{"passes": {{"lists *": {{"cursor": "{cursor}"}}}}}}' for cursor in ("abc", "-5", "²", "9" * 21, "")),
        '{"passes": {}, "strays": {"cursor": "x"}}',
        '{"passes": {"lists *": {"found": {"ready gone": {"count": 2, "names": ["Z29uZQ=="]}}, "passes": 1}}}',
    ],
)  # fmt: skip
def test_a_memory_that_is_spoilt_hides_nothing(url: str, raw: redis.Redis, told: str) -> None:
    raw.rpush("shop:sub:actions", "x")
    with Writer(url, adapters=("lists",)) as writer:
        path = discovery.memory_path(writer.address)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(told)
    with Writer(url, adapters=("lists",)) as writer:
        seen = writer.snapshot()
    assert ([row.name for row in seen.queues], seen.notices) == (["shop:sub:actions"], ())


def test_queues_of_ours_without_a_registry_are_found_and_remembered(
    url: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyspace_scan, "STEP", 100)
    monkeypatch.setattr(keyspace_scan, "FIRST_S", 0.0)
    with Writer(url, adapters=ALL) as writer:
        writer.enqueue("shop:actions", "t")
    raw.delete("qdeck:queues")
    raw.execute_command("DEBUG", "POPULATE", 2000, "other:key", 5)
    looks = 0
    while looks < 30:
        looks += 1
        with Writer(url, adapters=ALL) as writer:
            seen = writer.snapshot()
        if not any("no registry" in notice for notice in seen.notices):
            break
    assert 1 < looks <= 2000 // (100 * NEXT_STEPS) + 2
    assert [row.name for row in seen.queues] == ["shop:actions"]
    raw.config_resetstat()
    with Writer(url, adapters=ALL) as writer:
        assert [row.name for row in writer.snapshot().queues] == ["shop:actions"]
    assert raw.info("commandstats")["cmdstat_scan"]["calls"] <= 2 * NEXT_STEPS + 1


def test_only_lists_are_looked_for_again_where_nothing_of_another_system_is(url: str, raw: redis.Redis) -> None:
    raw.rpush("shop:sub:actions", "x")
    raw.rpush("visits", "x")
    with Writer(url, adapters=ALL) as writer:
        writer.enqueue("shop:actions", "t")
        writer.snapshot()
        for _ in range(3):
            scans(raw)
            assert [row.name for row in writer.snapshot().queues] == ["shop:actions", "shop:sub:actions"]
            assert scans(raw) == 1
    with Writer(url, adapters=ALL) as writer:  # another process looks once for queues that the registry lacks
        writer.snapshot()
    assert scans(raw) == 2


def test_keys_of_a_system_are_looked_for_as_soon_as_a_fixed_key_of_it_is_there(url: str, raw: redis.Redis) -> None:
    with Writer(url, adapters=ALL) as writer:
        assert writer.snapshot().queues == ()
        raw.sadd("vmpooler__ready__left-over", "vm-1")
        raw.sadd("vmpooler__pools", "in-use")
        assert {"left-over", "in-use"} <= {row.name for row in writer.snapshot().queues}
        raw.delete("vmpooler__pools")
        assert "left-over" in {row.name for row in writer.snapshot().queues}


def test_what_a_system_left_behind_is_found_later_without_its_fixed_keys(
    url: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer(url, adapters=ALL) as writer:
        assert writer.snapshot().queues == ()
        raw.sadd("vmpooler__ready__left-over", "vm-1")
        assert writer.snapshot().queues == ()
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + discovery.BELIEVED_S)
        assert "left-over" in {row.name for row in writer.snapshot().queues}


def test_a_queue_that_leaves_the_registry_stays_in_sight(
    url: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer(url) as writer:
        for queue in ("shop:actions", "other:actions"):
            writer.enqueue(queue, "t")
        raw.hdel("qdeck:queues", "other:actions")
        assert [row.name for row in writer.snapshot().queues] == ["other:actions", "shop:actions"]
        writer.enqueue("third:actions", "t")
        raw.hdel("qdeck:queues", "third:actions")
        assert "third:actions" not in {row.name for row in writer.snapshot().queues}
        monkeypatch.setattr(native_queues, "STRAYS_MS", 0)
        assert "third:actions" in {row.name for row in writer.snapshot().queues}


def test_a_look_takes_few_round_trips(url: str, raw: redis.Redis) -> None:
    """A server may be far away: all adapters are asked side by side."""
    for adapter in FILL.values():
        adapter().populate(raw)
    for number in range(8):
        raw.sadd("vmpooler__pools", f"pool-{number}")
        raw.sadd(f"vmpooler__ready__pool-{number}", f"vm-{number}")
        raw.rpush(f"shop:sub{number}:actions", "x")
    with Writer(url, adapters=ALL) as writer:
        writer.enqueue("shop:actions", "t")
        writer.snapshot()
        program = writer.adapters.look()
        trips = 0

        def counted() -> Program[Snapshot]:
            nonlocal trips
            replies = None
            while True:
                try:
                    send = next(program) if replies is None else program.send(replies)
                except StopIteration as stop:
                    seen: Snapshot = stop.value
                    return seen
                trips += 1
                replies = yield send

        seen = writer.run(counted())
    assert seen.adapters == ALL
    assert trips <= 16


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_million_lists_of_one_entry(make_server: Callable[..., Server]) -> None:
    server = make_server()
    with server.client(timeout_s=60) as raw, Writer(server.url, adapters=("lists",)) as writer:
        push_lists(raw, range(KEYS))
        raw.config_resetstat()
        began, looks = time.monotonic(), 1
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        unfinished = is_unfinished(writer)
        first = time.monotonic() - began
        while unfinished:
            looks, unfinished = looks + 1, is_unfinished(writer)
        [row] = writer.snapshot().queues
        assert (row.name, row.ready) == ("execution:agent_run:free:*", KEYS)
        scan = raw.info("commandstats")["cmdstat_scan"]
        assert scan["usec_per_call"] < 10_000
        began = time.monotonic()
        assert len(writer.snapshot().queues) == 1
        later = time.monotonic() - began
        cursor, pages, seen = None, 0, 0
        while pages < 50:  # a slice at a time; all of them takes half a minute
            page = writer.page(row.name, cursor=cursor)
            assert len(page.jobs) <= 20_000
            pages, seen, cursor = pages + 1, seen + len(page.jobs), page.cursor
        assert seen > 0
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
        assert grown < 60
        print(f"first look {first:.2f} s, all found after {looks}, later {later:.3f} s, {grown} MB, {scan}")  # noqa: T201 - figures for whoever runs it with -s


@given(
    st.lists(
        st.sampled_from(
            ["a", "execution", "free", "enterprise", "actions", "dead_letter", "", "x:y", "*", "12", "responses", "svc"]
        ),
        min_size=1,
        max_size=7,
    ),
    st.lists(st.sampled_from(["1", "dead_letter", "", "free", "actions", "c 1"]), max_size=4),
)
def test_what_is_remembered_of_names_changes_no_queue(parts: list[str], ends: list[str]) -> None:
    adapter, head = Lists(), ":".join(parts)
    for name in (head, *(f"{head}:{end}" for end in ends), head):
        assert adapter.gather(name.encode()) == Lists().gather(name.encode())
