"""What each verb changes on the server, and what is different after its undo: all keys, compared before and after."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest

from characterisation import verbs
from characterisation.contents import contents, difference, without_own
from characterisation.seed import PARTS, TASK
from characterisation.seed_native import BILLS, MAIL, MAILER, WORKER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from characterisation.conftest import World

_CLEANS = (
    f"clean {TASK} --yes",
    f"clean {TASK} --idle 0 --yes",
    "clean 12345 --idle 0 --yes",
    "clean --orphans --yes",
    "clean --orphans --yes --adapter lists",
)
# What changes something and has no undo.
_WRITES = (
    f"queues pause {MAIL} --adapter native",
    f"queues resume {MAILER} --yes",
    "queues pause ifdb",
    f"enqueue {BILLS} send --args [1] --priority LOW --name n --unique --tag a",
    f"enqueue {BILLS} send --delay 3600 --after dead-one@{MAIL}",
    f"enqueue {MAIL} send --after delayed-later",
    f"schedule add new {MAIL} send --cron '* * * * *' --tz UTC",
    "schedule edit minutely --missed all --yes",
    "schedule pause minutely",
    "schedule resume paused",
    "schedule run paused",
    "schedule remove paused --yes",
    f"workers quiet {WORKER} --yes",
    f"workers stop {WORKER} --yes",
    "workers stop nobody --yes",
)


def _apply_and_undo(world: World, line: str, parts: Sequence[str]) -> str | None:
    """Does it, takes it back, and tells all of it; None where it is refused, which its plan tells."""
    world.fill(parts)
    before = contents(world.raw, world.normal)
    ran = world.run(*shlex.split(line), "--json")
    if ran.code == 64:
        assert difference(before, contents(world.raw, world.normal)) == "no difference"
        return None
    after = contents(world.raw, world.normal)
    parts_told = [world.section(line, ran, as_json=True), difference(before, after)]
    told = json.loads(ran.out)
    if told.get("batch"):
        back = world.run("undo", told["batch"], "--yes", "--json")
        undone = contents(world.raw, world.normal)
        parts_told += [world.section("undo", back, as_json=True), difference(without_own(before), without_own(undone))]
    return "\n\n".join(parts_told)


def _told(world: World, lines: Sequence[str], parts: Sequence[str]) -> list[str]:
    return [told for line in lines if (told := _apply_and_undo(world, line, parts)) is not None]


@pytest.mark.parametrize("name", verbs.LISTS)
def test_each_verb_and_its_undo(world: World, golden: Callable[[str, Sequence[str]], None], name: str) -> None:
    parts = PARTS if name == "colliding" else [name]
    golden(f"changes/{name}", _told(world, [f"{line} --yes" for line in verbs.LISTS[name]], parts))


def test_each_purge_rule_and_its_undo(world: World, golden: Callable[[str, Sequence[str]], None]) -> None:
    golden("changes/purge", _told(world, [f"{line} --now --yes" for line in verbs.PURGES], PARTS))


def test_each_cleaning_and_its_undo(world: World, golden: Callable[[str, Sequence[str]], None]) -> None:
    golden("changes/clean", _told(world, _CLEANS, ("lists", "messages")))


def test_an_edited_payload_and_its_undo(world: World, golden: Callable[[str, Sequence[str]], None]) -> None:
    (world.folder / "new.json").write_text('[["other"], {}]', "utf-8")
    lines = [f"job edit {MAIL} {job} --payload new.json" for job in ("dead-one", "ready-tagged", "running-leased")]
    golden("changes/edit", _told(world, lines, ("native",)))


def test_what_changes_something_for_good(world: World, golden: Callable[[str, Sequence[str]], None]) -> None:
    sections = []
    for line in _WRITES:
        world.fill(("native", "ifdb"))
        before = contents(world.raw, world.normal)
        told = world.told(line)
        sections.append(f"{told}\n\n{difference(before, contents(world.raw, world.normal))}")
    golden("changes/for-good", sections)
