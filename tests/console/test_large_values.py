"""A value of 64 MB is not read to show its job: in lists, on the page, in the side pane and for commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import psutil
import pytest

from core._operations.yard import Yard
from qdeck._engine import keys
from qdeck.adapters.native.list_window import read_stretch
from qdeck.admin import Writer
from support.screens import console, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.commands import Ran

MB: Final = 1024 * 1024
LARGE: Final = 64 * MB
ON_THE_WIRE: Final = 2 * MB
Large = tuple[Yard, str, bytes]
LIMIT: Final = "2,097,152"


@pytest.fixture
def large(url: str, raw: Any) -> Iterator[Large]:
    """A dead letter whose payload, error, result and log are of 64 MB each."""
    yard = Yard(url, raw)
    job = yard.die(1)
    raw.hset(keys.key(yard.queue, "body"), job, b'[["' + b"x" * LARGE + b'"], {}]')
    error = raw.hget(keys.key(yard.queue, "error"), job)
    event = b'{"class":"Boom","message":"m","traceback":"' + b"t" * LARGE + b'"}'
    raw.hset(keys.key(yard.queue, "error"), job, b"1700000000000 failed " + event)
    for part in ("result", "log"):
        raw.hset(keys.key(yard.queue, part), job, b"y" * LARGE)
    yield yard, job, error
    yard.client.close()
    raw.flushall()


class Meter:
    """Bytes that the server sends and memory that this process takes more, from its making on."""

    def __init__(self, raw: Any) -> None:
        self._raw, self._process = raw, psutil.Process()
        self._sent, self._memory = self._read()

    def _read(self) -> tuple[int, int]:
        return self._raw.info("stats")["total_net_output_bytes"], self._process.memory_info().rss

    def check(self) -> None:
        """Raises when much was sent or kept."""
        sent, memory = self._read()
        assert sent - self._sent < ON_THE_WIRE, f"{(sent - self._sent) / MB:.0f} MB were sent"
        assert memory - self._memory < LARGE, f"{(memory - self._memory) / MB:.0f} MB were taken"


@pytest.mark.timeout(120)
def test_reading_a_job_or_a_list_takes_no_large_value(large: Large, url: str, raw: Any) -> None:
    yard, job, _ = large
    with Writer(url) as writer:
        writer.snapshot()
        meter = Meter(raw)
        found = writer.job(yard.queue, job)
        assert (found.payload(), found.log, found.result) == (None, None, None)
        assert found.has_result
        assert found.body_bytes == LARGE + 10
        assert found.problem is not None
        for part in ("payload", "error", "result", "log"):
            assert part in found.problem
        assert LIMIT in found.problem
        [row] = writer.page(yard.queue, state="dead").jobs
        assert row.body is None
        [row] = writer.run(read_stretch(yard.queue, "dead", 0, 50)).jobs
        assert row.body is None
        meter.check()


@pytest.mark.timeout(120)
def test_commands_show_its_size_and_refuse_what_needs_all_of_it(
    large: Large, url: str, raw: Any, qdeck: Callable[..., Ran]
) -> None:
    yard, job, _ = large
    meter = Meter(raw)
    shown = qdeck("job", yard.queue, job, "--json", "--url", url)
    assert shown.code == 0, shown.err
    assert shown.json["payload"] is None
    assert shown.json["payload_bytes"] == LARGE + 10
    assert LIMIT in shown.json["problem"]
    plain = qdeck("job", yard.queue, job, "--url", url)
    assert LIMIT in plain.out
    assert [one["id"] for one in qdeck("dead", "--json", "--url", url).json] == [job]
    assert qdeck("dead", "--url", url).code == 0
    exported = qdeck("dead", "export", "--url", url)
    assert json.loads(exported.out)["id"] == job
    assert exported.code == 1
    assert job in exported.err
    assert LIMIT in exported.err
    edited = qdeck("job", "edit", yard.queue, job, "--payload", "/dev/null", "--url", url)
    assert edited.code not in (0, 1)
    assert LIMIT in edited.err
    meter.check()
    retried = qdeck("dead", "retry", yard.queue, "--yes", "--json", "--url", url)
    assert retried.json["applied"] == 1, retried.err
    assert raw.hstrlen(keys.key(yard.queue, "body"), job) == LARGE + 10


@pytest.mark.timeout(120)
async def test_screens_take_no_large_payload(large: Large, url: str, raw: Any) -> None:
    yard, job, error = large
    raw.hset(keys.key(yard.queue, "error"), job, error)  # by which the screen finds the entries of a group
    async with console(url) as pilot:
        meter = Meter(raw)
        await pilot.press("4")
        await until(pilot, "not read: over")
        await pilot.press("tab", "enter")
        await until(pilot, "not read: over")
        meter.check()
