"""An adapter as another project would write it, from the page on writing one alone, in the conformance suite."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from qdeck.adapters import Adapter, Outcome, raw_of
from qdeck.admin import Writer
from qdeck.testing.adapters import Conformance, contents

if TYPE_CHECKING:
    import redis

    from qdeck.admin import Entry

MODULE: Final = Path(__file__).parent / "minq" / "qdeck_minq.py"
FAILED_MS: Final = 1_795_000_000_000
MOST_LINES: Final = 200


def load() -> Any:
    """Return the module of that project."""
    spec = importlib.util.spec_from_file_location("qdeck_minq", MODULE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_short() -> None:
    assert len(MODULE.read_text("utf-8").splitlines()) < MOST_LINES


def put(raw: redis.Redis, job: bytes, **fields: Any) -> None:
    record = {"task": "mail", "args": json.dumps({"to": 1}), "tries": 0, "created": FAILED_MS, **fields}
    raw.hset(b"minq:job:" + job, mapping=record)  # type: ignore[arg-type] # its values are text and numbers


class TestMinq(Conformance):
    adapter = "minq"

    def make(self) -> Adapter:
        made = load().Minq()
        assert isinstance(made, Adapter)
        return made

    def populate(self, raw: redis.Redis) -> None:
        raw.sadd("minq:queues", "mail", "empty", b"\xff")
        for job in (b"w1", b"w2", b"w3", b"\xfe"):
            put(raw, job)
            raw.lpush("minq:mail:wait", job)
        put(raw, b"f1", error="ValueError: bad input", tries=3)
        put(raw, b"f2", error="timeout", args="no json {", tries="x")
        put(raw, b"f3", error="KeyError: 'password=hunter2'", args=json.dumps({"password": "hunter2"}))
        raw.hdel("minq:job:f3", "tries")
        for at, job in enumerate((b"f1", b"f2", b"f3", b"gone")):
            raw.zadd("minq:mail:failed", {job: FAILED_MS + at})
        raw.lpush("minq:mail:wait", "w-gone", "w-str", "w-part")
        raw.set("minq:job:w-str", "x")
        raw.hset("minq:job:w-part", "created", "yesterday")
        put(raw, b"o1")
        raw.lpush(b"minq:\xff:wait", "o1")
        put(raw, b"o2", error="ValueError: \xff")
        put(raw, b"old", error="OSError: x")
        raw.zadd("minq:mail:failed", {"old": FAILED_MS - 90 * 86_400_000})
        raw.zadd(b"minq:\xff:failed", {"o2": 5.5, "inf": "inf"})

    def take(self, raw: redis.Redis, entry: Entry) -> None:
        assert raw.lrem("minq:mail:wait", -1, entry.id) == 1

    def end(self, raw: redis.Redis, entry: Entry, *, well: bool) -> Outcome:
        job = b"minq:job:" + raw_of(entry.id)
        if well:
            raw.delete(job)
            return Outcome.DONE
        raw.hset(job, mapping={"error": "ValueError: again"})
        raw.zadd(f"minq:{entry.queue}:failed", {entry.id: FAILED_MS + 10 * 86_400_000})
        return Outcome.DEAD


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project as one that is installed."""
    told = tmp_path / "qdeck_minq-0.1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: qdeck-minq\nVersion: 0.1\n")
    (told / "entry_points.txt").write_text("[qdeck.adapters]\nminq = qdeck_minq:Minq\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(MODULE.parent))


@pytest.mark.usefixtures("installed")
def test_equal_jobs_of_a_list_are_told_apart_and_come_back_where_they_were(url: str, raw: redis.Redis) -> None:
    raw.sadd("minq:queues", "mail")
    for job in (b"x", b"y"):
        put(raw, job)
    raw.rpush("minq:mail:wait", "x", "y", "x", "x")
    before = contents(raw)
    with Writer(url, adapters=("minq",)) as writer:
        found = writer.apply(writer.plan("discard", "mail", ids=["y"]))
        assert (found.applied, raw.lrange("minq:mail:wait", 0, -1)) == (1, [b"x", b"x", b"x"])
        assert writer.undo().restored == 1
    assert contents(raw) == before
