"""One queue in detail: its chart with the limit, its sections, and what is left out where there is no room."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from qdeck.adapters.native.queue_details import Died
from qdeck.admin import (
    Activity,
    AsyncReader,
    BatchOutcomes,
    CloseUp,
    Code,
    QueueRef,
    QueueRow,
    Snapshot,
    Spread,
    State,
    Totals,
    Writer,
)
from qdeck_console.feed import FeedState
from qdeck_console.format import length, path
from qdeck_console.presenters.charts import area
from qdeck_console.presenters.empty_state import EmptyState, empty_state_lines
from qdeck_console.presenters.line_parts import PLAIN, Naming
from qdeck_console.presenters.queue_detail import detail
from qdeck_console.presenters.queue_statistics import deaths, operations, payloads, times
from qdeck_console.presenters.queues import QueueView, list_in_question, total_line
from qdeck_console.queue_findings import ListedQueue, RowReason, Severity
from qdeck_console.selected_queue import Insight
from support.screens import HOOKS, MAIL, app_of, bury, console, text, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from qdeck_console.format import Line

CELLS = 38


def _text(lines: list[Line]) -> list[str]:
    assert all(length(line) <= CELLS for line in lines)
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def test_a_limit_is_drawn_in_empty_cells_only_and_when_it_is_near() -> None:
    drawn = area([None, 10, 300, 450], 5, limit=250)
    assert _text(drawn) == [" 500┤   ▄", "    │   █", " 250┤╌╌██", "    │  ██", "   0┤ ▁██"]
    assert (drawn[2][0], drawn[2][2]) == ((" 250", "warn"), ("╌╌", "warn"))
    assert not any("╌" in text for line in area([1, 10], 5, limit=250) for text, _ in line)
    top = area([400.0, 420.0], 7, limit=500)
    assert top[0][0] == (" 500", "warn")
    assert "╌╌" in top[0][2][0]


def _seen(**more: object) -> CloseUp:
    spread = Spread(p50_ms=720_000, p95_ms=2_200_000, max_ms=2_292_000, sampled=100, of=48_210)
    few = Spread(p50_ms=800, p95_ms=30_000, max_ms=30_000, sampled=32, of=32)
    done = Spread(p50_ms=900, p95_ms=31_000, max_ms=41_000, sampled=200, of=1_000)
    return CloseUp(at_ms=0, waiting=spread, running=few, done=done, **more)  # type: ignore[arg-type] # by name


def test_times_say_of_how_many_jobs_they_are() -> None:
    shown = _text(times(_seen(), CELLS))
    assert shown[1].split() == ["p50", "p95", "max"]
    assert shown[2].split() == ["waiting", "12m", "00s", "36m", "40s", "38m", "12s"]
    assert shown[3].split() == ["running", "0.8s", "30s", "30s"]
    assert " ".join(shown[5:]) == "100 of the 48,210 waiting sampled, 32 running, the last 200 done"
    assert times(CloseUp(at_ms=0), CELLS) == []


def test_deaths_by_error_are_cut_with_a_sign() -> None:
    died = tuple(Died(error_class=f"Error{n}", count=100 - n) for n in range(6))
    shown = _text(deaths(_seen(died=died), 585, CELLS))
    assert [line.split()[:2] for line in shown[1:]] == [
        ["100", "Error0"],
        ["99", "Error1"],
        ["98", "Error2"],
        ["288", "3"],
    ]
    assert "3 others" in shown[-1]
    assert shown[0].endswith(" 585")
    assert _text(deaths(_seen(died=None), 5, CELLS))[1] == "not grouped here (press 4)"
    assert deaths(_seen(died=None), 0, CELLS) == []
    assert _text(payloads(_seen(payloads=48_000, payload_bytes=1_300.0), CELLS)) == [
        "payload   ~1.3 kB each  ~62.4 MB total"
    ]


def test_the_last_operations_and_what_became_of_them() -> None:
    rows = tuple(
        Activity(at_ms=n, who="ana", host="h", verb=verb, counts={"applied": 200}, batch=f"b{n}", outcome=outcome)
        for n, (verb, outcome) in enumerate(
            [("retry", "done"), ("discard", "failed"), ("pause", "done"), ("x", "done")]
        )
    )
    outcomes = BatchOutcomes(batch="b0", verb="retry", jobs=200, total=200, done=168, dead_again=32)
    insight = Insight(queue=QueueRef("native", "q"), operations=rows, outcomes=outcomes)
    shown = _text(operations(insight, CELLS, 60_000))
    assert shown[1].split() == ["retry", "200", "ana,", "1m", "00s", "ago"]
    assert shown[2] == "  168 done  ·  32 dead again"
    assert shown[3].startswith("discard 200, failed")
    assert len(shown) == 5
    undone = replace(insight, outcomes=replace(outcomes, undone=True))
    assert _text(operations(undone, CELLS, 60_000))[2] == "  undone"


def test_where_there_is_no_room_the_least_is_left_out_and_told() -> None:
    row = QueueRow(name="shop:dev:mail:actions", ready=9, dead=5, totals={"enqueued": 9, "done": 3})
    entry = ListedQueue(
        row=row, severity=Severity.WATCH, reasons=(RowReason(Severity.WATCH, "5 dead letters", Code.DEAD),)
    )
    insight = Insight(
        queue=row.ref,
        close_up=_seen(died=(Died(error_class="KeyError", count=5),)),
        operations=(Activity(at_ms=0, who="ana", host="h", verb="pause"),),
    )
    view = QueueView(feed_state=FeedState(), naming=PLAIN, reasons_shown=True, insight=insight)
    whole = _text(detail(entry, view, CELLS))
    for room in range(1, len(whole) + 3):
        lines = _text(detail(entry, view, CELLS, room))
        assert len(lines) <= room
        told = lines[-1].startswith("not shown: ")
        assert told == (not any("since creation" in line for line in lines))
    assert _text(detail(entry, view, CELLS, 26))[-1] == "not shown: times, operations, totals"


def test_a_name_is_told_in_full_only_where_a_part_of_it_is_hidden() -> None:
    view = QueueView(feed_state=FeedState(), naming=Naming("shop:dev:"), reasons_shown=True)
    for name, more in (("scheduler", False), ("shop:dev:mail:actions", True)):
        shown = _text(detail(ListedQueue(row=QueueRow(name=name), severity=Severity.FINE), view, CELLS))
        assert (name in shown) == more


@pytest.mark.parametrize("size", [(160, 48), (100, 70)])
async def test_the_queue_under_the_cursor_is_told_of_close_up(url: str, size: tuple[int, int]) -> None:
    bury(url, MAIL, [{"class": "Refused", "message": "502"}] * 3)
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", ["a letter"])
        writer.pause(MAIL)
    async with console(url, size=size) as pilot:
        await until(pilot, "paused, 1 job")
        if size[0] < 140:
            await pilot.press("enter")
        for word in ("dead letters by error", "3  Refused", "1 wait", "payload", "last operations", "pause"):
            await until(pilot, word)


async def test_who_may_not_read_the_log_of_operations_sees_the_rest(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", ["a letter"])
    raw.acl_setuser(
        "looker",
        enabled=True,
        passwords=["+pass"],
        reset=True,
        keys=["{*", "qdeck:queues"],
        commands=["+@read", "+@connection"],
    )
    async with console(url.replace("redis://", "redis://looker:pass@")) as pilot:
        await until(pilot, "1 wait")
        assert not app_of(pilot).shown.is_lost


def test_a_name_that_ends_in_a_star_keeps_the_part_before_it() -> None:
    def shown(name: str, cells: int) -> str:
        pieces = path(name.split(":"), cells, "text")
        assert length(pieces) <= cells
        return "".join(text for text, _ in pieces)

    assert shown("execution:agent_run:enterprise:*", 40) == "execution ▸ agent_run ▸ enterprise ▸ *"
    assert shown("execution:agent_run:enterprise:*", 24) == "execut… ▸ enterprise ▸ *"
    assert shown("execution:agent_run:free:*", 24) == "execution ▸ … ▸ free ▸ *"
    assert shown("execution:agent_run:averyveryverylongname:*", 20) == "… ▸ averyvery…me ▸ *"


def test_where_there_is_no_column_for_it_the_name_carries_its_adapter() -> None:
    entry = ListedQueue(row=QueueRow(adapter="vmpooler", name="centos-7-x86_64", ready=11), severity=Severity.FINE)
    view = QueueView(feed_state=FeedState(), naming=PLAIN, reasons_shown=True)
    several = replace(view, adapters=2)
    [line] = several.lines(entry, 80, at_cursor=False)
    told = "".join(text for text, _ in line)
    assert told[4 : 4 + several.table.laid(80)[0][1]].endswith(" vmpooler")
    assert length(line) <= 80
    [alone] = view.lines(entry, 80, at_cursor=False)
    assert not any("vmpooler" in text for text, _ in alone)


@pytest.mark.parametrize("many", [208_512, 3_456_789, 45_678_901, 999_999_999_999])
def test_no_number_of_the_list_is_cut(many: int) -> None:
    row = QueueRow(name="q", ready=many, delayed=many, running=many, stuck=many, dead=many, oldest_s=20_000.9 * 86400)
    row = replace(row, oldest_exact=False, in_per_s=many / 7, out_per_s=many / 5)
    entry = ListedQueue(row=row, severity=Severity.FINE)
    sums = Totals(ready=many, delayed=many, blocked=0, running=many, stuck=many, dead=many)
    view = QueueView(feed_state=FeedState(), naming=PLAIN, reasons_shown=True)
    for cells in range(60, 201, 5):
        [numbers] = view.lines(entry, cells, at_cursor=False)
        for line in (numbers, total_line(view, cells, sums, (many / 7, many / 5), "1 queue")):
            assert length(line) <= cells
            assert "…" not in "".join(text for text, _ in line)


async def test_a_page_says_how_much_of_it_is_out_of_sight_and_has_its_queue_looked_at(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer(url) as writer:
        for queue in (HOOKS, MAIL):  # troubled ones come first: the page is of the second
            writer.enqueue(queue, "send", ["a letter"])
        writer.pause(HOOKS)
    looked: list[list[QueueRef]] = []
    look = AsyncReader.snapshot

    async def snapshot(reader: AsyncReader, visible: Sequence[QueueRef] = ()) -> Snapshot:
        looked.append([*visible])
        return await look(reader, visible)

    monkeypatch.setattr(AsyncReader, "snapshot", snapshot)
    async with console(url, "j", "enter", size=(80, 20)) as pilot:
        await until(pilot, "more lines ↓")
        await until(pilot, lambda: looked[-1] == [QueueRef("native", MAIL)])
        await pilot.press("G")
        await until(pilot, "done")
        await pilot.resize_terminal(80, 60)
        await until(pilot, "since creation")
        assert "more line" not in text(app_of(pilot))


@pytest.mark.parametrize(("cells", "height"), [(116, 40), (80, 18), (60, 10)])
def test_an_empty_list_says_what_is_so_and_what_can_be_done(cells: int, height: int) -> None:
    told = EmptyState(
        "No workers", "A sentence. " * 12, (("qdeck worker MODULE:APP", "runs tasks"), ("3", "waits " * 12))
    )
    block = empty_state_lines(told, cells, height)
    assert all(length(line) <= cells for line in block)
    words = ["".join(text for text, _ in line) for line in block]
    assert words.index(next(line for line in words if "No workers" in line)) < height // 3
    assert any("what now ──" in line for line in words)


@pytest.mark.parametrize(
    ("reason", "found"),
    [(Code.STUCK, State.RUNNING), (Code.DEAD, State.DEAD), (Code.PAUSED, None), (None, None)],
)
def test_a_queue_opens_at_the_list_that_its_worst_reason_is_about(reason: Code | None, found: State | None) -> None:
    row = QueueRow(name="shop:mail", ready=1, running=3, dead=27)
    codes = (reason, Code.DEAD) if reason is not None else ()
    reasons = tuple(RowReason(Severity.WATCH, "what it says", code) for code in codes)
    assert list_in_question(ListedQueue(row=row, severity=Severity.WATCH, reasons=reasons)) is found
    assert list_in_question(None) is None


def test_where_little_is_seen_at_once_what_is_wrong_comes_first() -> None:
    entry = ListedQueue(
        row=QueueRow(name="q", ready=1),
        severity=Severity.WATCH,
        reasons=(RowReason(Severity.WATCH, "paused", Code.PAUSED),),
    )
    view = QueueView(feed_state=FeedState(), naming=PLAIN, reasons_shown=True)
    for chart, above in ((3, True), (7, False)):
        shown = _text(detail(entry, view, CELLS, chart=chart))
        assert (shown.index("▲ paused") < next(at for at, line in enumerate(shown) if line.endswith("┤"))) == above
        assert shown.count("▲ paused") == 1
