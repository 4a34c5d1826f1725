"""Tickers: each run is made once, whoever is late, and what is missed is treated as the schedule says."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from core._schedules.registering import schedule
from qdeck._engine import codec, programs
from qdeck._redis import AsyncClient
from qdeck._redis.scripts import plain
from qdeck._schedules import store
from qdeck._schedules.ticker import Ticker
from qdeck.admin import Definition

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.servers import Server

QUEUE = "test:actions"
READY, CRON = f"{{{QUEUE}}}:ready", f"{{{QUEUE}}}:last_run"


def rewind(raw: redis.Redis, name: str, seconds: int) -> None:
    """Let a schedule be as if nobody had served it for so long."""
    line = raw.hget(store.STATE, name)
    assert isinstance(line, bytes)
    words = line.split(b" ")
    words[1] = b"%d" % (int(time.time() * 1000) - seconds * 1000)
    words[2] = b"0"
    raw.hset(store.STATE, name, b" ".join(words))
    raw.hincrby(store.STATE, "", 1)


async def tick_once(app: qdeck.App, **more: Any) -> Ticker:
    client = AsyncClient(app.endpoint)
    ticker = Ticker(client, **more)
    await ticker.tick()
    await client.close()
    return ticker


def row(app: qdeck.App, name: str = "feeds") -> Any:
    return next(row for row in app.client.run(store.read()) if row.name == name)


def ids(raw: Any) -> list[str]:
    return [job.decode() for job in raw.zrange(READY, 0, -1)]


async def test_a_turn_is_a_job_with_the_options_of_the_schedule(app: qdeck.App, raw: redis.Redis) -> None:
    events: list[dict[str, Any]] = []
    schedule(app, "feeds", "feed", 7, cron="* * * * *", _tags=["t"], _retries=9, _priority="HIGH", name="x")
    rewind(raw, "feeds", 61)
    await tick_once(app, on_event=events.append)
    [made] = ids(raw)
    run = int(time.time()) // 60 * 60
    assert made == f"cron:feeds:{datetime.fromtimestamp(run, UTC):%Y%m%dT%H%M%SZ}"
    stored: list[Any] = [raw.hget(f"{{{QUEUE}}}:{part}", made) for part in ("head", "body")]
    head = codec.read_head(stored[0])
    assert (head.task, head.priority, head.retries, head.tags) == ("feed", 50, 9, ("t",))
    assert codec.decode_call(stored[1]) == ([7], {"name": "x"})
    assert [event["ids"] for event in events if event["event"] == "ticked"] == [[made]]
    seen = row(app)
    assert (seen.last_id, seen.last_outcome, seen.jobs_made) == (made, "ready", 1)
    assert seen.next_ms == (run + 60) * 1000
    assert seen.late_s is None


@pytest.mark.parametrize(
    ("policy", "made", "missed"), [("skip", 0, 10), ("once", 1, 9), ("all", 10, 0)], ids=["skip", "once", "all"]
)
async def test_missed_turns(app: qdeck.App, raw: redis.Redis, policy: str, made: int, missed: int) -> None:
    # A rule whose last run was some minutes ago, and that had ten until then.
    now = int(time.time()) // 60 * 60
    minutes = ",".join(str((now // 60 - 3 - i) % 60) for i in range(10))
    schedule(app, "feeds", "feed", cron=f"{minutes} * * * *", missed=policy)
    rewind(raw, "feeds", 15 * 60)
    await tick_once(app)
    await tick_once(app)
    found = ids(raw)
    assert len(found) == made
    assert found == sorted(found)
    assert (row(app).missed_runs, row(app).jobs_made) == (missed, made)
    assert row(app).last_run_ms == (now - 180) * 1000


async def test_all_that_was_missed_is_bounded(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", cron="* * * * *", missed="all")
    rewind(raw, "feeds", 365 * 86400)
    await tick_once(app)
    assert len(ids(raw)) == 100
    assert row(app).missed_runs == 200  # of those that are counted one by one


async def test_a_late_turn_within_a_minute_is_not_missed(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", cron="* * * * *", missed="skip")
    rewind(raw, "feeds", 61)
    await tick_once(app)
    assert len(ids(raw)) == 1


async def test_trimming_cannot_repeat_a_turn(app: qdeck.App, raw: redis.Redis) -> None:
    """A ticker that decided on a run long ago sends it after the job was done and its id forgotten."""
    schedule(app, "feeds", "feed", cron="* * * * *")
    definition = app.schedules["feeds"]
    now = app.client.run(store.clock())
    run = now // 60_000 * 60
    first = app.client.run(store.tick(definition, now, [run], run))
    assert first.made == [definition.run_id(run)]
    for key in raw.keys(f"{{{QUEUE}}}:*"):
        if key not in (f"{{{QUEUE}}}:meta".encode(), CRON.encode()):
            raw.delete(key)
    again = app.client.run(store.tick(definition, now, [run], run))
    assert (again.made, again.handled_until, again.stale) == ([], run, False)
    assert raw.zcard(READY) == 0


async def test_a_decision_of_long_ago_is_refused(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", cron="* * * * *")
    now = app.client.run(store.clock())
    late = app.client.run(store.tick(app.schedules["feeds"], now - 31_000, [now // 1000], now // 1000))
    assert late.stale
    assert raw.zcard(READY) == 0


async def test_two_hundred_turns_by_three_tickers_one_of_them_frozen(app: qdeck.App, raw: redis.Redis) -> None:
    """Every ticker sees every run; one stands still between its decision and its call. One job per run."""
    definition = Definition.of("feeds", QUEUE, app.tasks["feed"].call().job, cron="* * * * * *", missed="all")
    app.client.run(store.register(definition))
    start = app.client.run(store.clock()) // 1000 - 200
    client = AsyncClient(app.endpoint)

    async def one(moment: int, freeze: float) -> list[str]:
        look = app.client.run(store.clock())
        await asyncio.sleep(freeze)
        ticked = await client.run(store.tick(definition, look, [moment], moment))
        if ticked.made:
            await client.run(store.record_runs("feeds", moment, 0, ticked.made))
        return ticked.made

    made: list[str] = []
    frozen = []
    for moment in range(start, start + 200):
        frozen.append(asyncio.create_task(one(moment, 0.5)))
        for found in await asyncio.gather(one(moment, 0.0), one(moment, 0.0)):
            made += found
        if moment % 20 == 0:
            raw.delete(READY, f"{{{QUEUE}}}:head", f"{{{QUEUE}}}:body")  # as if all of it were done and trimmed
    for late in await asyncio.gather(*frozen):
        made += late
    await client.close()
    assert len(made) == len(set(made)) == 200
    assert row(app).jobs_made == 200


async def test_tickers_side_by_side_make_each_turn_once(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", cron="* * * * * *")
    events: list[dict[str, Any]] = []
    clients = [AsyncClient(app.endpoint) for _ in range(4)]
    tasks = [asyncio.create_task(Ticker(client, on_event=events.append).run()) for client in clients]
    await asyncio.sleep(4.2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for client in clients:
        await client.close()
    made = [job for event in events if event["event"] == "ticked" for job in event["ids"]]
    assert 4 <= len(made) <= 5
    assert len(set(made)) == len(made)
    assert sorted(made) == ids(raw)


async def test_what_is_declared_is_registered_when_the_server_comes(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    app = qdeck.App(server.url, queue=QUEUE, patience=0.1)

    @app.task
    def feed() -> None: ...

    server.kill9()
    assert app.schedule("feeds", feed, cron="* * * * *") == "declared"
    client = AsyncClient(app.endpoint, patience=0.1)
    ticker = Ticker(client, declared=app.schedules)
    task = asyncio.create_task(ticker.run())
    await asyncio.sleep(0.1)
    server.relaunch()
    with server.client() as raw:
        for _ in range(100):
            await asyncio.sleep(0.1)
            if raw.hlen(store.SCHEDULES):
                break
        assert raw.hkeys(store.SCHEDULES) == [b"feeds"]
        # Somebody empties the server: it comes back.
        raw.flushall()
        await ticker.tick()
        assert raw.hkeys(store.SCHEDULES) == [b"feeds"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await client.close()
    app.close()


async def test_one_broken_schedule_does_not_hold_up_the_others(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", cron="* * * * *")
    schedule(app, "stolen", "feed", cron="* * * * *", _queue="other:actions")
    raw.hset(store.SCHEDULES, "garbage", b"{]")
    raw.hset(store.SCHEDULES, "newer", b'{"v":2}')
    raw.delete("{other:actions}:meta", "{other:actions}:ready")
    raw.set("{other:actions}:ready", "a string of another program")
    for name in ("feeds", "stolen"):
        rewind(raw, name, 61)
    events: list[dict[str, Any]] = []
    await tick_once(app, on_event=events.append)
    assert len(ids(raw)) == 1
    assert {event["schedule"] for event in events if event["event"] == "schedule_broken"} == {
        "garbage",
        "newer",
        "stolen",
    }
    rows = {seen.name: seen for seen in app.client.run(store.read())}
    assert rows["garbage"].problem
    assert rows["newer"].problem


async def test_a_turn_whose_unique_job_still_waits_is_left_out(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", cron="* * * * *", missed="all", _name="feeds", _unique=True)
    rewind(raw, "feeds", 180)
    await tick_once(app)
    assert len(ids(raw)) == 1


async def test_the_outcome_is_kept_when_the_record_is_gone(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", cron="* * * * *")
    rewind(raw, "feeds", 61)
    client = AsyncClient(app.endpoint)
    ticker = Ticker(client, poll=0.0)
    await ticker.tick()
    [made] = ids(raw)
    raw.zrem(READY, made)
    raw.zadd(f"{{{QUEUE}}}:done", {made: 1})
    await ticker.tick()
    raw.delete(f"{{{QUEUE}}}:done")
    assert row(app).last_outcome == "done"
    await client.close()


async def test_idle_it_asks_for_next_to_nothing(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", cron="0 0 1 1 *")
    client = AsyncClient(app.endpoint)
    ticker = Ticker(client)
    rest = await ticker.tick()
    before = raw.info("stats")["total_commands_processed"]
    rest = await ticker.tick()
    asked = raw.info("stats")["total_commands_processed"] - before - 1
    assert asked / rest <= 0.2
    await client.close()


async def test_it_survives_an_emptied_script_cache(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", cron="* * * * *")
    rewind(raw, "feeds", 61)
    raw.script_flush()
    await tick_once(app)
    assert len(ids(raw)) == 1
    assert app.client.run(programs.exists(QUEUE, ids(raw))) == [True]
    assert plain("_schedules/schedule", asks_itself=True).digest


async def test_a_clock_that_was_far_ahead_for_a_while_does_not_end_a_schedule(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", cron="* * * * *")
    future = int(time.time()) + 10 * 365 * 86_400
    raw.hset(store.STATE, "feeds", b"1 %d %d 0 0 1 - -" % (time.time() * 1000 - 3_600_000, future))
    raw.hset(CRON, "feeds", str(future))
    assert abs(row(app).next_ms / 1000 - time.time()) <= 60
    definition, now = app.schedules["feeds"], app.client.run(store.clock())
    run = now // 1000 + 1
    assert app.client.run(store.tick(definition, now, [run], run)).made
    assert app.client.run(store.record_runs("feeds", run, 0, ["x"]))
    assert row(app).last_run_ms == run * 1000


async def test_a_ticker_notices_that_the_clock_went_back(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", cron="* * * * * *")
    client = AsyncClient(app.endpoint)
    ticker = Ticker(client)
    await ticker.tick()
    ticker._read_ms += 3_600_000
    ticker._scheduled["feeds"].due = ticker._scheduled["feeds"].handled_until = int(time.time()) + 3_600
    await ticker.tick()
    due = ticker._scheduled["feeds"].due
    assert due is not None
    assert due <= time.time() + 2
    await client.close()


async def test_without_rights_it_asks_seldom(make_server: Callable[..., Server]) -> None:
    server = make_server()
    with server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "poor", "on", ">pw", "~{*", "+@all")
        app = qdeck.App(server.url.replace("redis://", "redis://poor:pw@"), queue=QUEUE)
        events: list[dict[str, Any]] = []
        client = AsyncClient(app.endpoint)
        task = asyncio.create_task(Ticker(client, on_event=events.append).run())
        await asyncio.sleep(1.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()
    assert [event["event"] for event in events] == ["waiting"]


async def test_many_schedules_are_shared_by_many_tickers(app: qdeck.App, raw: redis.Redis) -> None:
    for i in range(100):
        schedule(app, f"s{i}", "feed", cron="* * * * *")
    for i in range(100):
        rewind(raw, f"s{i}", 61)
    clients = [AsyncClient(app.endpoint) for _ in range(4)]
    raw.config_resetstat()
    await asyncio.gather(*(Ticker(client).tick() for client in clients))
    calls: Any = raw.info("commandstats")
    for client in clients:
        await client.close()
    assert len(ids(raw)) == 100
    assert calls["cmdstat_evalsha"]["calls"] < 600  # each makes a part: alone they would all make 800
