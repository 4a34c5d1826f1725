"""What `w` writes on a screen is what the command writes with --json, field by field."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from qdeck.admin import QueueRef, Reader
from qdeck_console.actions import TABS
from qdeck_console.cli.output import dumps
from qdeck_console.documents import document
from support.commands import runner
from support.scene import QUEUE, make_scene
from support.screens import app_of, app_on, command, shown, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis
    from textual.pilot import Pilot

# What each tab exports, as the documents of a command; of Jobs all about each, one by one.
COMMANDS: dict[str, tuple[str, ...]] = {
    "queues": ("queues", "--json"),
    "stuck": ("stuck", "--json"),
    "dead": ("dead", "export"),
    "schedules": ("schedule", "list", "--json"),
    "workers": ("workers", "--json"),
    "health": ("health", "--json"),
    "activity": ("activity", "--json"),
}


def documents(text: str) -> list[Any]:
    """Documents of lines, or of one list."""
    if text.startswith("["):
        found = json.loads(text)
        assert isinstance(found, list)
        return found
    try:
        return [json.loads(line) for line in text.splitlines()]
    except json.JSONDecodeError:
        return [json.loads(text)]


def lasting(value: Any) -> Any:
    """A document without what differs from one second to the next: ages, rates and times of looking."""
    if isinstance(value, dict):
        return {name: None if is_passing(name) else lasting(item) for name, item in value.items()}
    return [lasting(item) for item in value] if isinstance(value, list) else value


def is_passing(name: str) -> bool:
    return name.endswith(("_s", "_age")) or name in {"at", "heartbeat_at", "reason"}


def in_order(found: list[Any]) -> list[str]:
    return sorted(json.dumps(lasting(one), sort_keys=True) for one in found)


async def export(pilot: Pilot[int], file: Path) -> list[Any]:
    """What the screen in sight writes."""
    await command(pilot, f"write {file}")
    await until(pilot, "written to")
    return documents(file.read_text())


@pytest.mark.parametrize("tab", COMMANDS)
async def test_a_screen_exports_what_its_command_writes(
    url: str, raw: redis.Redis, tmp_path: Path, capsys: pytest.CaptureFixture[str], tab: str
) -> None:
    make_scene(url, raw)
    async with shown(app_on(url)) as pilot:
        app = app_of(pilot)
        app.action_tab(tab)
        await until(pilot, lambda: app.current_mode == tab and app.screen.lists())  # type: ignore[attr-defined]
        exported = await export(pilot, tmp_path / "screen.jsonl")
    told = runner(capsys)(*COMMANDS[tab], "--url", url, "--adapter", "native")
    assert exported
    if tab == "health":  # numbers of the server differ, and a reader that has read before has rates, too
        [report], [other] = exported, documents(told.out)
        assert set(report.pop("processing_rate")) == {"enqueued_per_min", "ended_per_min"}
        assert other.pop("processing_rate") is None
        assert fields(report) == fields(other)
    elif tab == "dead":  # of the group under the cursor
        assert len(exported) == 2
        assert set(in_order(exported)) < set(in_order(documents(told.out)))
    else:
        assert in_order(exported) == in_order(documents(told.out)), told.err


def fields(value: Any) -> Any:
    """The names of all fields, however deep."""
    if isinstance(value, dict):
        return {name: fields(item) for name, item in value.items()}
    return [fields(value[0])] if isinstance(value, list) and value and isinstance(value[0], dict) else None


def test_every_tab_has_its_command() -> None:
    assert {*COMMANDS, "jobs", "purge"} == set(TABS)


async def test_jobs_and_the_page_of_a_job_export_all_about_each(
    url: str, raw: redis.Redis, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = make_scene(url, raw)
    async with shown(app_on(url)) as pilot:
        app = app_of(pilot)
        app.show_jobs(QueueRef("native", QUEUE))
        await until(pilot, "1–1 of 1")
        listed = await export(pilot, tmp_path / "list.jsonl")
        app.open_job(QueueRef("native", QUEUE), scene.ready)
        await until(pilot, lambda: app.screen.__class__.__name__ == "JobScreen" and app.screen.lists())  # type: ignore[attr-defined]
        page = await export(pilot, tmp_path / "page.jsonl")
    told = runner(capsys)("job", QUEUE, scene.ready, "--json", "--url", url)
    assert in_order(listed) == in_order(page) == in_order([told.json])


async def test_the_entries_of_a_purge_are_those_of_the_command(
    url: str, raw: redis.Redis, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_scene(url, raw)
    async with shown(app_on(url)) as pilot:
        await pilot.press("5")
        await until(pilot, "no plan yet")
        await pilot.press("d")
        await until(pilot, "1 entry")
        await pilot.press("tab", "g", "j", "enter")
        await until(pilot, "in the order of the plan")
        exported = await export(pilot, tmp_path / "entries.jsonl")
    told = runner(capsys)("purge", "--json", "--url", url)
    assert len(exported) == 1
    assert in_order(exported) == in_order(told.json["entries"])


def test_what_is_exported_is_written_as_commands_write_it(
    url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    make_scene(url, raw)
    with Reader(url) as reader:
        [row] = reader.workers()
        assert dumps(lasting(document(row))) == dumps(
            lasting(runner(capsys)("workers", "--json", "--url", url).json[0])
        )


def test_a_value_without_a_document_is_an_error() -> None:
    make: Callable[[object], object] = document
    with pytest.raises(TypeError, match="str has no JSON"):
        make("a text")
