"""`qdeck jobs move` from or to a queue of another system: the answer is about the verb, not about the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck_console.__main__ import main

if TYPE_CHECKING:
    import redis

ACTIONS, OTHER = "nooble4:dev:embedding:actions", "nooble4:dev:embedding:tenant_xyz:actions"


@pytest.mark.parametrize("create", [[], ["--create"]])
def test_a_queue_whose_adapter_cannot_move_says_so(
    url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str], create: list[str]
) -> None:
    """It said that there is no queue of the target's name, which is a list."""
    raw.rpush(ACTIONS, '{"action_id": "a1"}')
    raw.rpush(OTHER, '{"action_id": "a2"}')
    assert main(["jobs", "move", ACTIONS, "--to", OTHER, "--dry-run", *create, "--url", url]) == 64
    told = capsys.readouterr().err
    assert "lists does not support move" in told
    assert "there is no queue" not in told


def test_a_target_of_another_system_is_named_as_such(
    url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    raw.rpush(OTHER, '{"action_id": "a2"}')
    assert main(["enqueue", "shop:mail:actions", "send", "--url", url]) == 0
    assert main(["jobs", "move", "shop:mail:actions", "--to", OTHER, "--dry-run", "--url", url]) == 64
    assert f"{OTHER!r} is a queue of the adapter lists: jobs move to native queues only" in capsys.readouterr().err
