"""Plans as files: bound to their server and database, never written over anything, refused with the exact reason."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from core._operations.yard import QUEUE
from qdeck import UsageError
from qdeck._operations.planfile import own_plan, plans_dir
from qdeck.admin import PlanWriter, Writer, load_plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from core._operations.yard import Yard


def test_a_plan_of_one_database_is_refused_on_another_one_of_the_same_server(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(3)
    other_url = yard.url.removesuffix("/0") + "/1"
    for plan in (writer.plan("retry", QUEUE), writer.plan_purge()):
        assert plan.head.db == 0
        with Writer(other_url) as other, pytest.raises(UsageError, match="made on database 0, and this is database 1"):
            other.apply(load_plan(plan.path))
    with Writer(other_url) as other, pytest.raises(UsageError, match="database 0"):
        other.redrive(writer.plan("retry", QUEUE))
    assert writer.apply(writer.plan("retry", QUEUE)).applied == 3


def test_a_plan_of_before_names_no_database(writer: Writer, yard: Yard, tmp_path: Path) -> None:
    yard.bulk_dead(3)
    plan = writer.plan("retry", QUEUE)
    old = rewritten(plan.path, tmp_path / "old", head=lambda head: head.pop("db", None))
    assert writer.apply(load_plan(old)).applied == 3


def test_nothing_is_written_over(writer: Writer, yard: Yard, tmp_path: Path) -> None:
    yard.bulk_dead(3)
    victim, link, nowhere = tmp_path / "victim", tmp_path / "link", tmp_path / "nowhere"
    victim.write_text("mine\n")
    link.symlink_to(victim)
    nowhere.symlink_to(tmp_path / "not there")
    for path in (victim, link, nowhere):
        with pytest.raises(UsageError, match="already exists") as caught:
            writer.plan("retry", QUEUE, path=path)
        assert "Name another file" in caught.value.hint
        with pytest.raises(UsageError, match="already exists"):
            writer.plan_purge(path=path)
    assert victim.read_text() == "mine\n"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "state") == ["link", "nowhere", "victim"]


def test_a_file_that_appears_meanwhile_is_not_written_over(writer: Writer, yard: Yard, tmp_path: Path) -> None:
    yard.bulk_dead(3)
    path = tmp_path / "plan.jsonl"

    def appear(_looked: int, _taken: int) -> None:
        path.write_text("theirs")

    with pytest.raises(UsageError, match="already exists"):
        writer.plan("retry", QUEUE, path=path, progress=appear)
    assert path.read_text() == "theirs"
    assert [one.name for one in tmp_path.iterdir() if one.name != "state"] == ["plan.jsonl"]


def test_a_draft_follows_no_link(writer: Writer, yard: Yard, tmp_path: Path) -> None:
    """The name of a draft could be foretold from the plan's and the process's number."""
    yard.bulk_dead(3)
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    (tmp_path / f".plan.jsonl.{os.getpid()}.draft").symlink_to(victim)
    writer.plan("retry", QUEUE, path=tmp_path / "plan.jsonl")
    assert victim.read_text() == "mine\n"
    assert load_plan(tmp_path / "plan.jsonl").count == 3


@pytest.mark.parametrize(("number", "hint"), [(1, "Make a new plan."), (3, "Upgrade this qdeck.")])
def test_a_plan_of_another_format_is_refused(
    writer: Writer, yard: Yard, tmp_path: Path, number: int, hint: str
) -> None:
    yard.bulk_dead(1)
    plan = writer.plan("retry", QUEUE)
    first, *rest = plan.path.read_text().splitlines(keepends=True)
    changed = tmp_path / "other"
    changed.write_text("".join([json.dumps({"head": {"plan": "p", "format": number}}) + "\n", *rest]))
    with pytest.raises(UsageError, match=f"has format {number}; this qdeck reads format 2") as caught:
        load_plan(changed)
    assert caught.value.hint == hint
    assert json.loads(first)["head"]["format"] == 2


def test_a_place_that_is_not_there_is_named(writer: Writer, yard: Yard, tmp_path: Path) -> None:
    yard.bulk_dead(1)
    with pytest.raises(UsageError, match="nowhere/plan cannot be written: No such file or directory"):
        writer.plan("retry", QUEUE, path=tmp_path / "nowhere" / "plan")


def rewritten(
    source: Path,
    target: Path,
    *,
    head: Callable[[dict[str, Any]], object] | None = None,
    entry: Callable[[dict[str, Any]], object] | None = None,
    tail: Callable[[dict[str, Any]], object] | None = None,
    only: slice = slice(None),
    sign: bool = True,
) -> Path:
    """A plan with other lines; `sign` puts a checksum that fits them at its end, as anybody can."""
    lines = [json.loads(line) for line in source.read_text().splitlines()]
    first, entries, last = lines[0], lines[1:-1][only], lines[-1]
    if head:
        head(first["head"])
    for one in entries:
        if entry:
            entry(one)
    text = "".join(json.dumps(line) + "\n" for line in [first, *entries])
    if sign:
        last["tail"]["digest"] = hashlib.sha256(text.encode()).hexdigest()
    if tail:
        tail(last["tail"])
    target.write_text(text + json.dumps(last) + "\n")
    return target


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("has 2 entries, and its last line says 3", {"only": slice(2)}),
        ("do not match the checksum in its last line", {"entry": lambda e: e.update(bytes=7), "sign": False}),
        ("do not match the checksum in its last line", {"head": lambda h: h.update(reason="x"), "sign": False}),
        (
            "entry 1: the verb 'discard' is not that of a plan to retry",
            {"entry": lambda e: e.update(verb="discard")},
        ),
        ("entry 1: the verb 'explode' is not that of a plan", {"entry": lambda e: e.update(verb="explode")}),
        ("entry 1: retry does not apply to a job that is running", {"entry": lambda e: e.update(state="running")}),
        ("entry 1: retry does not apply to a job that is upside", {"entry": lambda e: e.update(state="upside")}),
        ("entry 1 is not an entry", {"entry": lambda e: e.pop("version")}),
        (
            "its last line and its entries have different numbers of jobs",
            {"tail": lambda t: t.update(by_queue={"x": 3})},
        ),
        (
            "its last line and its entries have different numbers of jobs",
            {"tail": lambda t: t.update(states={"dead": 1})},
        ),
        ("the id '../../x' is not that of a plan", {"head": lambda h: h.update(plan="../../x")}),
        ("the id '' is not that of a plan", {"head": lambda h: h.update(plan="")}),
        ("the id 'a{b}' is not that of a plan", {"head": lambda h: h.update(plan="a{b}")}),
        ("is valid for 36,500d", {"head": lambda h: h.update(expires_ms=h["created_ms"] + 876_000 * 3_600_000)}),
        ("expires before it was made", {"head": lambda h: h.update(expires_ms=h["created_ms"] - 1)}),
        (
            "is dated in the future",
            {"head": lambda h: h.update(created_ms=h["created_ms"] + 10**9, expires_ms=h["expires_ms"] + 10**9)},
        ),
    ],
)
def test_a_changed_plan_is_refused_for_what_is_wrong_with_it(
    writer: Writer, yard: Yard, tmp_path: Path, said: str, change: dict[str, Any]
) -> None:
    yard.bulk_dead(3)
    plan = writer.plan("retry", QUEUE)
    before = yard.dump()
    changed = rewritten(plan.path, tmp_path / "changed", **change)
    with pytest.raises(UsageError) as caught:
        writer.apply(load_plan(changed))
    assert said in str(caught.value)
    assert str(changed) in str(caught.value)
    assert yard.dump() == before


def test_a_plan_of_a_purge_may_not_do_what_no_rule_does(writer: Writer, yard: Yard, tmp_path: Path) -> None:
    yard.bulk_dead(3)
    plan = writer.plan("discard", QUEUE)
    changed = rewritten(
        plan.path, tmp_path / "changed", head=lambda h: h.update(verb="purge"), entry=lambda e: e.update(verb="move")
    )
    with pytest.raises(UsageError, match="the verb 'move' is not that of a plan to purge"):
        writer.apply(load_plan(changed))


def test_an_id_is_looked_for_among_the_plans_first(
    writer: Writer, yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of that name in the current directory is somebody else's."""
    yard.bulk_dead(3)
    plan, other = writer.plan("retry", QUEUE), writer.plan("discard", QUEUE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / plan.id).write_bytes(other.path.read_bytes())
    assert load_plan(plan.id).verb == "retry"
    (tmp_path / "mine").write_bytes(other.path.read_bytes())
    assert load_plan("mine").verb == "discard"


def test_a_batch_of_the_server_names_no_path(writer: Writer, yard: Yard, tmp_path: Path) -> None:
    yard.bulk_dead(3)
    plan = writer.plan("retry", QUEUE, path=tmp_path / "p")
    with pytest.raises(UsageError, match="there is no plan"):
        own_plan(f"b-{tmp_path}/p")
    (plans_dir() / f"{plan.id}.jsonl").write_bytes(plan.path.read_bytes())
    assert own_plan(plan.batch).id == plan.id


def test_a_plan_may_take_the_place_of_itself(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(3)
    plan = writer.plan("retry", QUEUE)
    kept = list(plan.entries())[:1]
    with PlanWriter(plan.head, plan.path, replaces=True) as file:
        file.add(kept)
        tail = plan.tail.__class__(count=0, states={"dead": 1}, by_queue={f"native/{QUEUE}": 1})
        file.finish(tail)
    assert writer.apply(load_plan(plan.path)).applied == 1
