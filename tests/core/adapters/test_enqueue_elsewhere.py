"""`qdeck enqueue` with the name of a queue of another system: its services would never see the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.adapters.test_scheduler import Page
from qdeck.testing.adapters import values
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    import redis

ACTIONS = "nooble4:dev:embedding:actions"


@pytest.mark.parametrize(
    ("queue", "adapter"),
    [("scheduler", "scheduler"), ("scheduler:queue:priority", "scheduler"), (ACTIONS, "lists"),
     ("execution:agent_run:professional:12345", "lists")],
)  # fmt: skip
def test_a_queue_of_another_system_is_refused(
    url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str], queue: str, adapter: str
) -> None:
    """It made a native queue of this name, or named a segment as missing."""
    Page(raw).enqueue("job-1", "HIGH")
    raw.rpush(ACTIONS, "{}")
    raw.rpush("execution:agent_run:professional:12345", "{}")
    before = values(raw)
    assert main(["enqueue", queue, "generate", "--url", url]) == 64
    told = capsys.readouterr().err
    assert f"{queue!r} is a queue of the adapter {adapter}: enqueue makes native jobs only" in told
    assert "native/" in told
    assert values(raw) == before
    assert not raw.keys("{*")


def test_a_native_queue_of_the_same_name_is_made_where_it_is_asked_for(
    url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    raw.rpush(ACTIONS, "{}")
    assert main(["enqueue", f"native/{ACTIONS}", "generate", "--url", url]) == 0
    assert main(["enqueue", ACTIONS, "generate", "--url", url]) == 0, "now there is one"
    capsys.readouterr()
    assert raw.zcard(f"{{{ACTIONS}}}:ready") == 2
