"""What is wrong is refused with an error that names the value and says what to do, and nothing half done."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import qdeck

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.servers import Server

FAR = "ifdb:prod:far:actions"


@dataclass
class Thing:
    inside: Any


@pytest.fixture
def step(app: qdeck.App, raw: redis.Redis) -> qdeck.Task[Any, Any]:
    @app.task
    def step(*args: Any, **kwargs: Any) -> None: ...

    return step


def picture(raw: redis.Redis) -> dict[Any, Any]:
    return {key: raw.dump(key) for key in raw.keys("*")}


def refused(raw: redis.Redis, error: type[Exception], what: Callable[[], object], *words: str) -> qdeck.QdeckError:
    before = picture(raw)
    with pytest.raises(error) as caught:
        what()
    assert picture(raw) == before, "something was done"
    mistake = caught.value
    assert isinstance(mistake, qdeck.QdeckError)
    assert mistake.hint, f"no remedy: {mistake}"
    for word in words:
        assert word in str(mistake), str(mistake)
    return mistake


def endless() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (object(), "object"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (-float("inf"), "-inf"),
        ([1, [2.0, float("nan")]], "nan"),
        ({"a": {"b": (float("inf"),)}}, "inf"),
        (b"raw", "raw"),
        (bytearray(b"raw"), "raw"),
        (memoryview(b"raw"), "raw"),
        ([{"deep": [b"raw"]}], "raw"),
        ({b"key": 1}, "key"),
        ({float("nan"): 1}, "nan"),
        (Thing(b"raw"), "raw"),
        (Thing([float("nan")]), "nan"),
        ({frozenset([b"raw"])}, "raw"),
        (["\ud800"], "surrogates"),
        (1j, "complex"),
        ([10**5000], "digits"),
        ({(1, 2): 3}, "keys"),
        (lambda: 1, "function"),
        (endless(), "recursion"),
    ],
)
def test_arguments_that_json_cannot_carry(step: qdeck.Task[Any, Any], raw: redis.Redis, value: Any, word: str) -> None:
    for call in (lambda: step.enqueue(value), lambda: step.enqueue(x=value)):
        refused(raw, qdeck.PayloadNotSerializable, call, "'step'", word)
    good = step.call(1)
    refused(raw, qdeck.PayloadNotSerializable, lambda: step.app.enqueue_many([good, step.call(value)]), word)


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        ({1}, [1]),
        ((1, "a"), [1, "a"]),
        (2**200, 2**200),
        (-(2**63) - 1, -(2**63) - 1),
        (1.5, 1.5),
        (None, None),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        (Thing(1), {"inside": 1}),
        ({1: 2}, {"1": 2}),
        ("\x00 \u2028 😀 [] {}", "\x00 \u2028 😀 [] {}"),
    ],
)
def test_arguments_that_it_can(step: qdeck.Task[Any, Any], value: Any, arrives: Any) -> None:
    from qdeck._engine import codec

    assert codec.decode_call(step.call(value, k=value).job.body) == ([arrives], {"k": arrives})


def test_payload_over_the_limit(url: str, raw: redis.Redis) -> None:
    app = qdeck.App(url, queue="a:actions", max_payload=1000)

    @app.task
    def step(text: str) -> None: ...

    assert step.enqueue("x" * 991).created  # with quotes and brackets
    mistake = refused(raw, qdeck.PayloadTooLarge, lambda: step.enqueue("x" * 992), "'step'", "1,001", "1,000")
    assert "max_payload" in mistake.hint
    app.close()


def test_unknown_task(app: qdeck.App, step: qdeck.Task[Any, Any], raw: redis.Redis) -> None:
    mistake = refused(raw, qdeck.UnknownTask, lambda: app.enqueue("stepp"), "'stepp'")
    assert "'step'" in mistake.hint
    assert isinstance(mistake, LookupError)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"_delay": -1}, ["_delay", "-1"]),
        ({"_delay": timedelta(seconds=-1)}, ["_delay"]),
        ({"_delay": "soon"}, ["_delay", "'soon'"]),
        ({"_delay": True}, ["_delay", "True"]),
        ({"_delay": float("nan")}, ["_delay", "nan"]),
        ({"_delay": float("inf")}, ["_delay", "inf"]),
        ({"_delay": 10**400}, ["_delay"]),
        ({"_delay": 1, "_at": datetime.now(UTC)}, ["_delay", "_at"]),
        ({"_at": datetime(2026, 1, 1)}, ["_at", "2026"]),  # noqa: DTZ001 - without a zone on purpose
        ({"_at": datetime(2300, 1, 1, tzinfo=UTC)}, ["_at", "2300"]),
        ({"_at": datetime(1960, 1, 1, tzinfo=UTC)}, ["_at", "1960"]),
        ({"_at": "2026-01-01"}, ["_at", "'2026-01-01'"]),
        ({"_at": -5}, ["_at", "-5"]),
        ({"_at": float("nan")}, ["_at", "nan"]),
        ({"_at": 10**400}, ["_at"]),
        ({"_priority": -1}, ["_priority"[1:], "-1"]),
        ({"_priority": 900}, ["priority", "900"]),
        ({"_priority": True}, ["priority", "True"]),
        ({"_priority": "URGENT"}, ["priority", "'URGENT'"]),
        ({"_priority": 1.5}, ["priority", "1.5"]),
        ({"_priority": None}, ["priority", "None"]),
        ({"_retries": -1}, ["retries", "-1"]),
        ({"_retries": True}, ["retries", "True"]),
        ({"_retries": "3"}, ["retries", "'3'"]),
        ({"_retries": 10_001}, ["retries", "10001"]),
        ({"_backoff": "linear"}, ["backoff", "'linear'"]),
        ({"_retry_delay": -1}, ["retry_delay", "-1"]),
        ({"_time_limit": 0}, ["time_limit", "0"]),
        ({"_lease": 0}, ["lease", "0"]),
        ({"_expires": -1}, ["expires", "-1"]),
        ({"_keep_result": -1}, ["keep_result", "-1"]),
        ({"_on_failure": "nobody"}, ["'nobody'"]),
        ({"_on_failure": 5}, ["5"]),
        ({"_queue": "no type here"}, ["no type here"]),
        ({"_queue": "a:b"}, ["a:b"]),
        ({"_queue": ""}, ["''"]),
        ({"_queue": 5}, ["5"]),
        ({"_unique": True}, ["_unique", "_name"]),
        ({"_unique": "yes", "_name": "n"}, ["_unique", "'yes'"]),
        ({"_run_anyway": 1}, ["_run_anyway", "1"]),
        ({"_name": ""}, ["_name", "''"]),
        ({"_name": "a\nb"}, ["_name"]),
        ({"_name": "x" * 201}, ["_name"]),
        ({"_name": 5}, ["_name", "5"]),
        ({"_name": "\ud800"}, ["_name"]),
        ({"_tags": "one"}, ["_tags", "'one'"]),
        ({"_tags": ["a,b"]}, ["_tags", "a,b"]),
        ({"_tags": [""]}, ["_tags"]),
        ({"_tags": [5]}, ["_tags", "5"]),
        ({"_tags": 5}, ["_tags", "5"]),
        ({"_tags": ["a"] * 51}, ["_tags"]),
        ({"_id": ""}, ["''"]),
        ({"_id": "a b"}, ["'a b'"]),
        ({"_id": "a@b"}, ["'a@b'"]),
        ({"_id": "-f"}, ["'-f'"]),
        ({"_id": 5}, ["5"]),
        ({"_id": "x" * 129}, ["xxx"]),
        ({"_after": "a b"}, ["'a b'"]),
        ({"_after": 5}, ["_after", "5"]),
        ({"_after": [5]}, ["_after", "5"]),
        ({"_after": {"a": 1}}, ["_after"]),
        ({"_after": "a@nowhere"}, ["nowhere"]),
        ({"_after": [str(i) for i in range(501)]}, ["501", "500"]),
        ({"_dealy": 5}, ["'_dealy'"]),
        ({"_process": True}, ["'_process'"]),
        ({"_": 1}, ["'_'"]),
    ],
)
def test_options_of_a_call(
    step: qdeck.Task[Any, Any], raw: redis.Redis, options: dict[str, Any], words: list[str]
) -> None:
    step.enqueue(0)
    refused(raw, qdeck.QdeckError, lambda: step.enqueue(1, **options), *words)
    refused(raw, qdeck.QdeckError, lambda: step.app.enqueue_many([step.call(0), step.call(1, **options)]), *words)


def test_a_misspelt_option_names_its_neighbour(step: qdeck.Task[Any, Any], raw: redis.Redis) -> None:
    assert "'_delay'" in refused(raw, qdeck.InvalidOption, lambda: step.enqueue(1, _dealy=5)).hint
    assert "_priority" in refused(raw, qdeck.InvalidOption, lambda: step.enqueue(1, _x=5)).hint


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"retrys": 3}, ["'retrys'"]),
        ({"priority": 900}, ["900"]),
        ({"time_limit": -1}, ["-1"]),
        ({"queue": "wrong"}, ["wrong"]),
        ({"process": "yes"}, ["process", "'yes'"]),
        ({"name": "no blanks"}, ["'no blanks'"]),
        ({"name": 5}, ["5"]),
        ({"name": ""}, ["''"]),
        ({"on_failure": "a b"}, ["'a b'"]),
    ],
)
def test_options_of_a_task(app: qdeck.App, raw: redis.Redis, options: dict[str, Any], words: list[str]) -> None:
    def function() -> None: ...

    refused(raw, qdeck.QdeckError, lambda: app.task(**options)(function), *words)
    assert not app.tasks


def test_what_cannot_be_a_task(app: qdeck.App, raw: redis.Redis) -> None:
    @app.task
    def once() -> None: ...

    refused(raw, qdeck.InvalidOption, lambda: app.task(name="once")(print), "'once'", "twice")
    refused(raw, qdeck.InvalidOption, lambda: app.task(lambda: None), "<lambda>")
    refused(raw, qdeck.InvalidOption, lambda: app.task(5), "5")  # type: ignore[call-overload]  # wrong on purpose


def test_circles(app: qdeck.App, step: qdeck.Task[Any, Any], raw: redis.Redis) -> None:
    def many(*calls: qdeck.Call) -> Callable[[], object]:
        return lambda: app.enqueue_many([step.call(0), *calls])

    cycle = qdeck.DependencyCycle
    refused(raw, cycle, many(step.call(1, _id="a", _after="a")), "a")
    refused(raw, cycle, lambda: step.enqueue(1, _id="a", _after="a"), "a")
    refused(raw, cycle, many(step.call(1, _id="a", _after="b"), step.call(2, _id="b", _after="a")), "a", "b")
    ring = [step.call(i, _id=f"n{i}", _after=f"n{(i + 1) % 700}") for i in range(700)]
    refused(raw, cycle, many(*ring), "n")
    here = app.queue
    over = step.call(1, _id="a", _after=f"b@{FAR}"), step.call(2, _id="b", _queue=FAR, _after=f"a@{here}")
    refused(raw, cycle, many(*over), "a", "b")
    one = step.call(1, _id="one", _after="two")
    two = step.call(2, _id="two", _after=[one])
    refused(raw, cycle, many(one, two), "one", "two")
    first, last = qdeck.chain(step.call(1, _id="p", _after="q"), step.call(2, _id="q"))
    refused(raw, cycle, many(first, last), "p", "q")


def test_unknown_dependencies(app: qdeck.App, step: qdeck.Task[Any, Any], raw: redis.Redis) -> None:
    known = step.enqueue(0)
    step.enqueue(0, _queue=FAR)
    unknown = qdeck.UnknownDependency
    refused(raw, unknown, lambda: step.enqueue(1, _after="nobody"), "'nobody'", app.queue)
    refused(raw, unknown, lambda: step.enqueue(1, _after=[known, "nobody"]), "'nobody'")
    refused(raw, unknown, lambda: step.enqueue(1, _after=f"nobody@{FAR}"), "'nobody'", FAR)
    refused(raw, unknown, lambda: step.enqueue(1, _after=f"{known.id}@{FAR}"), known.id, FAR)
    refused(raw, unknown, lambda: step.enqueue(1, _after="nobody@new:actions"), "'nobody'", "new:actions")
    calls = [step.call(i) for i in range(1100)]
    refused(raw, unknown, lambda: app.enqueue_many([*calls, step.call(1, _after="nobody")]), "'nobody'")
    far = step.call(1, _queue=FAR)
    refused(raw, unknown, lambda: app.enqueue_many([far, step.call(1, _after=[far, "nobody"])]), "'nobody'")


async def test_the_same_in_asyncio(app: qdeck.App, step: qdeck.Task[Any, Any], raw: redis.Redis) -> None:
    await step.aenqueue(0)
    before = picture(raw)
    with pytest.raises(qdeck.UnknownDependency):
        await step.aenqueue(1, _after="nobody")
    with pytest.raises(qdeck.DependencyCycle):
        await app.aenqueue_many([step.call(1, _id="a", _after="b"), step.call(2, _id="b", _after="a")])
    with pytest.raises(qdeck.PayloadNotSerializable):
        await step.aenqueue(b"x")
    assert picture(raw) == before
    await app.aclose()


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:6379",
        "localhost:6379",
        "redis://localhost:notaport",
        "redis://localhost:99999",
        "redis://:s3cret@localhost:99999/0",
        "redis://[::1",
        "garbage",
        "://",
    ],
)
def test_wrong_urls(url: str) -> None:
    with pytest.raises(qdeck.UsageError) as caught:
        qdeck.App(url, queue="a:actions")
    assert "redis://" in caught.value.hint
    assert "s3cret" not in repr(caught.value) + str(caught.value) + caught.value.hint + repr(caught.value.__cause__)


def test_a_wrong_queue_name() -> None:
    for name in ("", "plain", "a:b", "a::actions", "ä:actions", "a:actions\n", "{a}:actions"):
        with pytest.raises(qdeck.InvalidName) as caught:
            qdeck.App("redis://localhost", queue=name)
        assert caught.value.hint
        assert isinstance(caught.value, ValueError)


def at_once(app: qdeck.App, error: type[Exception]) -> qdeck.QdeckError:
    @app.task
    def step() -> None: ...

    async def in_asyncio() -> None:
        try:
            await step.aenqueue()
        finally:
            await app.aclose()

    found: list[qdeck.QdeckError] = []
    for run in (step.enqueue, lambda: asyncio.run(in_asyncio())):
        began = time.monotonic()
        with pytest.raises(error) as caught:
            run()
        assert time.monotonic() - began < 4.0, "it did not wait for a time-out"
        assert isinstance(caught.value, qdeck.QdeckError)
        assert caught.value.hint
        assert "s3cret" not in "".join(map(str, (caught.value, repr(caught.value), caught.value.hint, repr(app))))
        found.append(caught.value)
    return found[0]


def test_a_refused_port_is_told_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        port = free.getsockname()[1]
        app = qdeck.App(f"redis://:s3cret@127.0.0.1:{port}/0", queue="a:actions")
        assert str(port) in str(at_once(app, qdeck.ServerUnreachable))


def test_a_wrong_password_is_told_at_once(make_server: Callable[..., Server]) -> None:
    server = make_server(password="right")
    host = f"127.0.0.1:{server.port}"
    at_once(qdeck.App(f"redis://:s3cret@{host}", queue="a:actions"), qdeck.NotAllowed)
    at_once(qdeck.App(f"redis://someone:s3cret@{host}", queue="a:actions"), qdeck.NotAllowed)
    at_once(qdeck.App(f"redis://{host}", queue="a:actions"), qdeck.NotAllowed)
