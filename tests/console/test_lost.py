"""A server that is lost: what each screen saw stays with its age, the cause is told, and the next try is not far."""

from __future__ import annotations

import asyncio
import re
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from qdeck import NotAllowed, ServerUnreachable, UnreachableCause
from qdeck.admin import ServerInfo, Snapshot, Status, Totals, Writer
from qdeck_console.feed import INTERVAL_S, Feed, FeedState, Query
from qdeck_console.presenters import frame
from qdeck_console.presenters.no_queues import no_queues_lines
from support.proxy import FaultProxy
from support.screens import HOOKS, app_of, console, fail_next, fill, lines, text, until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck_console.format import Line
    from support.servers import Server


def words(line: Line) -> str:
    return "".join(part for part, _ in line)


def test_the_cause_is_told_in_few_words_and_never_cut_for_less() -> None:
    told = "redis://h:6379/0 cannot be reached: Error 111 connecting to h:6379. Connect call failed"

    def problem(text: str, cause: UnreachableCause = UnreachableCause.UNKNOWN, server: str = "h:1") -> str:
        return frame.problem(FeedState(problem=text, cause=cause, server=server))

    assert problem(told, UnreachableCause.REFUSED, "h:6379") == "connection refused by h:6379"
    assert problem("any text", UnreachableCause.TIMED_OUT) == "no answer from h:1"
    assert problem("any text", UnreachableCause.CLOSED) == "connection closed by h:1"
    assert problem("any text", UnreachableCause.NO_SUCH_HOST) == "no such host: h:1"
    assert problem("a socket file", UnreachableCause.REFUSED, "") == "a socket file"
    assert problem("redis://reset:1 cannot be reached: refused") == "redis://reset:1 cannot be reached: refused"
    assert problem("not allowed by the server: no HGETALL") == "no HGETALL"
    assert problem("something else") == "something else"
    snapshot: Any = SimpleNamespace()
    lost = FeedState(
        snapshot=snapshot, problem=told, kind="server lost", cause=UnreachableCause.REFUSED, server="h:6379", tries=4,
        retry_at=8.0, pause_s=4.0,
    )  # fmt: skip
    for cells in (60, 80, 99, 100, 120, 139, 140, 160):
        line = words(frame.verdict(lost, cells, now=5.0))
        assert len(line) == cells
        assert "retrying in 3s" in line
        assert "connection refused by h:6379" in line or cells < 80
        assert ("data from" in line) is (cells >= 120)
    long = FeedState(snapshot=snapshot, problem="x" * 90, kind="not allowed", retry_at=8.0, pause_s=4.0)
    line = words(frame.verdict(long, 160, now=8.0))
    assert "✗ not allowed" in line
    assert "retrying now" in line
    assert " old)" not in line, "the cause comes first"


async def test_the_pauses_grow_to_ten_seconds_and_looking_around_does_not_lengthen_them() -> None:
    errors: list[Exception] = [ServerUnreachable("gone")] * 8 + [NotAllowed("no"), ValueError("odd")]

    async def look() -> Snapshot:
        raise errors.pop(0)

    feed = Feed(look, lambda _picture: None)
    pauses = [await feed._tick(0.0) and feed.state.pause_s for _ in range(8)]
    assert pauses == [0.5, 1, 2, 4, 8, 10, 10, 10]
    assert feed.state.kind == "server lost"
    feed.want(None)
    assert not feed._wake.is_set()
    feed.poke()
    assert feed._wake.is_set()
    await feed._tick(0.0)
    assert feed.state.kind == "not allowed"
    await feed._tick(0.0)
    assert feed.state.kind == "not readable"


def numbered(number: int) -> Snapshot:
    return Snapshot(
        at_ms=number, server=ServerInfo(), status=Status.HEALTHY, findings=(), adapters=("native",), totals=Totals(),
        queues=(),
    )  # fmt: skip


async def test_a_snapshot_whose_second_read_fails_is_never_shown() -> None:
    """What a screen reads besides the queues belongs to the same snapshot: both are new, or both are old and stale."""
    numbers, published, halfway = iter(range(1, 10)), list[FeedState](), list[FeedState]()
    failing = False

    async def look() -> Snapshot:
        return numbered(next(numbers))

    async def second(snapshot: Snapshot) -> str:
        await asyncio.sleep(0)
        halfway.append(feed.state)
        if failing:
            raise ServerUnreachable("gone between the two reads")
        return f"rows of {snapshot.at_ms}"

    feed = Feed(look, published.append)
    feed.want(Query("jobs", second))
    await feed._tick(time.monotonic())
    failing = True
    for _ in range(2):
        await feed._tick(time.monotonic())
        assert feed.state.snapshot == numbered(1)
        assert feed.state.result == "rows of 1"
        assert feed.state.is_lost, "and is marked as old"
    failing = False
    await feed._tick(time.monotonic())
    assert feed.state.snapshot == numbered(4)
    assert feed.state.result == "rows of 4"
    assert not feed.state.is_lost
    for feed_state in halfway[1:]:
        assert feed_state.result == f"rows of {feed_state.snapshot.at_ms}" if feed_state.snapshot else True, (
            "never half of it"
        )


