"""`qdeck worker` serves all that a service declares: its actions, callbacks of its tasks, and notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck.messages import Service
    from support.processes import PythonProcess


@pytest.mark.parametrize("ref", ["core.messages.served:service", "core.messages.served:service.app"])
async def test_the_command_serves_callbacks_and_notifications(
    ref: str,
    url: str,
    raw: redis.Redis,
    make_service: Callable[..., Service],
    make_process: Callable[..., PythonProcess],
    serve: Any,
) -> None:
    embedding, client, catalogue = (
        make_service("embedding"),
        make_service("ingestion_service"),
        make_service("catalogue"),
    )

    @embedding.on_action("embedding.generate_batch")
    async def generate(action: Any) -> dict[str, Any]:
        return {"vectors": 2}

    worker = make_process("-m", "qdeck_console", "worker", ref, env={"QDECK_URL": url})
    worker.wait_for("started", 60)
    await serve(embedding)
    asked = client.new_action("embedding.generate_batch", task_id="task_1")
    await client.arequest_callback(asked, callback_action_type="embedding.batch_completed")
    await catalogue.anotify("changed", catalogue.new_action("catalogue.changed", correlation_id="c-1"))
    answer = await client.arequest(client.new_action("ingestion_service.echo", {"n": 1}), timeout=20)
    assert answer.data == {"n": 1}
    await until(lambda: raw.llen("noted") == 2)
    assert set(raw.lrange("noted", 0, -1)) == {b"callback task_1", b"event c-1"}
    await until(lambda: raw.zcard("{qdeck:messages}:queues") == 0)
    worker.terminate()
    assert worker.wait(60) == 0, worker.output
    for one in (client, catalogue):
        await one.aclose()
