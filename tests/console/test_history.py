"""What the feed remembers: samples that become coarser, gaps that stay empty, and the hour that an agent saw."""

from __future__ import annotations

from qdeck.admin import NATIVE, QueueRef, QueueRow, Sample, ServerInfo, Snapshot, Status, Totals, Writer
from qdeck_console.history import SAMPLES, History, Pasts
from qdeck_console.queue_findings import FindingsByQueue
from qdeck_console.screens.frame import FrameScreen
from support.screens import app_of, console, until

Q, OTHER = QueueRef(NATIVE, "demo:dev:mail:actions"), QueueRef(NATIVE, "demo:dev:search:actions")


def feed_state(at_s: float, *rows: QueueRow, fresh: frozenset[QueueRef] | None = None) -> Snapshot:
    return Snapshot(
        at_ms=int(at_s * 1000), server=ServerInfo(), status=Status.HEALTHY, findings=(), adapters=("native",),
        totals=Totals(), queues=rows, fresh=fresh,
    )  # fmt: skip


def row(ready: int, *, name: str = Q.name) -> QueueRow:
    return QueueRow(name=name, ready=ready, in_per_s=2.0, out_per_s=1.0)


def take(history: History, at_s: float, *rows: QueueRow, fresh: frozenset[QueueRef] | None = None) -> None:
    for _ in history.steps(feed_state(at_s, *rows, fresh=fresh), at_s):
        pass


def test_a_full_chart_begins_a_quarter_of_an_hour_ago() -> None:
    history = History()
    for second in range(1000):
        take(history, 10_000.0 + second, row(second))
    assert history.span_s == 900
    known = [value for value in history.ready(Q, SAMPLES) if value is not None]
    assert len(known) == SAMPLES
    assert known == sorted(known)
    assert known[-1] > 970
    assert history.filled(Q, 9) == [2.0] * 9


def test_the_time_without_a_server_stays_empty() -> None:
    history = History()
    for second in [*range(300), *range(400, 500)]:
        take(history, 10_000.0 + second, row(5))
    cells = history.ready(Q, SAMPLES)
    assert None in cells[5:-5]
    assert cells[-1] == 5


def test_rates_that_are_not_known_are_gaps_and_not_zeros() -> None:
    history = History()
    for second in range(60):
        take(
            history,
            10_000.0 + second,
            QueueRow(name=Q.name, ready=3),
            QueueRow(name=OTHER.name, in_per_s=1.0, out_per_s=0.0),
        )
    assert history.filled(Q, 9) == history.drained(Q, 9) == [None] * 9
    assert history.ready(Q, 9)[-1] == 3
    assert (history.filled(OTHER, 9)[-1], history.drained(OTHER, 9)[-1], history.ready(OTHER, 9)[-1]) == (1, 0, None)
    at_ms = 10_060_000
    history.learn(Pasts({Q: [Sample(at_ms=at_ms - 9_000, ready=3, dead=0, enqueued=5_000, done=0, failed=0)]}))
    assert history.filled(Q, SAMPLES) == [None] * SAMPLES  # one sample tells of no rate


def test_what_is_gone_is_forgotten() -> None:
    history = History()
    take(history, 1.0, row(1), row(1, name=OTHER.name))
    assert history.ready(OTHER, 4)[-1] == 1
    take(history, 2.0, row(9))
    assert (history.ready(Q, SAMPLES)[-1], history.ready(OTHER, SAMPLES)[-1]) == (9, None)


def test_an_agents_hour_comes_before_own_samples() -> None:
    history, now = History(), 2_000_000_000.0
    take(history, now, row(7))
    assert history.lacking([Q, OTHER], 8) == [Q, OTHER]
    samples = [
        Sample(at_ms=int(now * 1000) - 10_000 * n, ready=100 + n, dead=0, enqueued=10_000 - 50 * n, done=0, failed=0)
        for n in range(360, 0, -1)
    ]
    history.learn(Pasts({Q: samples, OTHER: []}))
    assert history.lacking([Q, OTHER], 8) == []
    assert history.span_s == 3600
    cells = history.ready(Q, SAMPLES)
    assert cells[-1] == 7
    assert all(value is not None and 100 <= value <= 460 for value in cells[1:-1])
    assert 4.9 < (history.filled(Q, SAMPLES)[10] or 0) < 5.1
    assert history.ready(OTHER, 4) == [None] * 4


def test_a_queue_that_is_as_it_was_is_not_judged_again() -> None:
    judge = FindingsByQueue()
    first, still = row(1), row(1, name=OTHER.name)
    for rows in ((first, still), (row(2), still)):
        before = judge.listed
        for _ in judge.steps(feed_state(1.0, *rows)):
            pass
    assert judge.listed.entries[1] is before.entries[1]
    assert judge.listed.entries[0].row.ready == 2
    assert dict(judge.listed.before) == {Q: first}
    assert judge.listed.of(OTHER) is before.entries[1]
    assert judge.listed.of(QueueRef(NATIVE, "nowhere")) is None


async def test_the_charts_of_a_frozen_screen_stand_still(url: str) -> None:
    with Writer(url) as writer:
        for _ in range(3):
            writer.enqueue(Q.name, "send")
        async with console(url, "1", "enter") as pilot:
            app = app_of(pilot)
            await until(pilot, lambda: app.shown.history.ready(Q, SAMPLES)[-1] == 3)
            await pilot.press("f")
            await until(pilot, "FROZEN")
            before = app.shown.history.ready(Q, SAMPLES)
            for _ in range(40):
                writer.enqueue(Q.name, "send")
            await until(pilot, lambda: app.latest.history.ready(Q, SAMPLES)[-1] == 43)
            screen = app.screen
            assert isinstance(screen, FrameScreen)
            assert screen.feed_state.history.ready(Q, SAMPLES) == app.shown.history.ready(Q, SAMPLES) == before
            await pilot.press("f")
            await until(pilot, lambda: screen.feed_state.history.ready(Q, SAMPLES)[-1] == 43)
