"""One app in several threads, loops and processes: each has connections of its own, and none stays behind."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import qdeck
from qdeck._engine import keys

if TYPE_CHECKING:
    import redis

QUEUE = "ifdb:prod:games:actions"


def test_threads_share_an_app(app: qdeck.App, raw: redis.Redis) -> None:
    @app.task
    def step(n: int) -> None: ...

    errors: list[BaseException] = []
    ids: list[str] = []

    def work() -> None:
        try:
            ids.extend(step.enqueue(i).id for i in range(50))
            ids.extend(job.id for job in app.enqueue_many([step.call(i) for i in range(50)]))
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)
        finally:
            app.close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert len(set(ids)) == raw.zcard(keys.key(QUEUE, "ready")) == 800


def test_many_tasks_of_one_loop(app: qdeck.App, raw: redis.Redis) -> None:
    @app.task
    def step(n: int) -> None: ...

    async def work() -> None:
        await asyncio.gather(*(step.aenqueue(i) for i in range(300)))
        await app.aclose()

    asyncio.run(work())
    assert raw.zcard(keys.key(QUEUE, "ready")) == 300


def test_a_cancelled_call_does_not_mix_up_replies(app: qdeck.App) -> None:
    @app.task
    def step(n: int) -> None: ...

    async def work() -> None:
        for _ in range(50):
            asked = asyncio.create_task(step.aenqueue(1))
            await asyncio.sleep(0.0005)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            job = await step.aenqueue(2)
            assert await job.astate() == "ready"
        await app.aclose()

    asyncio.run(work())


def test_loops_in_threads_and_one_after_another(app: qdeck.App, raw: redis.Redis) -> None:
    @app.task
    def step(n: int) -> None: ...

    async def work() -> None:
        for i in range(5):
            await step.aenqueue(i)
        await app.aclose()

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for _ in range(3):
        asyncio.run(work())
    assert raw.zcard(keys.key(QUEUE, "ready")) == 35
    assert not app._aclients


def test_loops_that_were_never_told_to_close_leave_nothing_behind(app: qdeck.App) -> None:
    async def work() -> None:
        app.aclient()

    for _ in range(5):
        asyncio.run(work())
    assert len(app._aclients) == 1


def test_two_apps_of_one_process(url: str, raw: redis.Redis) -> None:
    one, two = qdeck.App(url, queue="one:actions"), qdeck.App(url, queue="two:actions")

    @one.task
    def step(n: int) -> None: ...

    @two.task(name="step")
    def other(n: int) -> None: ...

    assert (step.enqueue(1).queue, other.enqueue(1).queue) == ("one:actions", "two:actions")
    first = step.call(1)
    linked = one.enqueue_many([first, step.call(2, _after=first, _queue="two:actions")])
    assert linked[1].state() == "blocked"
    assert set(raw.hkeys("qdeck:queues")) == {b"one:actions", b"two:actions"}
    one.close()
    two.close()


def test_a_forked_child_has_a_connection_and_ids_of_its_own(app: qdeck.App, raw: redis.Redis) -> None:
    @app.task
    def step(n: int) -> None: ...

    step.enqueue(0)
    children = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            try:
                for i in range(100):
                    step.enqueue(i)
            except BaseException:  # noqa: BLE001 - the exit code tells
                os._exit(1)
            os._exit(0)
        children.append(pid)
    ours = [step.enqueue(i) for i in range(100)]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0, 0]
    assert all(job.created for job in ours)
    assert ours[-1].state() == "ready"
    assert raw.zcard(keys.key(QUEUE, "ready")) == 401