@pytest.mark.slow
async def test_a_cut_at_any_byte_of_a_refresh_leaves_a_whole_frame(
    make_server: Callable[..., Server],
) -> None:
    """The count in the tab and that in the row are of one snapshot, however much of a reply came."""
    server = make_server()
    fill(server.url)
    dead = 12
    with FaultProxy(server.port, target_url=server.url) as proxy, Writer(server.url) as writer:
        async with console(proxy.url) as pilot:
            app = app_of(pilot)
            await until(pilot, "4 Dead 12")
            for count in (0, 1, 50, 200, 500, 1000, 2000, 4000):
                writer.enqueue(HOOKS, "deliver", [count], retries=0)
                fail_next(server.url, HOOKS, {"class": "ConnectionError", "message": "refused again"})
                dead += 1
                proxy.reset_after(count)
                for _ in range(30):
                    frame_text = await until(pilot, "4 Dead")
                    [tab] = re.findall(r"4 Dead (\d+)", frame_text)
                    [row] = re.findall(r"hooks +\S+ +\S+ +\S+ +\S+ +(\d+) ", frame_text)
                    assert tab == row, frame_text
                proxy.heal()
            await until(pilot, lambda: not app.shown.is_lost and f"4 Dead {dead}" in text(app))


async def test_a_look_that_waited_for_a_frozen_server_does_not_put_off_the_next_one() -> None:
    seen = Snapshot(
        at_ms=1,
        server=ServerInfo(),
        status=Status.HEALTHY,
        findings=(),
        adapters=("native",),
        totals=Totals(),
        queues=(),
    )

    async def look() -> Snapshot:
        return seen

    feed = Feed(look, lambda _picture: None)
    now = time.monotonic()
    assert await feed._tick(now) == INTERVAL_S
    assert await feed._tick(now - 9.0) == INTERVAL_S, "it was frozen, and answered at last"
    assert await feed._tick(time.monotonic()) == INTERVAL_S
    assert await feed._tick(now - 4.0) == INTERVAL_S
    assert await feed._tick(now - 4.0) >= 40.0, "so much it costs: a tenth of the time"


async def test_each_screen_keeps_what_it_saw_until_the_server_is_back(make_server: Callable[..., Server]) -> None:
    server = make_server()
    fill(server.url)
    with FaultProxy(server.port, target_url=server.url) as proxy:
        async with console(proxy.url) as pilot:
            app = app_of(pilot)
            await until(pilot, "watch")
            await pilot.press("8")
            await until(pilot, "round trip")
            await pilot.press("4")
            await until(pilot, "1–")
            proxy.refuse()
            await until(pilot, lambda: app.shown.is_lost)
            assert "old" in lines(app)[0]
            await until(pilot, ":reconnect")
            for key, seen in (("8", "round trip"), ("4", "last hour"), ("1", "watch")):
                await pilot.press(key)
                await until(pilot, seen)
            tries = app.latest.tries
            for key in "9393":
                await pilot.press(key)
                await until(pilot, "not read yet")
            assert app.latest.tries <= tries + 2, "looking around is no try"
            proxy.heal()
            await pilot.press("colon", *"reconnect", "enter")
            await until(pilot, lambda: not app.shown.is_lost)
            await until(pilot, lambda: "worker lost" in text(app) or "is stuck" in text(app))


async def test_rights_taken_away_are_told_on_each_screen_and_come_back(url: str, raw: redis.Redis) -> None:
    fill(url)
    raw.acl_setuser("op", enabled=True, passwords=["+pw"], keys=["*"], categories=["+@all"], reset=True)
    async with console(url.replace("redis://", "redis://op:pw@"), "8") as pilot:
        app = app_of(pilot)
        await until(pilot, "eviction policy")
        raw.execute_command("ACL", "SETUSER", "op", "-info", "-slowlog")
        seen = await until(pilot, "SLOWLOG is not allowed")
        assert "unknown" in seen
        assert "pw@" not in seen
        await pilot.press("4")
        await until(pilot, "1–")
        raw.execute_command("ACL", "SETUSER", "op", "-@read", "-scan")
        seen = await until(pilot, "✗ not allowed")
        assert "last hour" in seen, "what was seen stays"
        raw.execute_command("ACL", "SETUSER", "op", "+@all")
        await until(pilot, lambda: not app.shown.is_lost)
        await pilot.press("8")
        await until(pilot, lambda: "SLOWLOG is not allowed" not in text(app))
    raw.acl_deluser("op")


@pytest.mark.parametrize("size", [(160, 48), (80, 24), (60, 16)])
async def test_a_server_without_queues_says_what_now(url: str, raw: redis.Redis, size: tuple[int, int]) -> None:
    raw.set("else", "1")
    async with console(url, size=size) as pilot:
        await until(pilot, "No queues")
        await until(pilot, lambda: "s sort" not in text(app_of(pilot)))  # there is none to be sorted
        assert all(len(line) == size[0] for line in lines(app_of(pilot)))
        if size[1] > 16:
            seen = await until(pilot, "holds 1 key")
            for word in ("looked for", "qdeck:queues", "what now", "qdeck demo", "Reading changes nothing"):
                assert word in seen, word
        fill(url)
        await until(pilot, "watch")
        assert "No queues" not in text(app_of(pilot))


@pytest.mark.parametrize("cells", [40, 80, 118, 160])
def test_the_block_fits_and_tells_how_many_keys_there_are(cells: int) -> None:
    for keys, told in ((None, "none of its keys"), (0, "is empty"), (3, "holds 3 keys")):
        block = no_queues_lines(cells, 40, server="h:1/0", keys=keys, looked_for=[("native", "x" * 90)], contexts=2)
        assert all(len(words(line)) <= cells for line in block)
        assert cells < 80 or any(told in words(line) for line in block)


async def test_a_lost_server_that_may_not_be_written_to_offers_to_reconnect(make_server: Callable[..., Server]) -> None:
    server = make_server()
    fill(server.url)
    async with console(server.url, size=(80, 24), read_only=True) as pilot:
        await until(pilot, ":live")
        server.kill9()
        seen = await until(pilot, ":reconnect")
        assert "watch" in seen
