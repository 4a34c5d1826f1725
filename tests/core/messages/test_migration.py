"""The call moves from HTTP to a queue from one command, both ways give the same, and its page can be followed."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from qdeck_console.cli.run import run as cli
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck.messages import DomainAction, Service

CORE = Path(__file__).parents[3] / "core"
PAGE = (CORE / "docs" / "how-to" / "migrate-from-http.md").read_text("utf-8")


@pytest.mark.timeout(320)
def test_both_ways_run_side_by_side_and_leave_no_key() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.migration"], cwd=CORE, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines.count("both   [task_001] the same") == lines.count("both   [task_002] the same") == 1
    assert "queue  [task_002] no vectors: there are no texts" in lines
    down = [line for line in lines if "[task_003]" in line]
    assert "no vectors" in down[0]
    assert down[1:] == ["queue  [task_003] waits in nooble4:dev:embedding:actions", "queue  [task_003] 1 vectors"]
    assert "http   [task_004] no vectors: send to nooble4:dev:embedding:actions" in lines
    assert lines[-2:] == ["end    [keys] 0 temporary queues left", "end    [keys] 0 keys left"]


def test_the_page_has_the_steps_of_the_document_in_order() -> None:
    assert re.findall(r"^## Step (\d)", PAGE, re.MULTILINE) == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_its_code_is_code(block: str) -> None:
    ast.parse(block)


async def test_what_the_page_types_shows_what_it_says(
    make_service: Callable[..., Service], serve: Any, url: str, raw: redis.Redis
) -> None:
    embedding = make_service("embedding")

    @embedding.on_action("embedding.generate_batch")
    async def generate_batch(action: DomainAction) -> dict[str, Any]:
        return {"embeddings": [len(text) for text in action.data["texts"]]}

    await serve(embedding)
    [words] = re.findall(r"^`(qdeck enqueue .*)`$", PAGE, re.MULTILINE)
    [named] = re.findall(r'"callback_queue_name": "([^"]+)"', PAGE)
    command = shlex.split(words)[1:]
    envelope = json.loads(command[-1])
    envelope[0] |= {"action_id": "try-2", "data": {**envelope[0]["data"], "callback_queue_name": named}}
    for args in (command, [*command[:-1], json.dumps(envelope)]):
        assert await asyncio.to_thread(cli, [*args, "--url", url]) == 0
    await until(lambda: raw.zcard("{nooble4:dev:embedding:actions}:done") == 2)
    [callback] = raw.lrange(named, 0, -1)
    assert json.loads(callback)["data"]["embeddings"] == [1]
    assert 0 < raw.pttl(named) <= 3_600_000
