"""What is written to files: whole or not at all, never over another file, and with keys answered in between."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qdeck.admin import Dropped, PlanEntry, PlanIndex, Share, check_new_file, new_file
from qdeck_console.screens.purge_entries import EntriesScreen
from support.screens import app_of, command, console, until

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 3_000


def test_a_file_gets_its_name_when_it_is_whole_and_is_for_its_user_alone(tmp_path: Path) -> None:
    with new_file(f" {tmp_path}/rows.jsonl ") as (path, file):
        assert path == tmp_path / "rows.jsonl"
        file.write(b"one\n")
        assert not path.exists()
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"one\n", 0o600)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("wrong", [OSError("full"), Dropped(), KeyboardInterrupt()])
def test_of_a_file_that_is_not_finished_nothing_is_left(tmp_path: Path, wrong: BaseException) -> None:
    def fails() -> None:
        with new_file(str(tmp_path / "rows.jsonl")) as (_, file):
            file.write(b"a part")
            raise wrong

    with pytest.raises(type(wrong)):
        fails()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("has_links", [True, False])
def test_nothing_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool) -> None:
    def refuses(*_: object) -> None:
        raise OSError(1, "not permitted")

    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", refuses)
    path, other = tmp_path / "rows.jsonl", tmp_path / "other.jsonl"
    path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError), new_file(str(path)):
        pass
    assert "already exists" in check_new_file(str(path))

    def is_outrun() -> None:
        with new_file(str(other)) as (_, file):
            file.write(b"ours")
            other.write_text("theirs")

    with pytest.raises(FileExistsError):
        is_outrun()
    assert other.read_text() == "theirs"
    os.unlink(other)  # noqa: PTH108 - as it was made
    with new_file(str(other)) as (_, file):
        file.write(b"ours")
    assert other.read_text() == "ours"
    assert {entry.name for entry in tmp_path.iterdir()} == {"rows.jsonl", "other.jsonl"}
    with pytest.raises(FileNotFoundError), new_file(str(tmp_path / "no" / "folder")):
        pass


class Entries(PlanIndex):
    """A plan of many entries, none of which is kept."""

    def __init__(self, told: Callable[[int], None]) -> None:
        self._told = told

    def entries(self, share: Share, first: int, most: int) -> list[PlanEntry]:
        self._told(first)
        return [
            PlanEntry(queue=share.queue, id=f"job-{number}", state="done", version="1", verb="discard", rule=share.rule,
                      reason="old", bytes=10, age_s=5.0)
            for number in range(first, min(share.count, first + most))
        ]  # fmt: skip


async def test_all_entries_of_a_plan_are_written_or_none(url: str, tmp_path: Path) -> None:
    async with console(url, "5") as pilot:
        app = app_of(pilot)
        seen: list[str] = []

        def told(first: int) -> None:
            work = app.operator.work
            if work is not None and work.verb == "write" and first >= COUNT // 2:
                seen.append(work.words())
                app.screen.action_do("back")  # type: ignore[attr-defined]  # every screen of the console has it

        share = Share("done_too_old", "shop:mail:actions", "discard", count=COUNT)
        app.open(EntriesScreen(Entries(told), share, "1h"))
        await until(pilot, "in the order of the plan")
        await command(pilot, f"write {tmp_path}/plan.jsonl")
        await until(pilot, "cancelled: nothing was written")
        assert "write: 1,6" in seen[0]
        assert "of 3,000" in seen[0]
        assert list(tmp_path.iterdir()) == []
        assert isinstance(app.screen, EntriesScreen), "what is cancelled is not left"
        app.screen.index = Entries(lambda _first: None)
        await command(pilot, f"write {tmp_path}/plan.jsonl")
        await until(pilot, "3,000 rows written to")
        rows = [json.loads(line) for line in (tmp_path / "plan.jsonl").read_text().splitlines()]
        assert [row["id"] for row in rows] == [f"job-{number}" for number in range(COUNT)]
        await command(pilot, f"write {tmp_path}/plan.jsonl")
        await until(pilot, "already exists")
