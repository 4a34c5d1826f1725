"""A command that writes asks at a terminal; without one and without --yes it shows what it would do, and exits 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core._operations.yard import QUEUE, Yard
from qdeck._engine import keys
from qdeck._operations import batches
from qdeck.admin import Tally, Writer, actor
from support.temporary import age
from support.terminals import terminals

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from qdeck._engine.batch_transitions import SliceResult
    from qdeck.adapters.applying import PlanSlice
    from support.commands import Ran
    from support.terminals import Terminal

terminal = pytest.fixture(terminals)
QDECK = "import sys; from qdeck_console.__main__ import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def yard(url: str, raw: redis.Redis) -> Yard:
    return Yard(url, raw)


def asked(terminal: Callable[..., Terminal], url: str, *command: str, answer: bytes) -> tuple[int, str]:
    """Run a command at a terminal and answer its question; return its exit code and what it wrote."""
    shown = terminal(QDECK, *command, "--url", url)
    shown.wait_for(b"[y/N]")
    shown.send(answer)
    code = shown.end()
    return code, shown.output.decode()


def test_an_undo_names_the_batch_and_asks(
    qdeck: Callable[..., Ran], yard: Yard, url: str, terminal: Callable[..., Terminal]
) -> None:
    yard.bulk_dead(3)
    batch = qdeck("dead", "retry", QUEUE, "--reason", "fixed", "--yes", "--json").json["batch"]
    code, seen = asked(terminal, url, "undo", answer=b"n\n")
    assert code == 1
    for part in (batch, "retry of 3 jobs", actor(), QUEUE, "fixed", "up to 3 jobs", "Undo retry of 3 jobs?"):
        assert part in seen, part
    assert f"nothing was changed; qdeck undo {batch} --yes" in seen
    assert len(yard.ids("ready")) == 3
    code, seen = asked(terminal, url, "undo", answer=b"y\n")
    assert code == 0
    assert f"3 jobs of {batch} restored" in seen
    assert len(yard.ids("dead")) == 3


def test_without_a_terminal_an_undo_shows_what_would_come_back(qdeck: Callable[..., Ran], yard: Yard) -> None:
    yard.bulk_dead(3)
    batch = qdeck("dead", "retry", QUEUE, "--yes", "--json").json["batch"]
    ran = qdeck("undo")
    assert (ran.code, len(yard.ids("ready"))) == (1, 3)
    assert "retry of 3 jobs" in ran.out
    assert "up to 3 jobs" in ran.out
    assert "--yes undoes it" in ran.err
    ran = qdeck("undo", "--json")
    assert (ran.code, ran.json["batch"], ran.json["undoable"], ran.json["by"]) == (1, batch, 3, actor())
    assert qdeck("undo", "--dry-run").code == 0
    assert len(yard.ids("ready")) == 3
    assert qdeck("undo", "--dry-run", "--yes").code == 64


def test_an_undo_of_an_interrupted_batch_says_so(qdeck: Callable[..., Ran], yard: Yard) -> None:
    yard.bulk_dead(3)
    batch = qdeck("dead", "discard", QUEUE, "--yes", "--json").json["batch"]
    yard.interrupt(batch, done=0, undoable=0)
    ran = qdeck("undo", "--dry-run")
    assert "discard of 3 jobs, interrupted" in ran.out
    assert "up to 3 jobs" in ran.out
    assert qdeck("undo", "--yes").code == 0
    ran = qdeck("undo", batch)
    assert (ran.code, "discard of 3 jobs" in ran.out, f"was undone by {actor()}" in ran.out) == (0, True, True)


@pytest.mark.parametrize("named", [True, False])
def test_an_undo_of_a_batch_that_is_being_applied_is_refused(
    qdeck: Callable[..., Ran], yard: Yard, url: str, named: bool
) -> None:
    yard.bulk_dead(40)
    assert qdeck("dead", "retry", QUEUE, "--where", "id:" + yard.ids("dead")[0], "--yes").code == 0
    ran: list[Ran] = []
    with Writer(url) as writer:
        plan = writer.plan("discard", QUEUE, state="dead")
        names = [plan.batch] if named else []

        def undo(_tally: Tally) -> None:
            if not ran:
                ran.extend([qdeck("undo", *names, *options) for options in (("--yes",), ("--dry-run",), ())])

        assert writer.apply(plan, rate=100, progress=undo).applied == 39
    for one in ran:
        assert one.code == 64
        assert f"batch {plan.batch} is still being applied by {actor()}" in one.err
        assert "Stop it there, or wait until it ends." in one.err
    assert len(yard.ids("ready")) == 1, "an older batch is not undone in its place"
    assert qdeck("undo", "--yes").code == 0
    assert len(yard.ids("dead")) == 39


def test_a_batch_that_was_undone_while_its_process_stood_still_is_not_offered_again(
    qdeck: Callable[..., Ran], yard: Yard, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_RENEW_S", 0.0)
    yard.bulk_dead(40)
    add = Tally.add

    def then_undo(tally: Tally, part: PlanSlice, acted: SliceResult) -> None:
        add(tally, part, acted)
        with Writer(url) as other:
            [batch] = other.batches().values()
            if not batch.undone:
                yard.interrupt(batch.id)
                assert other.undo(batch.id).restored == tally.done

    monkeypatch.setattr(Tally, "add", then_undo)
    ran = qdeck("dead", "discard", QUEUE, "--rate", "100/s", "--yes")
    assert ran.code == 2
    assert "this batch was undone; make a new plan to do it again" in ran.err
    assert "--apply" not in ran.err
    assert "undoes it" not in ran.out
    assert len(yard.ids("dead")) == 40


@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_a_verb_shows_its_plan_with_all_terms_and_asks(
    qdeck: Callable[..., Ran], yard: Yard, url: str, terminal: Callable[..., Terminal], verb: str
) -> None:
    yard.bulk_dead(3)
    terms = ["--rate", "50/s", "--sample", "1"] if verb == "retry" else []
    ran = qdeck("dead", verb, QUEUE, *terms)
    assert ran.code == 1
    assert "nothing was changed; to apply it: qdeck " in ran.out
    assert qdeck("dead", verb, QUEUE, *terms, "--dry-run").code == 0
    code, seen = asked(terminal, url, "dead", verb, QUEUE, *terms, answer=b"\n")
    assert (code, len(yard.ids("dead"))) == (1, 3)
    assert f"{verb.capitalize()} 3 jobs from {QUEUE}?" in seen
    if terms:
        assert " at 50/s (about " in seen
        assert "a sample of 1 job first; the rest only if they succeed" in seen
    else:
        code, seen = asked(terminal, url, "dead", verb, QUEUE, answer=b"y\n")
        assert (code, len(yard.ids("dead"))) == (0, 0)
        assert "discarded 3 jobs" in seen


def test_a_cleaning_lists_the_queues_and_asks(
    qdeck: Callable[..., Ran], raw: redis.Redis, url: str, terminal: Callable[..., Terminal]
) -> None:
    raw.rpush("execution:a:free:7", "x", "y")
    raw.sadd("task_queues:7", "execution:a:free:7")
    ran = qdeck("clean", "7", "--idle", "0")
    assert ran.code == 1
    assert ran.out.count("execution:a:free:7") == 1, "each queue once"
    assert "1 would be removed, 0 in use, 0 kept; 2 messages, " in ran.out
    assert "--yes removes them" in ran.err
    ran = qdeck("clean", "7", "--idle", "0", "--dry-run")
    assert (ran.code, ran.out.count("execution:a:free:7")) == (0, 1)
    code, seen = asked(terminal, url, "clean", "7", "--idle", "0", answer=b"n\n")
    assert (code, raw.llen("execution:a:free:7"), "Remove 1 queue with 2 messages?" in seen) == (1, 2, True)
    assert raw.xlen(keys.ACTIVITY) == 0
    code, seen = asked(terminal, url, "clean", "7", "--idle", "0", answer=b"y\n")
    assert (code, raw.exists("execution:a:free:7")) == (0, 0)
    assert "restores 1 queue until" in seen


def test_a_queue_in_use_says_since_when_and_which_option_changes_that(
    qdeck: Callable[..., Ran], raw: redis.Redis
) -> None:
    raw.rpush("execution:a:free:7", "x")
    raw.sadd("task_queues:7", "execution:a:free:7")
    age(raw, "execution:a:free:7", idle_s=30)
    ran = qdeck("clean", "7")
    assert ran.code == 1
    assert "it was used 30s ago" in ran.out
    assert "used within the last 1m" in ran.out
    assert "--idle 0" in ran.out
    assert "would remove" not in ran.out
    assert qdeck("clean", "7", "--yes").code == 1
    assert qdeck("activity", "--json").out == "", "what removed nothing is no batch"


def test_a_console_that_may_not_write_does_not_ask(
    yard: Yard, url: str, terminal: Callable[..., Terminal], tmp_path: object
) -> None:
    yard.bulk_dead(1)
    file = f"{tmp_path}/qdeck.toml"
    with open(file, "w", encoding="utf-8") as out:  # noqa: PTH123 - a text of two lines
        out.write(f'[contexts.prod]\nurl = "{url}"\nenvironment = "production"\n')
    shown = terminal(QDECK, "dead", "discard", QUEUE, "--config", file, "--context", "prod")
    assert shown.end() == 1
    assert b"[y/N]" not in shown.output
    assert b"nothing was changed" in shown.output


def test_a_schedule_is_removed_after_a_question(
    qdeck: Callable[..., Ran], url: str, terminal: Callable[..., Terminal]
) -> None:
    assert qdeck("schedule", "add", "nightly", QUEUE, "send", "--cron", "0 3 * * *").code == 0
    ran = qdeck("schedule", "remove", "nightly")
    assert ran.code == 1
    assert f"nightly: 0 3 * * * (UTC) enqueues send to {QUEUE}; this cannot be undone" in ran.err
    assert "nothing was changed; --yes does it" in ran.err
    code, _ = asked(terminal, url, "schedule", "remove", "nightly", answer=b"n\n")
    assert (code, len(qdeck("schedule", "--json").json)) == (1, 1)
    code, _ = asked(terminal, url, "schedule", "remove", "nightly", answer=b"y\n")
    assert (code, qdeck("schedule", "--json").json) == (0, [])
    assert qdeck("schedule", "remove", "nightly").code == 64


def test_a_repeated_undo_takes_no_older_batch(qdeck: Callable[..., Ran], yard: Yard, raw: redis.Redis) -> None:
    yard.bulk_dead(2)
    first, second = yard.ids("dead")
    older = qdeck("dead", "retry", QUEUE, "--id", first, "--yes", "--json").json["batch"]
    newest = qdeck("dead", "retry", QUEUE, "--id", second, "--yes", "--json").json["batch"]
    assert qdeck("undo", "--yes").code == 0
    before = raw.execute_command("DEBUG", "DIGEST")
    for options in ((), ("--yes",), ("--dry-run",)):
        ran = qdeck("undo", *options)
        assert (ran.code, ran.out) == (1, "")
        assert f"your last batch {newest} (retry of 1 job) was undone by {actor()}" in ran.err
        assert f"qdeck undo {older} undoes the one before it" in ran.err
        ran = qdeck("undo", "--json", *options)
        assert (ran.code, ran.json["batch"], ran.json["undone_by"], ran.json["next"]) == (1, newest, actor(), older)
    assert raw.execute_command("DEBUG", "DIGEST") == before
    assert qdeck("undo", older, "--yes").code == 0
    ran = qdeck("undo", "--yes")
    assert (ran.code, "the one before it" in ran.err) == (1, False)


def test_an_undo_does_not_pass_over_a_batch_that_changed_nothing(qdeck: Callable[..., Ran], yard: Yard) -> None:
    yard.bulk_dead(1)
    older = qdeck("dead", "retry", QUEUE, "--yes", "--json").json["batch"]
    plan = qdeck("jobs", "cancel", QUEUE, "--dry-run", "--json").json["plan"]
    [job] = yard.claim()
    yard.end(job, "done")
    assert qdeck("jobs", "cancel", "--apply", plan).code == 1
    ran = qdeck("undo", "--yes")
    assert (ran.code, f"your last batch b-{plan} changed nothing" in ran.err) == (1, True), ran.err
    assert f"qdeck undo {older} undoes the one before it" in ran.err


REDIRECTED = f"import os, sys; os.dup2(os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT, 0o600), 1); {QDECK}"


@pytest.mark.parametrize("command", ["discard", "undo", "clean"])
def test_a_question_stands_below_its_plan_where_stdout_is_a_file(
    qdeck: Callable[..., Ran],
    yard: Yard,
    url: str,
    raw: redis.Redis,
    terminal: Callable[..., Terminal],
    tmp_path: Path,
    command: str,
) -> None:
    [dead] = yard.bulk_dead(1)
    file, seen = tmp_path / "out", f"would discard 1 job from {QUEUE}"
    args: tuple[str, ...] = ("dead", "discard", QUEUE)
    if command == "undo":
        assert qdeck("dead", "retry", QUEUE, "--yes").code == 0
        args, seen = ("undo",), "restores up to 1 job"
    elif command == "clean":
        name = f"bank:prod:pay:responses:t:{dead}"
        raw.rpush(name, b"unread", b"unread")
        raw.sadd("task_queues:t", name)
        age(raw, name)
        args, seen = ("clean", "t", "--idle", "0"), "2 messages"
    shown = terminal(REDIRECTED, str(file), *args, "--url", url)
    shown.wait_for(b"[y/N]")
    assert seen in shown.output.decode()
    shown.send(b"n\n")
    assert shown.end() == 1
    assert "would" not in file.read_text(), "what is shown is not written twice"
    assert seen in qdeck(*args, "--dry-run").out
