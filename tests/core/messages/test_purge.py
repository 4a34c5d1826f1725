"""The dry run of a purge shows temporary queues that a cleaner would remove, and changes nothing."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import qdeck
from qdeck.messages import Messenger
from qdeck_console.cli.run import run as cli
from support.waiting import OWN, age

if TYPE_CHECKING:
    import pytest
    import redis


def test_a_dry_run_shows_them(url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]) -> None:
    client = Messenger(qdeck.App(url, queue=f"{OWN}:actions"), ttl=0.01)
    for n in range(3):
        raw.rpush(str(client.request_callback(client.new_action("embedding.x", correlation_id=f"c-{n}"))), b"x")
    client.close()
    for n in range(2):
        raw.rpush(f"{OWN}:responses:get:{n}", b"x")
        age(raw, f"{OWN}:responses:get:{n}")
    time.sleep(0.05)
    before = sorted(raw.scan_iter())
    assert cli(["purge", "--url", url]) == 0
    assert "temporary queues: 3 expired, 2 orphaned" in capsys.readouterr().out
    assert cli(["purge", "--url", url, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["temporary"]
    assert (found["expired"], found["orphaned"], found["bytes"] > 0) == (3, 2, True)
    assert cli(["purge", "--url", url, "--json", "--rule", "ready_too_old"]) == 0
    assert json.loads(capsys.readouterr().out)["temporary"] is None
    assert sorted(raw.scan_iter()) == before
