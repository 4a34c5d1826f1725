"""Agents in this process, and clients of their API."""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qdeck._agent.options import AgentOptions, ListenAddress
from qdeck._engine import programs, transitions
from qdeck._engine.job_ids import new_id
from qdeck.runtime import Agent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from qdeck._redis import SyncClient

TOKEN = "a-token-of-tests-1234567890"
QUEUE = "demo:mail:actions"


@dataclass
class Answer:
    """A response of the API."""

    code: int
    text: str
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Running:
    """An agent that runs in this event loop, with its events."""

    agent: Agent
    events: list[dict[str, Any]] = field(default_factory=list)

    def of(self, task: str, event: str = "ran") -> list[dict[str, Any]]:
        return [told for told in self.events if told.get("task") == task and told["event"] == event]

    async def until(self, condition: Callable[[], object], seconds: float = 40.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - any condition, whoever makes it true
                await asyncio.sleep(0.02)

    async def ask(
        self,
        path: str,
        method: str = "GET",
        *,
        token: str | None = TOKEN,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        sent = dict(headers or {})
        if token is not None:
            sent["X-AUTH-TOKEN"] = token
        return await asyncio.to_thread(_ask, self.agent.address, path, method, sent, body)


def _ask(address: str, path: str, method: str, headers: dict[str, str], body: bytes | None) -> Answer:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=20)
    try:
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        return Answer(reply.status, reply.read().decode(), {k.lower(): v for k, v in reply.getheaders()})
    finally:
        connection.close()


@asynccontextmanager
async def running(url: str, **options: Any) -> AsyncIterator[Running]:
    """Run an agent that serves its API on a free port."""
    options.setdefault("http", ListenAddress(port=0))
    options.setdefault("token", TOKEN)
    events: list[dict[str, Any]] = []
    made = Running(Agent(url, AgentOptions(**options), on_event=events.append), events)
    task = asyncio.create_task(made.agent.serve())
    try:
        await made.until(lambda: task.done() or any(told["event"] == "started" for told in events))
        if task.done():
            task.result()
        yield made
    finally:
        made.agent.stop()
        await task


def make_jobs(client: SyncClient, count: int, *, queue: str = QUEUE, body: bytes = b"[[],{}]") -> list[str]:
    made = [transitions.NewJob(id=new_id(), priority=100, template="100 0 t", body=body) for _ in range(count)]
    client.run(programs.enqueue(queue, made))
    return [job.id for job in made]


def claim(
    client: SyncClient, *, queue: str = QUEUE, free_slots: int = 1, lease_ms: int = 60_000, worker: str = "w1"
) -> Any:
    number = int(new_id()[:13], 16)
    return client.run(
        programs.call(transitions.poll(queue, worker, number, free_slots=free_slots, lease_ms=lease_ms))
    ).jobs


def bury(client: SyncClient, jobs: Any, *, queue: str = QUEUE, worker: str = "w1", **event: Any) -> None:
    text = json.dumps({"class": "pkg.Boom", "message": "no", **event}).encode()
    endings = [transitions.Ending(kind="failed", id=j.id, token=j.token, delay_ms=-1, event=text) for j in jobs]
    number = int(new_id()[:13], 16)
    client.run(programs.call(transitions.poll(queue, worker, number, free_slots=0, lease_ms=60_000, endings=endings)))
