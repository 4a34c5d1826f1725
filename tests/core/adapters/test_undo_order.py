"""An undo puts entries of a list back where they were: all of them, some, and one after the other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from qdeck.admin import Writer

if TYPE_CHECKING:
    import redis

QUEUE: Final = "shop:mail:actions"
LIST: Final = f"{QUEUE}:dead_letter"


def fill(raw: Any, *, are_equal: bool = False) -> list[bytes]:
    for number in range(6):
        raw.rpush(LIST, json.dumps({"action_id": f"a{0 if are_equal else number}", "action_type": "t"}))
    found: list[bytes] = raw.lrange(LIST, 0, -1)
    return found


@pytest.mark.parametrize("verb", ["discard", "retry"])
@pytest.mark.parametrize("picked", [(0, 1, 2), (3, 4, 5), (1, 3, 4), (5, 0), (2,), ()])
def test_of_one_batch(url: str, raw: redis.Redis, verb: str, picked: tuple[int, ...]) -> None:
    before = fill(raw)
    with Writer(url) as writer:
        result = writer.apply(writer.plan(verb, ids=[f"a{number}" for number in picked]))
        assert result.applied == (len(picked) or 6)
        assert raw.lrange(LIST, 0, -1) != before
        back = writer.undo()
    assert (back.restored, back.skipped) == (result.applied, ())
    assert raw.lrange(LIST, 0, -1) == before


def test_of_equal_entries(url: str, raw: redis.Redis) -> None:
    before = fill(raw, are_equal=True)
    with Writer(url) as writer:
        writer.apply(writer.plan("discard"))
        writer.undo()
    assert raw.lrange(LIST, 0, -1) == before


def test_of_three_batches_the_last_one_first(url: str, raw: redis.Redis) -> None:
    before = fill(raw)
    with Writer(url) as writer:
        done = [writer.apply(writer.plan("discard", ids=[name])).batch for name in ("a1", "a2", "a4")]
        assert raw.llen(LIST) == 3
        for batch in reversed(done):
            writer.undo(batch)
    assert raw.lrange(LIST, 0, -1) == before
