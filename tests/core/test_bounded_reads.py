"""What reading asks of a server is bounded: no command takes a whole list, and no list of jobs takes large payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from core.test_broken_values import LOOKS
from operations.yard import Yard
from qdeck._deck.deck import Deck
from qdeck._deck.window import read_stretch
from qdeck._engine import keys
from qdeck_console.__main__ import main
from support.breaking import BROKEN, HEALTHY, fill
from support.listening import listening

if TYPE_CHECKING:
    import redis

MOST: Final = 20_001  # entries in one range: the jobs whose tasks health counts
SCANNED: Final = 6_000  # keys or fields in one step of a scan
WHOLE: Final = ("SMEMBERS", "KEYS", "HVALS", "LRANGE", "SORT", "SUNION", "SINTER")
BOUNDED: Final = (b":groups", b"qdeck:schedules", b":state", b":metrics", b"qdeck:agent:", b"qdeck:health")


def too_much(words: list[bytes]) -> bool:
    """Whether a command may answer with any number of entries."""
    name = words[0].decode().upper()
    if len(words) > 1 and words[1].startswith(b"{qdeck:doctor}"):
        return False  # keys that nobody has: only whether it may be asked matters
    if name in ("SCAN", "HSCAN", "SSCAN", "ZSCAN"):
        upper = [word.upper() for word in words]
        return b"COUNT" in upper and int(words[upper.index(b"COUNT") + 1]) > SCANNED
    if name in ("ZRANGE", "ZREVRANGE"):
        first, last = words[2].lstrip(b"("), words[3]
        if not (first.lstrip(b"-").isdigit() and last.lstrip(b"-").isdigit()):
            return b"LIMIT" not in [word.upper() for word in words]
        return int(last) < 0 <= int(first) or int(last) - int(first) >= MOST
    if name in ("ZRANGEBYSCORE", "ZREVRANGEBYSCORE", "ZRANGEBYLEX"):
        return b"LIMIT" not in [word.upper() for word in words]
    if name == "HGETALL":
        return not any(known in words[1] for known in BOUNDED)
    return name in WHOLE


def test_the_rule_finds_what_is_unbounded() -> None:
    for text in (
        "SCAN 0 COUNT 2000000",
        "SMEMBERS k",
        "LRANGE k 0 -1",
        "HGETALL {q}:body",
        "ZRANGE k 0 -1",
        "ZRANGEBYSCORE k 0 1",
    ):
        assert too_much(text.encode().split()), text
    for text in ("SCAN 0 COUNT 5000", "HGETALL {q}:groups", "ZRANGEBYSCORE k 0 1 LIMIT 0 5"):
        assert not too_much(text.encode().split()), text


def test_no_command_that_looks_is_unbounded(url: str, raw: redis.Redis) -> None:
    ids = fill(url, raw)
    with listening(url) as heard:
        for look in LOOKS:
            main([word.format(id=ids[HEALTHY], other=ids[BROKEN]) for word in look] + ["--json", "--url", url])
    seen = [[word.encode("utf-8", "replace") for word in text.split(" ")] for _, text in heard]
    assert len(seen) > 100
    found = sorted({b" ".join(words)[:110] for words in seen if too_much(words)})
    assert found == [], found


@pytest.mark.timeout(120)
def test_a_refresh_and_a_list_take_no_large_payload(url: str, raw: Any) -> None:
    yard = Yard(url, raw)
    job = yard.add(1)
    raw.hset(keys.key(yard.queue, "body"), job, b"x" * 64 * 1024 * 1024)
    with Deck(url) as deck:
        deck.status()
        before = raw.info("stats")["total_net_output_bytes"]
        deck.status()
        deck.page(yard.queue, bodies=False)
        deck.look(read_stretch(yard.queue, "ready", 0, 50))
        assert raw.info("stats")["total_net_output_bytes"] - before < 100_000
    yard.client.close()
