"""Who paused a queue, when and why; and which queues only one worker serves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from qdeck import InvalidOption, UsageError
from qdeck._redis import reads
from qdeck.admin import NATIVE, Pause, QueueRef, WorkerRow, Writer, actor, served_only_by

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck.adapters import Program

QUEUE = "demo:mail:actions"


def pause_of(writer: Writer) -> Pause | None:
    """The same from the list of queues and from the queue itself."""
    [row] = writer.snapshot().queues
    assert row.pause == writer.pause_of(QUEUE)
    assert row.paused is (row.pause is not None)
    return row.pause


def test_who_paused_a_queue_when_and_why(url: str) -> None:
    began_ms = time.time_ns() // 1_000_000
    with Writer(url) as writer:
        writer.enqueue(QUEUE, "send", [1])
        assert pause_of(writer) is None
        assert writer.pause(QUEUE, reason="INC-42: password=hunter2 leaks").changed
        pause = pause_of(writer)
        assert pause is not None
        assert (pause.who, pause.at_ms is not None and pause.at_ms >= began_ms - 1000) == (actor(), True)
        assert pause.reason.startswith("INC-42")
        assert "hunter2" not in pause.reason
        assert not writer.pause(QUEUE).changed, "a pause without a reason keeps the reason that stands"
        assert pause_of(writer) == pause
        with pytest.raises(UsageError, match=rf"{QUEUE} is paused already by {actor()}, 0s ago: INC-42"):
            writer.pause(QUEUE, reason="INC-43")
        assert pause_of(writer) == pause, "a reason is not replaced unseen"
        assert writer.pause(QUEUE, reason="INC-43", replaces=pause).changed
        assert (pause_of(writer) or pause).reason == "INC-43"
        assert [row.reason for row in writer.activity() if row.verb == "pause"][-1] == "INC-43"
        assert writer.resume(QUEUE).changed
        assert not writer.resume(QUEUE).changed
        assert pause_of(writer) is None


def test_only_the_pause_that_was_shown_is_resumed(url: str) -> None:
    with Writer(url) as writer:
        writer.enqueue(QUEUE, "send", [1])
        writer.pause(QUEUE, reason="INC-42")
        shown = pause_of(writer)
        assert shown is not None
        writer.resume(QUEUE)
        writer.pause(QUEUE, reason="INC-43")
        with pytest.raises(UsageError, match=rf"{QUEUE} was paused again by {actor()}, 0s ago: INC-43"):
            writer.resume(QUEUE, shown=shown)
        stands = pause_of(writer)
        assert stands is not None
        assert stands.reason == "INC-43"
        assert writer.resume(QUEUE, shown=stands).changed
        assert not writer.resume(QUEUE, shown=stands).changed


def test_a_pause_at_the_same_moment_is_not_replaced(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another operator pauses, or pauses again, between the read and the write of this one."""
    read = reads.clock

    def others(program: str) -> Callable[[], Program[int]]:
        def clock() -> Program[int]:
            monkeypatch.setattr(reads, "clock", read)
            with Writer(url) as other:
                other.resume(QUEUE)
                other.pause(QUEUE, reason=program)
            return (yield from read())

        return clock

    with Writer(url) as writer:
        writer.enqueue(QUEUE, "send", [1])
        monkeypatch.setattr(reads, "clock", others("INC-1"))
        with pytest.raises(UsageError, match=r"paused already .*: INC-1"):
            writer.pause(QUEUE, reason="INC-42")
        shown = pause_of(writer)
        monkeypatch.setattr(reads, "clock", others("INC-2"))
        with pytest.raises(UsageError, match=r"paused already .*: INC-2"):
            writer.pause(QUEUE, reason="INC-42", replaces=shown)


def test_a_reason_has_an_end(url: str) -> None:
    with Writer(url) as writer:
        writer.enqueue(QUEUE, "send", [1])
        with pytest.raises(InvalidOption, match="501 characters"):
            writer.pause(QUEUE, reason="a" * 501)
        assert pause_of(writer) is None


@pytest.mark.parametrize("raw_value", [b"1", b"[1]", b"{", b'{"who": 7, "at_ms": "x", "reason": null}', b"\xff"])
def test_a_pause_of_unknown_origin(url: str, raw: redis.Redis, raw_value: bytes) -> None:
    with Writer(url) as writer:
        writer.enqueue(QUEUE, "send", [1])
        raw.hset(f"{{{QUEUE}}}:meta", "paused", raw_value)
        assert pause_of(writer) == Pause()


def test_queues_that_only_one_worker_serves() -> None:
    def worker(id: str, *queues: str, **more: object) -> WorkerRow:
        return WorkerRow(**{"id": id, "alive": True, "state": "running", "queues": dict.fromkeys(queues, 1), **more})  # type: ignore[arg-type]

    rows = [
        worker("a", "mail", "search", "hooks"), worker("b", "search"), worker("c", "hooks", state="quiet"),
        worker("d", "mail", adapter="sidekiq"), worker("e", "mail", alive=False), worker("f", "mail", requested="stop"),
    ]  # fmt: skip
    assert served_only_by("a", rows) == [QueueRef(NATIVE, "mail"), QueueRef(NATIVE, "hooks")]
    assert served_only_by("d", rows) == [QueueRef("sidekiq", "mail")]
    assert served_only_by("c", rows) == []
    assert served_only_by("e", rows) == []
    alone = [worker("e", "mail", alive=False), worker("f", "mail", requested="stop"), worker("g", "mail", alive=False)]
    for name in "efg":
        assert served_only_by(name, alone) == [QueueRef(NATIVE, "mail")], "the others are lost, or are about to stop"
