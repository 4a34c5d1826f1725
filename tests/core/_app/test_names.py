"""Every name that an application uses works as it is written in the design and the README."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck._engine import codec, keys, programs, transitions

if TYPE_CHECKING:
    import redis

QUEUE = "ifdb:prod:games:actions"


def head_of(raw: redis.Redis, job: qdeck.Job) -> codec.JobHead:
    text = raw.hget(keys.key(job.queue, "head"), job.id)
    assert isinstance(text, bytes)
    return codec.read_head(text)


def body_of(raw: redis.Redis, job: qdeck.Job) -> Any:
    text = raw.hget(keys.key(job.queue, "body"), job.id)
    assert isinstance(text, bytes)
    return json.loads(text)


def test_public_names_are_sorted_and_there() -> None:
    assert list(qdeck.__all__) == sorted(qdeck.__all__)
    assert len(set(qdeck.__all__)) == len(qdeck.__all__)
    for name in qdeck.__all__:
        assert hasattr(qdeck, name), name
    errors = [v for v in vars(qdeck).values() if isinstance(v, type) and issubclass(v, Exception)]
    assert all(issubclass(error, qdeck.QdeckError) for error in errors)
    assert {error.__name__ for error in errors} <= set(qdeck.__all__)


def test_a_task_with_all_its_options(app: qdeck.App, raw: redis.Redis) -> None:
    @app.task
    def mark_broken(failure: qdeck.Failure) -> None: ...

    @app.task(
        queue="ifdb:prod:other:actions",
        retries=5,
        backoff="fixed",
        retry_delay=timedelta(minutes=33),
        max_delay=7200,
        priority="HIGH",
        time_limit=60,
        lease=timedelta(seconds=90),
        expires=timedelta(days=1),
        on_failure="mark_broken",
        keep_result=timedelta(hours=2),
    )
    def clone_file(url_id: int) -> None: ...

    job = clone_file.enqueue(42)
    head = head_of(raw, job)
    assert job.queue == "ifdb:prod:other:actions"
    assert (head.task, head.retries, head.priority) == ("clone_file", 5, 50)
    assert head.backoff == f"F {33 * 60_000} 7200000"
    assert (head.limit_ms, head.lease_ms, head.keep_ms) == (60_000, 90_000, 7_200_000)
    assert head.expires_ms == head.enqueued_ms + 86_400_000
    assert head.on_failure == f"mark_broken {QUEUE}"
    assert body_of(raw, job) == [[42], {}]


def test_a_call_overrides_every_option(app: qdeck.App, raw: redis.Redis) -> None:
    @app.task
    def cure(failure: qdeck.Failure) -> None: ...

    @app.task(retries=3, priority="HIGH", time_limit=60, on_failure="cure")
    def clone_file(url_id: int, mirror: str = "") -> None: ...

    job = clone_file.enqueue(
        1,
        mirror="m",
        _queue="ifdb:prod:late:actions",
        _retries=0,
        _backoff="fixed",
        _retry_delay=1.5,
        _max_delay=timedelta(hours=1),
        _priority=10,
        _time_limit=None,
        _lease=30,
        _expires=5,
        _on_failure=None,
        _keep_result=0,
        _name="CloneUrl(42)",
        _tags=["a", "b"],
        _id="my-own.id:1",
    )
    head = head_of(raw, job)
    assert (job.id, job.queue, job.created) == ("my-own.id:1", "ifdb:prod:late:actions", True)
    assert (head.retries, head.priority, head.backoff) == (0, 10, "F 1500 3600000")
    assert (head.limit_ms, head.lease_ms, head.keep_ms, head.on_failure) == (None, 30_000, 0, None)
    assert (head.name, head.tags, head.expires_ms) == ("CloneUrl(42)", ("a", "b"), head.enqueued_ms + 5_000)
    assert body_of(raw, job) == [[1], {"mirror": "m"}]
    assert clone_file.enqueue(1, _id="my-own.id:1", _queue=job.queue).created is False


def test_name_delay_after_unique(app: qdeck.App, raw: redis.Redis) -> None:
    @app.task
    def clone_file(url_id: int) -> None: ...

    other = clone_file.enqueue(1)
    job = clone_file.enqueue(42, _name="CloneUrl(42)", _delay=30, _after=[other.id], _unique=True)
    assert (job.created, job.state(), other.state()) == (True, "blocked", "ready")
    again = clone_file.enqueue(42, _name="CloneUrl(42)", _unique=True)
    assert (again.created, again.id) == (False, job.id)
    waiting = clone_file.enqueue(2, _delay=timedelta(minutes=1))
    assert waiting.state() == "delayed"
    at = clone_file.enqueue(3, _at=datetime.now(UTC) + timedelta(hours=1))
    assert at.state() == "delayed"
    assert clone_file.enqueue(4, _at=datetime(2020, 1, 1, tzinfo=UTC)).state() == "ready"
    for after in (other, other.id, [other], (other,), {other.id}, f"{other.id}@{QUEUE}", (j for j in [other])):
        assert clone_file.enqueue(5, _after=after).state() == "blocked"
    score = raw.zscore(keys.key(QUEUE, "delayed"), at.id)
    assert score is not None
    assert abs(score / 1000 - datetime.now(UTC).timestamp() - 3600) < 30


async def test_in_asyncio(app: qdeck.App) -> None:
    @app.task
    async def clone_file(url_id: int) -> int:
        return url_id

    job = await clone_file.aenqueue(42, _priority=10)
    assert (job.created, await job.astate()) == (True, "ready")
    jobs = await app.aenqueue_many([clone_file.call(i) for i in range(3)])
    assert [j.created for j in jobs] == [True] * 3
    with pytest.raises(qdeck.ResultTimeout) as caught:
        await job.aresult(timeout=0.01)
    assert job.id in str(caught.value)
    assert await job.acancel() == "ok"
    with pytest.raises(qdeck.JobFailed, match="cancelled by the application"):
        await job.aresult(timeout=1)
    assert await clone_file(7) == 7
    await app.aclose()


def test_many_in_one_call_per_slice(app: qdeck.App, raw: redis.Redis) -> None:
    @app.task
    def clone_file(url_id: int) -> None: ...

    clone_file.enqueue(0)
    before = raw.info("commandstats")["cmdstat_evalsha"]["calls"]
    jobs = app.enqueue_many([clone_file.call(i) for i in range(1200)])
    after = raw.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert after - before <= 4  # 3 slices, and one more when the script was not there
    assert len({job.id for job in jobs}) == 1200
    assert all(job.created for job in jobs)
    assert app.enqueue_many([]) == []
    assert raw.zrange(keys.key(QUEUE, "ready"), 1, -1) == [job.id.encode() for job in jobs]


def test_calling_a_task_runs_it_here(app: qdeck.App) -> None:
    @app.task(name="other.name")
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    assert add(1, b=2) == 3
    assert (add.name, add.__name__, add.__doc__) == ("other.name", "add", "Adds.")
    assert app.enqueue("other.name", 1, b=2).created
    assert "other.name" in repr(add)


def test_result_of_a_job_that_is_done(app: qdeck.App) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    job = add.enqueue(1, 2)
    [claimed] = app.client.run(programs.call(transitions.poll(QUEUE, "w", 1, free_slots=1, lease_ms=1000))).jobs
    end = transitions.Ending(kind="done", id=claimed.id, token=claimed.token, result=b"3")
    app.client.run(programs.call(transitions.poll(QUEUE, "w", 2, free_slots=0, lease_ms=1000, endings=[end])))
    assert job.result(timeout=5) == 3
    assert job.result() == 3
    with pytest.raises(qdeck.UnknownJob, match="nobody"):
        qdeck.Job(app, QUEUE, "nobody").result(timeout=5)


def test_chain_and_group(app: qdeck.App) -> None:
    @app.task
    def step(n: int) -> None: ...

    jobs = app.enqueue_many(qdeck.chain(step.call(1), step.call(2), step.call(3, _queue="ifdb:prod:late:actions")))
    assert [job.state() for job in jobs] == ["ready", "blocked", "blocked"]
    jobs = app.enqueue_many(qdeck.group([step.call(i) for i in range(3)], step.call(9)))
    assert [job.state() for job in jobs] == ["ready"] * 3 + ["blocked"]
    assert app.enqueue_many(qdeck.chain()) == []


def test_a_chain_onto_a_job_of_another_queue_that_was_there(app: qdeck.App) -> None:
    @app.task
    def step(n: int) -> None: ...

    far = "ifdb:prod:late:actions"
    there = step.enqueue(1, _queue=far, _name="one", _unique=True)
    first, second = app.enqueue_many(
        qdeck.chain(step.call(1, _queue=far, _name="one", _unique=True), step.call(2, _queue=QUEUE))
    )
    assert (first.id, first.created, second.state()) == (there.id, False, "blocked")


def test_a_large_group_with_a_member_that_was_there(app: qdeck.App) -> None:
    @app.task
    def step(n: int) -> None: ...

    there = step.enqueue(0, _name="one", _unique=True)
    members = [step.call(n) for n in range(500)]
    members[0] = step.call(0, _name="one", _unique=True)
    jobs = app.enqueue_many(qdeck.group(members, step.call(9)))
    assert jobs[0].id == there.id
    assert jobs[-1].state() == "blocked"
    assert len(jobs) == 501


def test_parents_may_come_after_their_children(app: qdeck.App) -> None:
    @app.task
    def step(n: int) -> None: ...

    far = "ifdb:prod:late:actions"
    c, b, a = step.call(3, _id="c", _after="b@" + far), step.call(2, _id="b", _queue=far, _after="a@" + QUEUE), None
    a = step.call(1, _id="a")
    jobs = app.enqueue_many([c, b, a])
    assert [(job.id, job.state()) for job in jobs] == [("c", "blocked"), ("b", "blocked"), ("a", "ready")]


def test_one_id_twice_is_one_job(app: qdeck.App, raw: redis.Redis) -> None:
    @app.task
    def step(n: int) -> None: ...

    one = app.enqueue_many([step.call(1, _id="x"), step.call(2, _id="x")])
    assert [(job.id, job.created) for job in one] == [("x", True), ("x", False)]
    two = app.enqueue_many(
        [step.call(1, _id="y"), step.call(2, _id="z", _after="y"), step.call(3, _id="y", _after="z")]
    )
    assert [job.created for job in two] == [True, True, False]
    assert body_of(raw, two[0]) == [[1], {}]
    assert [job.state() for job in two] == ["ready", "blocked", "ready"]


def test_where_the_server_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QDECK_URL", raising=False)
    monkeypatch.delenv("REDIS_URL", raising=False)
    with pytest.raises(qdeck.UsageError, match="no server") as caught:
        qdeck.App(queue="a:actions")
    assert "QDECK_URL" in caught.value.hint
    monkeypatch.setenv("REDIS_URL", "redis://one:1")
    assert "one:1" in repr(qdeck.App(queue="a:actions"))
    monkeypatch.setenv("QDECK_URL", "redis://two:2")
    assert "two:2" in repr(qdeck.App(queue="a:actions"))
    assert "three:3" in repr(qdeck.App("redis://three:3", queue=qdeck.QueueName.parse("a:actions")))
