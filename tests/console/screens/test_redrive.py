"""The page of a redrive: the outcome of each job of the sample, beside the sums or below them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from qdeck._engine import transitions
from qdeck.admin import JobOutcome, Outcomes, Writer
from qdeck_console.format import length
from qdeck_console.operator import Work
from qdeck_console.presenters import confirm
from qdeck_console.presenters import redrive as present
from qdeck_console.presenters.line_parts import PLAIN
from qdeck_console.presenters.redrive import WATCHING, Drive
from support.screens import HOOKS, fail_next, fill, run

if TYPE_CHECKING:
    from pathlib import Path


def test_each_of_the_first_ones_is_told_with_what_it_died_of(url: str, tmp_path: Path) -> None:
    fill(url)
    with Writer(url) as writer:
        plan = writer.plan("retry", HOOKS, path=tmp_path / "plan")
        before = writer.sample_outcomes(plan, 3)
        assert [one.outcome for one in before] == [None, None, None], "nothing went back yet"
        writer.apply(plan)
        died = fail_next(url, HOOKS, {"class": "Timeout", "message": "no answer"})
        [job] = run(url, transitions.poll(HOOKS, "wrk-2", 1, free_slots=1, lease_ms=60_000)).jobs
        ending = transitions.Ending(kind="done", id=job.id, token=job.token)
        run(url, transitions.poll(HOOKS, "wrk-2", 2, free_slots=0, lease_ms=60_000, endings=[ending]))
        found = {one.id: one for one in writer.sample_outcomes(plan, 50)}
    assert len(found) == plan.count
    assert (found[died].outcome, found[died].error, found[died].message) == ("dead_again", "Timeout", "no answer")
    assert found[job.id].outcome == "done"
    assert sum(one.outcome == "waiting" for one in found.values()) == plan.count - 2


@pytest.mark.parametrize("cells", [52, 60, 72, 96])
def test_the_page_fits_and_says_all(url: str, cells: int) -> None:
    fill(url)
    with Writer(url) as writer:
        drive = Drive(writer.plan("retry", HOOKS), 20.0, 10)
    drive.sampled = [JobOutcome(id="a" * 30, queue=HOOKS, outcome="dead_again", error="Boom", message="x" * 90),
                  JobOutcome(id="b", queue=HOOKS, outcome="done"), JobOutcome(id="c", queue=HOOKS)]  # fmt: skip
    drive.tell("▸", "accent", "word " * 30)
    drive.outcomes = Outcomes(total=2, done=1, dead_again=1)
    lines = present.redrive_lines(drive, cells, naming=PLAIN)
    assert [line for line in lines if length(line) > cells] == []
    shown = "\n".join("".join(text for text, _ in line) for line in lines)
    for word in ("sample", "dead again", "not retried yet", "events"):
        assert word in shown, word
    alone = "\n".join(
        "".join(text for text, _ in line) for line in present.redrive_lines(drive, cells, naming=PLAIN, beside=True)
    )
    assert "events" not in alone
    assert "Boom: x" in shown or cells < 60


def test_what_is_asked_for_is_not_cut_off(url: str) -> None:
    fill(url)
    where = 'error:ConnectionError message:"* Bad Gateway for url https://hooks.globex.example/*"'
    with Writer(url) as writer:
        plan = writer.plan("retry", HOOKS)
    asked = replace(plan, head=msgspec.structs.replace(plan.head, filter=where))
    lines = ["".join(text for text, _ in line) for line in confirm.plan_lines(asked, Counter(), 70, naming=PLAIN)]
    assert max(map(len, lines)) <= 70
    assert " ".join(" ".join(lines).split()).count(where) == 1
    assert "for 24h; jobs that have run since cannot be restored" in " ".join(" ".join(lines[-2:]).split())


def test_while_the_first_ones_are_watched_there_is_no_rate() -> None:
    work = Work("redrive", done=10, total=18, waits=WATCHING)
    assert work.words() == "redrive: 10 of 18, watching the sample, esc cancels"
    work.waits = ""
    assert "/s" in work.words()
