"""Every stored field of qdeck's own, broken one by one: the queue beside it is read, judged and tended as before, and
what is broken is reported.

The slow parts try a sample, about every fifth break, in which every field and every value occurs; `QDECK_FUZZ=all`
tries them all, which takes half an hour.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from qdeck._engine import keys
from qdeck._server import native_queues
from support.agents import running
from support.breaking import BROKEN, HEALTHY, JSON, Break, Image, breaks, broken, fill, whole_or_sample
from support.broken_looks import is_no_crash, look

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

CASES: Final = 16  # in the quick run
ONE_IN: Final = 10  # values of a field, in the slow one; each field has at least one
PARTS: Final = 4
WITH_AGENT: Final = 8  # each of so many is also given to an agent
# What an issue told, and what stopped everything before.
NAMED: Final = (
    (f"{{{BROKEN}}}:ready", "score inf"), (f"{{{BROKEN}}}:running", "score inf"), (f"{{{BROKEN}}}:done", "score -inf"),
    (f"{{{BROKEN}}}:lease", "exponent"), (f"{{{BROKEN}}}:error", "brackets"), (f"{{{BROKEN}}}:meta", "huge"),
    (f"{{{BROKEN}}}:head", "type zset"), (f"{{{BROKEN}}}:outbox", "type string"), ("qdeck:history", "nan"),
    ("qdeck:workers", "type list"), ("{qdeck:messages}:about", "word"), ("{qdeck:messages}:metrics", "huge"),
    ("qdeck:agent:{qdeck:maintain}", "huge"), ("qdeck:agent:{qdeck:maintain}", "infinity"),
    ("qdeck:agent:{qdeck:maintain}", "type string"),
)  # fmt: skip
LOOKS: Final = (
    ["status"], ["jobs", HEALTHY], ["jobs", BROKEN], ["dead"], ["dead", "--group"], ["stuck"], ["health"], ["doctor"],
    ["find", "{id}"], ["job", HEALTHY, "{id}"], ["job", BROKEN, "{other}"], ["purge"], ["workers"],
    ["schedule", "list"], ["activity"], ["queues"], ["clean", "task_1", "--dry-run"], ["clean", "--orphans"],
)  # fmt: skip
# These ask for one thing by name, or tell by their exit code that something was left out: what is broken may fail them.
MAY_FAIL: Final = (["jobs", BROKEN], ["job", BROKEN], ["purge"], ["clean"], ["schedule"], ["workers"], ["activity"])


@pytest.fixture
def filled(url: str, raw: redis.Redis) -> Iterator[tuple[str, Any, dict[str, str], Image]]:
    ids = fill(url, raw)
    yield url, raw, ids, Image(raw)
    raw.flushall()


def words_of(words: list[str], ids: dict[str, str]) -> list[str]:
    return [word.format(id=ids[HEALTHY], other=ids[BROKEN]) for word in words]


def must_be_reported(one: Break) -> bool:
    """Whether health names what is broken; what is left out is opaque, found by another rule, or of an agent's run."""
    key, part = one.key.decode(), one.key.rpartition(b":")[2].decode()
    ours = key.startswith(("qdeck:", "{qdeck:"))
    if one.value.startswith("type "):
        return ours or (key.startswith("{") and ":history:" not in key and ":undo:" not in key)
    if one.value.startswith("score "):
        return one.value != "score 0.5" and (one.value != "score -5" or not ours)
    if one.value.startswith(("field ", "member ", "object ")) or one.field == b"":
        return False
    if part == "meta" and not ours:
        field = (one.field or b"").decode()
        return field in native_queues._FIELDS and field != "paused" and not (one.value == "empty" and field != "v")
    if not ours:
        return part in ("head", "lease") or (part in ("attempts", "error") and one.value != "empty")
    if key.startswith("qdeck:agent:"):
        return (one.field or b"").startswith(b"n:") or one.field in (b"until", b"started", b"ended", b"runs", b"token")
    return key != "qdeck:health" and not (key == "qdeck:since" and (one.value == "deep" or "json" in one.value))


