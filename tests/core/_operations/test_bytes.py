"""Bytes that one request asks of the server are bounded, however small the first values of a page are.

The whole server waits for one call, and keeps its answer in memory until it is read.
"""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, Final

import pytest

from core._operations.yard import OTHER, QUEUE, Yard
from qdeck._engine import keys, transitions
from qdeck_console.__main__ import main
from support.listening import listening

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from qdeck.admin import Writer

SMALL: Final = 150
LARGE: Final = 20
BYTES: Final = 1_200_000  # of each large value: two of them are over the bound
LARGE_PARTS: Final = ("body", "error", "log", "result")


@pytest.fixture
def large(yard: Yard) -> Iterator[list[str]]:
    """Dead letters of which the last ones have large payloads: small values first prove nothing."""
    ids = yard.bulk_dead(SMALL + LARGE)
    for n, job_id in enumerate(ids):
        pad = "x" * (BYTES if n >= SMALL else 10)
        yard.raw.hset(yard.key("body"), job_id, json.dumps([[n], {"x": n % 2, "pad": pad}]))
    yield ids
    yard.client.close()


def run(*words: str) -> tuple[int, str]:
    with redirect_stdout(io.StringIO()) as out:
        code = main(words)
    return code, out.getvalue()


class Requests:
    """What each plain read and each call of a script read of values, by the commands that the server saw."""

    def __init__(self, raw: redis.Redis, queue: str) -> None:
        self._raw: Any = raw
        self._keys = {keys.key(queue, part).decode(): part for part in LARGE_PARTS}
        self._sizes: dict[tuple[str, str], int] = {}
        self.found: list[dict[str, int]] = []  # of each request: job → bytes

    def learn(self) -> None:
        """Note how long the values are now; removed ones stay known."""
        for key in self._keys:
            for job_id in self._raw.hkeys(key):
                size = self._raw.hstrlen(key, job_id)
                known = (key, job_id.decode())
                self._sizes[known] = max(size, self._sizes.get(known, 0))

    def add(self, seen: list[tuple[bool, str]]) -> None:
        """Count commands; those of a script belong to its call."""
        for is_script, text in seen:
            words = text.split(" ")
            name = words[0].upper()
            if not is_script:
                self.found.append({})
            if name in ("HMGET", "HGET") and words[1] in self._keys:
                jobs = self.found[-1]
                for word in words[2:]:
                    if size := self._sizes.get((words[1], word)):
                        jobs[word] = jobs.get(word, 0) + size


@pytest.mark.timeout(180)
def test_no_request_takes_more_than_the_bound_and_one_job(
    yard: Yard, large: list[str], raw: redis.Redis, url: str
) -> None:
    requests = Requests(raw, yard.queue)
    wanted = {job_id for n, job_id in enumerate(large) if n % 2}
    found: dict[str, set[str]] = {}
    requests.learn()
    commands = {
        "jobs": ("jobs", yard.queue, "--state", "dead", "--where", "payload.x:1", "--json"),
        "export": ("dead", "export", "--where", "payload.x:1"),
        "plan": ("dead", "discard", "--where", "payload.x:1", "--dry-run", "--json"),
        "retry": ("dead", "retry", "--where", "payload.x:1", "--yes", "--json"),
        "undo": ("undo", "--yes", "--json"),
        "discard": ("dead", "discard", "--where", "payload.x:1", "--yes", "--json"),
        "undo of the discard": ("undo", "--yes", "--json"),
    }
    left: dict[str, int] = {}
    for name, words in commands.items():
        with listening(url) as seen:
            code, out = run(*words, "--url", url)
        assert code == 0, (name, out[-500:])
        requests.add(seen)
        found[name] = set(re.findall("|".join(large), out))
        left[name] = len(yard.ids("dead"))
    assert found["jobs"] == found["export"] == wanted
    half = (SMALL + LARGE) // 2
    assert left == {
        "jobs": 2 * half, "export": 2 * half, "plan": 2 * half, "retry": half, "undo": 2 * half, "discard": half,
        "undo of the discard": 2 * half,
    }  # fmt: skip
    sizes = [(len(jobs), sum(jobs.values())) for jobs in requests.found if jobs]
    assert max(jobs for jobs, _ in sizes) >= 100, "small ones go together"
    assert [(jobs, size) for jobs, size in sizes if jobs > 1 and size > transitions.SLICE_BYTES] == []


def test_undo_of_a_move_takes_as_many_calls_as_it_needs(writer: Writer, yard: Yard, raw: Any) -> None:
    ids = [yard.add(n) for n in range(4)]
    result = writer.apply(writer.plan("move", QUEUE, target=OTHER))
    assert result.applied == 4
    for job_id in ids:  # moved in one call, and grown where they are since
        raw.hset(keys.key(OTHER, "log"), job_id, b"x" * BYTES)
    back = writer.undo(result.batch)
    assert (back.restored, back.skipped) == (4, ())
    assert yard.ids("ready") == ids
    yard.client.close()
