"""`qdeck schedule` as scripts see it."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from core._schedules.registering import schedule
from qdeck._engine import codec
from qdeck._schedules import store
from qdeck.admin import actor
from support.commands import Ran, runner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import qdeck as qdeck_package

QUEUE = "test:actions"
FIELDS = {"name", "queue", "task", "cron", "tz", "next_at", "last_at", "last_outcome", "enabled", "missed_runs"}
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def qdeck(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    monkeypatch.setenv("QDECK_URL", url)
    return partial(runner(capsys), "schedule")


def test_a_life_of_a_schedule(qdeck: Callable[..., Ran], raw: Any) -> None:
    assert qdeck("list", "--json").json == []
    added = qdeck(
        "add", "feeds", QUEUE, "fetch", "--cron", "*/30 * * * *", "--tz", "Europe/Madrid", "--args", "[7]",
        "--priority", "HIGH", "--retries", "9", "--tag", "rss", "--json",
    )  # fmt: skip
    assert added.code == 0
    [row] = qdeck("--json").json
    assert row.keys() >= FIELDS
    assert row == added.json
    assert (row["name"], row["queue"], row["task"], row["tz"]) == ("feeds", QUEUE, "fetch", "Europe/Madrid")
    assert (row["enabled"], row["last_at"], row["last_outcome"]) == (True, None, None)
    assert ISO.fullmatch(row["next_at"])

    ran = qdeck("run", "feeds", "--json").json
    assert (ran["last_outcome"], ran["last_id"]) == ("ready", ran["id"])
    head = codec.read_head(raw.hget(f"{{{QUEUE}}}:head", ran["id"]))
    assert (head.priority, head.retries, head.tags) == (50, 9, ("rss",))

    assert not qdeck("pause", "feeds", "--json").json["enabled"]
    assert "paused already" in qdeck("pause", "feeds").out
    assert qdeck("list", "--json").json[0]["next_at"] is None
    assert qdeck("resume", "feeds", "--json").json["enabled"]
    edited = qdeck("edit", "feeds", "--cron", "0 4 * * *", "--retries", "2", "--yes", "--json").json
    assert (edited["cron"], edited["tz"], edited["priority"]) == ("0 4 * * *", "Europe/Madrid", 50)
    again = qdeck("run", "feeds").out.strip()
    head = codec.read_head(raw.hget(f"{{{QUEUE}}}:head", again))
    assert (head.priority, head.retries, head.tags) == (50, 2, ("rss",))
    assert codec.decode_call(raw.hget(f"{{{QUEUE}}}:body", again)) == ([7], {})
    assert qdeck("remove", "feeds", "--yes").code == 0
    assert qdeck("list", "--json").json == []


def test_a_pause_has_a_reason_and_resuming_asks(qdeck: Callable[..., Ran]) -> None:
    assert qdeck("add", "feeds", QUEUE, "fetch", "--cron", "*/30 * * * *").code == 0
    assert qdeck("pause", "feeds", "--reason", "INC-42").code == 0
    told = f"paused by {actor()}, "
    ran = qdeck("pause", "feeds", "--reason", "INC-43")
    assert (ran.code, ran.out.startswith(f"feeds is paused already by {actor()}, ")) == (0, True)
    assert ran.out.endswith("s ago: INC-42\n")
    ran = qdeck("resume", "feeds")
    assert (ran.code, f"feeds was {told}" in ran.err) == (1, True)
    assert not qdeck("--json").json[0]["enabled"]
    ran = qdeck("run", "feeds")
    assert (ran.code, f"feeds was {told}" in ran.err) == (1, True)
    assert qdeck("--json").json[0]["jobs_made"] == 0
    assert qdeck("run", "feeds", "--yes").code == 0
    assert qdeck("--json").json[0]["jobs_made"] == 1
    assert qdeck("edit", "feeds", "--cron", "0 4 * * *", "--yes").code == 0
    ran = qdeck("resume", "feeds")
    assert (ran.code, f"feeds was {told}" in ran.err) == (1, True), "neither a run nor an edit ends a pause"
    assert qdeck("resume", "feeds", "--yes").code == 0
    assert qdeck("--json").json[0]["enabled"]
    assert qdeck("pause", "feeds").code == 0
    assert qdeck("resume", "feeds").code == 0, "one's own pause without a reason"


def test_add_asks_before_it_replaces_another_schedule(qdeck: Callable[..., Ran], raw: Any) -> None:
    first = ("add", "feeds", QUEUE, "fetch", "--cron", "*/30 * * * *")
    assert qdeck(*first).out == "feeds is added\n"
    assert qdeck(*first).out == "feeds is unchanged\n"
    other = ("add", "feeds", "other:actions", "fetch", "--cron", "0 4 * * *")
    for options in ((), ("--json",)):
        ran = qdeck(*other, *options)
        change = f"feeds: queue other:actions in place of {QUEUE}; cron 0 4 * * * in place of */30 * * * *"
        assert (ran.code, change in ran.err) == (1, True)
    assert qdeck("--json").json[0]["cron"] == "*/30 * * * *"
    assert raw.keys("*other*") == [], "runs in the other queue are not blocked either"
    assert qdeck(*other, "--yes").out == "feeds is changed\n"
    assert qdeck("--json").json[0]["cron"] == "0 4 * * *"


def test_for_people_it_is_a_table(qdeck: Callable[..., Ran], app: qdeck_package.App, raw: Any) -> None:
    schedule(app, "feeds", "feed", cron="* * * * *")
    raw.hset(store.STATE, "feeds", b"1 %d 0 0 0 0 - -" % (time.time() * 1000 - 300_000))
    raw.hset(store.SCHEDULES, "bro\x1b[31mken", b"{")
    shown = qdeck("list")
    assert "* * * * *" in shown.out
    assert "late" in shown.out
    assert "Check that a worker or an agent is running" in shown.err
    assert "\x1b" not in shown.out + shown.err


def test_an_edit_keeps_the_options_that_a_program_gave(
    qdeck: Callable[..., Ran], app: qdeck_package.App, raw: Any
) -> None:
    schedule(app, "feeds", "feed", cron="* * * * *", _expires=60, _time_limit=5, _name="x", _unique=True)
    assert qdeck("edit", "feeds", "--args", "[1]", "--yes").code == 0
    template = app.client.run(store.get("feeds")).template
    assert {"x+60000", "m5000", "nx", "u"} <= set(template.split("\n"))


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("pause", "nothing"), 64, "no schedule 'nothing'"),
        (("add", "feeds", QUEUE, "fetch", "--cron", "* *"), 64, "cron '* *' has 2 fields; five are needed"),
        (("add", "feeds", QUEUE, "fetch"), 64, "--cron"),
        (("add", "fe eds", QUEUE, "fetch", "--cron", "* * * * *"), 64, "not valid"),
        (("add", "feeds", QUEUE, "fetch", "--cron", "* * * * *", "--tz", "Mars/Base"), 64, "time zone"),
        (("frobnicate",), 64, "frobnicate"),
    ],
)
def test_what_is_wrong_is_told(qdeck: Callable[..., Ran], args: tuple[str, ...], code: int, says: str) -> None:
    ran = qdeck(*args)
    assert ran.code == code
    assert says in ran.err
    assert "Traceback" not in ran.err


def test_a_read_only_context_changes_nothing(
    qdeck: Callable[..., Ran], url: str, raw: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QDECK_URL")
    config = tmp_path / "qdeck.toml"
    config.write_text(f'[contexts.safe]\nurl = "{url}"\nread_only = true\n')
    args = ("--config", str(config), "--context", "safe")
    assert qdeck("add", "feeds", QUEUE, "fetch", "--cron", "* * * * *", *args).code == 77
    assert raw.keys() == []
    assert qdeck("list", *args).code == 0
