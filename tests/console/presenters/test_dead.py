"""How dead letters are told: what all have in common once, payloads below each other, every try. Without a server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from qdeck.admin import Entry, HistoryEvent, JobDetail, JobFailure, JobRecord, Seen, Stuck, StuckCode
from qdeck_console.format import length
from qdeck_console.presenters import dead as present
from qdeck_console.presenters.line_parts import PLAIN, in_height
from qdeck_console.presenters.payload import payload_pieces, shared_columns
from qdeck_console.presenters.stuck import theirs

if TYPE_CHECKING:
    from qdeck_console.format import Line


def entry(job_id: str, payload: object) -> JobRecord:
    return JobRecord(
        id=job_id, key=job_id, queue="a:b", state="dead", native_state="dead", task="deliver", attempts=3, age_s=5.0,
        worker="wrk-1", body=json.dumps(payload).encode(),
    )  # fmt: skip


def test_what_all_entries_have_in_common_is_said_once() -> None:
    jobs = [entry(f"id-{n}", [[], {"tenant": "acme", "path": "/v" * n, "n": n}]) for n in range(1, 4)]
    alike = present.Alike.of(jobs)
    assert alike == present.Alike("deliver", 3, "wrk-1")
    other = replace(jobs[0], worker="wrk-2")
    assert alike.and_(present.Alike.of([*jobs, other])) == present.Alike("deliver", 3, None)
    assert present.Alike.of(jobs[:1]) == present.Alike.of([]) == present.Alike()
    bare = [replace(job, attempts=None, worker=None, task=None) for job in jobs]
    nothing = present.Alike.of(bare)
    assert not nothing.words()
    assert "attempts" not in "".join(text for text, _ in present.jobs_table(nothing).head(120)), "none has any"
    for cells in (60, 80, 113, 160):
        for known in (alike, None):
            head = "".join(text for text, _ in present.jobs_table(known).head(cells))
            assert ("attempts" in head) is (known is None)
            for job in jobs:
                assert length(present.jobs_table(known).line(job, cells, (), at_cursor=False)) <= cells
            title = present.jobs_title(None, "1–3 of 3", [], "error:Boom*", cells, known)
            assert length(title) <= cells


def test_payloads_of_the_same_names_stand_below_each_other() -> None:
    jobs = [entry(f"id-{n}", [[], {"tenant": "a" * n, "path": "/v"}]) for n in range(1, 4)]
    shared = shared_columns(jobs)
    assert list(shared) == [("tenant", 3), ("path", 2)]
    lines = ["".join(text for text, _ in payload_pieces(job, 60, shared)) for job in jobs]
    assert lines == ["tenant a    path /v", "tenant aa   path /v", "tenant aaa  path /v"]
    odd = entry("odd", [["x"], {}])
    assert list(shared_columns([*jobs, odd])) == []
    assert length(payload_pieces(jobs[2], 12, shared)) <= 12


def test_every_try_of_a_dead_letter_is_told_the_newest_first() -> None:
    ends = tuple(
        HistoryEvent(at_ms=1000 * n, kind="failed", data={"class": "Boom", "message": f"no {n}", "ran_ms": 100 * n})
        for n in range(1, 10)
    )
    failure = JobFailure(kind="failed", at_ms=9000, class_name="Boom", message="no 9")
    job = JobDetail(
        id="id-1", key="k", queue="a:b", state="dead", native_state="dead", task="deliver", retries=8, attempts=9,
        history=ends, failure=failure, failed_ms=9000,
    )  # fmt: skip
    shown = ["".join(text for text, _ in line) for line in present.side(job, 44, now_ms=60_000, naming=PLAIN)]
    at = next(number for number, line in enumerate(shown) if line.startswith("attempts"))
    assert shown[at].endswith("9")
    assert shown[at + 1].startswith("9")
    assert "0.9s  no 9" in shown[at + 1]
    assert "3 earlier" in shown
    assert all(len(line) <= 44 for line in shown)


def test_what_a_pane_cannot_show_is_told() -> None:
    lines: list[Line] = [((f"line {n}", "text"),) if n % 3 else () for n in range(12)]
    full = [line for line in lines if line]
    assert in_height(lines, 12, 40) == lines
    assert [line for line in in_height(lines, 10, 40) if line] == full, "blank lines go first"
    assert len(in_height(lines, 10, 40)) == 10
    cut = in_height(lines, 5, 40, "enter opens it")
    assert list(cut[:4]) == full[:4]
    assert cut[4][0][0] == "4 more lines ↓ enter opens it"
    assert in_height(lines, 0, 40) == lines


def test_many_seconds_are_told_as_hours() -> None:
    told = Stuck(code=StuckCode.WAITING_TOO_LONG, name="pending", seconds=10_811, limit=7_200)
    seen = Seen(key=b"pool", member=b"vm")
    entry = Entry(id="vm", key="vm", adapter="vmpooler", queue="pool", state="running", native_state="pending",
                  seen=seen, stuck=told)  # fmt: skip
    assert theirs(entry).reason == "pending for 3h 00m (limit 2h)"
    assert str(told) == "pending for 3h 00m (limit 2h)"
