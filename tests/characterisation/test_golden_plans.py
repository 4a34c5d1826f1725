"""The plan of every verb and of every purge rule on every adapter: as JSON, in words, and line by line as its file."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest

from characterisation import verbs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from characterisation.conftest import World


def _plans(world: World, lines: Sequence[str]) -> list[str]:
    """Each dry run in all its forms; none of them may change the server."""
    sections = []
    for line in lines:
        world.fill(anew=False)
        before = _writes(world)
        for as_json in (True, False):
            file = world.folder / "plan.jsonl"
            file.unlink(missing_ok=True)
            world.normal.ids.clear()
            ran = world.run(*shlex.split(line), *(["--json", "--plan", str(file)] if as_json else []))
            sections.append(world.section(line, ran, as_json=as_json))
            if file.exists():
                documents = [json.loads(text) for text in file.read_text("utf-8").splitlines()]
                entries = [json.dumps(world.normal.document(one)) for one in documents]
                sections.append("\n".join(["the file of the plan:", *entries]))
        assert _writes(world) == before, f"{line} wrote"
    return sections


def _writes(world: World) -> int:
    """How many changes the server has made."""
    return int(world.raw.info("persistence")["rdb_changes_since_last_save"])


@pytest.mark.parametrize("name", verbs.LISTS)
def test_each_verb(world: World, golden: Callable[[str, Sequence[str]], None], name: str) -> None:
    golden(f"plans/{name}", _plans(world, verbs.LISTS[name]))


def test_each_purge_rule(world: World, golden: Callable[[str, Sequence[str]], None]) -> None:
    golden("plans/purge", _plans(world, verbs.PURGES))


def test_what_is_refused(world: World, golden: Callable[[str, Sequence[str]], None]) -> None:
    """With its code and its words, and nothing on stdout."""
    world.fill()
    (world.folder / "nothing.json").write_text("nothing", "utf-8")
    golden("plans/refused", [world.told(line) for line in verbs.REFUSED])