def check(
    filled: tuple[str, Any, dict[str, str], Image],
    one: Break,
    before: dict[str, tuple[int, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Reading goes on, and what is broken is reported."""
    url, _, ids, _ = filled
    for words in LOOKS:
        code, said, told = look(url, words_of(words, ids), capsys)
        where = f"{one}: {' '.join(words)}: {told[-400:]}"
        assert is_no_crash(told), where
        if not any(words[: len(some)] == some for some in MAY_FAIL):
            names_it = words[0] in ("status", "health", "doctor") or "cannot be read" in told or "left out" in told
            known = {before[" ".join(words)][0]} | ({1} if names_it else set())
            assert code in known, where
            if one.key not in (b"qdeck:workers", b"qdeck:control", b"qdeck:queues") and words[0] != "doctor":
                assert said == before[" ".join(words)][1], where
        if words[0] == "health" and must_be_reported(one):
            assert code in (0, 1), where
            name = BROKEN if one.key.startswith(b"{%s}" % BROKEN.encode()) else one.key.decode()
            reasons = [*json.loads(told.partition("\nqdeck:")[0])["findings"], told.partition("\nqdeck:")[2]]
            assert any(name in str(reason) for reason in reasons), where


def check_agent(filled: tuple[str, Any, dict[str, str], Image], one: Break) -> None:
    """The expired lease of the healthy queue is recovered, and /metrics answers."""
    url, raw, _, _ = filled

    async def tended() -> tuple[int, int, list[Any]]:
        async with running(url, maintain_every=0.05, history_every=0.05, clean_every=0.05, health_every=0.05) as agent:
            await agent.until(lambda: raw.zcard(keys.key(HEALTHY, "running")) == 0, 15)
            asked = [await agent.ask(path) for path in ("/metrics", "/api/v1/queue/health")]
            return asked[0].code, asked[1].code, [told for told in agent.events if told["event"] == "failed"]

    assert raw.zcard(keys.key(HEALTHY, "running")) > 0
    metrics, health, failed = asyncio.run(tended())
    assert (metrics, health) == (200, 200), (str(one), failed)
    assert not [told for told in failed if "Error: " in told.get("error", "")], (str(one), failed)


def baseline(
    filled: tuple[str, Any, dict[str, str], Image], capsys: pytest.CaptureFixture[str]
) -> dict[str, tuple[int, Any]]:
    url, _, ids, _ = filled
    return {" ".join(words): look(url, words_of(words, ids), capsys)[:2] for words in LOOKS}


def is_named(one: Break) -> bool:
    return one.field != b"" and (one.key.decode(), one.value) in NAMED


@pytest.mark.timeout(240)
def test_a_broken_field_stops_nothing_beside_it(
    filled: tuple[str, Any, dict[str, str], Image], capsys: pytest.CaptureFixture[str]
) -> None:
    """Return the values that once stopped every command, and a sample of all others."""
    _, raw, _, image = filled
    before = baseline(filled, capsys)
    every = list(breaks(raw))
    first = {(one.key, one.value): one for one in every if is_named(one)}
    assert len(first) >= len(NAMED) - 1  # there may be nothing in an outbox
    some = random.Random(7).sample(every, CASES)
    for one in [*first.values(), *some]:
        with broken(raw, image, one):
            check(filled, one, before, capsys)
    for one in first.values():
        with broken(raw, image, one):
            check_agent(filled, one)


def test_a_sample_has_every_field_and_every_value(
    filled: tuple[str, Any, dict[str, str], Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QDECK_FUZZ", raising=False)
    every = list(breaks(filled[1]))
    some = whole_or_sample(every, ONE_IN)
    assert len(some) < len(every) / 4
    assert {(one.key, one.field) for one in some} == {(one.key, one.field) for one in every}
    assert {value_of(one) for one in some} == {value_of(one) for one in every}
    monkeypatch.setenv("QDECK_FUZZ", "all")
    assert whole_or_sample(every, ONE_IN) == every


def value_of(one: Break) -> str:
    """The hostile value, whatever field of a JSON object has it."""
    if not one.value.startswith("object "):
        return one.value
    return "object " + max((name for name in JSON if one.value.endswith(f" {name}")), key=len)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_broken_field_stops_nothing_beside_it(
    filled: tuple[str, Any, dict[str, str], Image], part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    _, raw, _, image = filled
    before = baseline(filled, capsys)
    for number, one in enumerate(whole_or_sample(breaks(raw), ONE_IN)[part::PARTS]):
        with broken(raw, image, one):
            check(filled, one, before, capsys)
            if number % WITH_AGENT == 0:
                check_agent(filled, one)
