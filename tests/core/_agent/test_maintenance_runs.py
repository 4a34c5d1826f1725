"""One claim a run: whoever asks, whenever it crashes, and however often a call is sent."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from qdeck import NotAllowed
from qdeck._redis import Endpoint, SyncClient
from qdeck._server import agent_tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck._server.agent_tasks import TaskClaim
    from support.proxy import FaultProxy
    from support.servers import Server

NOW = 1_800_000_000_000
EVERY = 60_000
LEASE = 15_000
KEY = "qdeck:agent:{qdeck:purge}"


def take(client: SyncClient, agent: str, now: int, *, aligned: bool = False) -> TaskClaim:
    program = agent_tasks.claim("purge", agent, every_ms=EVERY, lease_ms=LEASE, aligned=aligned, now=now)
    return client.run(program)


def end(client: SyncClient, token: int, now: int, **ending: object) -> bool:
    return client.run(agent_tasks.finish("purge", token, agent_tasks.TaskResult(**ending), now=now))  # type: ignore[arg-type]  # as given


def test_a_clock_that_is_set_back_does_not_keep_a_dead_agents_run(client: SyncClient) -> None:
    assert take(client, "a", NOW).token == 1
    assert take(client, "b", NOW - 3_600_000).token == 2


@pytest.mark.parametrize("field", ["token", "until", "started", "runs", "failed", "n:done"])
@pytest.mark.parametrize("value", ["x", "", "9" * 400, "nan", "-1", "1.5"])
def test_a_field_that_somebody_spoiled(client: SyncClient, raw: redis.Redis, field: str, value: str) -> None:
    assert take(client, "a", NOW).token == 1
    assert end(client, 1, NOW + 100)
    raw.hset(KEY, field, value)
    claim = take(client, "b", NOW + EVERY)
    assert claim.token > 0
    assert end(client, claim.token, NOW + EVERY + 1, counters={"done": 2})


def test_one_of_two_gets_the_run(client: SyncClient) -> None:
    first, second = take(client, "a", NOW), take(client, "b", NOW)
    assert (first.token, first.started_ms, second.token, second.wait_ms) == (1, NOW, 0, LEASE)
    assert end(client, first.token, NOW + 100)
    assert take(client, "b", NOW + 200) == agent_tasks.TaskClaim(0, EVERY - 200, NOW + 200, 0)
    assert take(client, "b", NOW + EVERY).token == 2


def test_who_finds_a_run_held_asks_again_when_the_next_is_due(client: SyncClient) -> None:
    def ask(now: int, every: int) -> int:
        return client.run(agent_tasks.claim("purge", "b", every_ms=every, lease_ms=LEASE, now=now)).wait_ms

    take(client, "a", NOW)
    assert ask(NOW + 100, 10_000) == 9_900
    assert ask(NOW + 100, 60_000) == LEASE - 100
    assert ask(NOW + 500, 300) == 1000, "it takes longer than its interval"


def test_runs_keep_their_beat_and_missed_ones_are_not_made_up_for(client: SyncClient) -> None:
    end(client, take(client, "a", NOW).token, NOW + 5)
    late = take(client, "a", NOW + 5 * EVERY + 1234)
    assert late.started_ms == NOW + 5 * EVERY
    end(client, late.token, NOW + 5 * EVERY + 1240)
    assert take(client, "a", NOW + 5 * EVERY + 1250).wait_ms == EVERY - 1250


def test_aligned_runs_start_at_multiples(client: SyncClient) -> None:
    claim = take(client, "a", NOW + 7, aligned=True)
    assert claim.started_ms == NOW - NOW % EVERY
    end(client, claim.token, NOW + 8)
    assert take(client, "a", NOW + 9, aligned=True).wait_ms == claim.started_ms + EVERY - NOW - 9


def test_a_crash_in_the_middle_gives_the_run_to_another_after_the_lease(client: SyncClient) -> None:
    take(client, "a", NOW)
    assert take(client, "b", NOW + LEASE - 1).token == 0
    again = take(client, "b", NOW + LEASE)
    assert (again.token, again.started_ms) == (2, NOW)
    assert end(client, again.token, NOW + LEASE + 1)
    assert take(client, "c", NOW + LEASE + 2).wait_ms == EVERY - LEASE - 2, "the beat is that of the first start"


def test_a_run_that_nobody_ended_for_long_is_done_once(client: SyncClient) -> None:
    take(client, "a", NOW)
    much_later = NOW + 100 * EVERY + 500
    again = take(client, "b", much_later)
    end(client, again.token, much_later + 10)
    assert take(client, "b", much_later + 20).token == 0


def test_who_lost_the_run_changes_nothing_any_more(client: SyncClient, raw: redis.Redis) -> None:
    old = take(client, "a", NOW)
    new = take(client, "b", NOW + LEASE)
    kept = client.run(agent_tasks.renew("purge", old.token, LEASE, now=NOW + LEASE + 1))
    wrote = end(
        client, old.token, NOW + LEASE + 2, counters={"x": 9}, hash_key="qdeck:health", hash_fields={"status": "old"}
    )
    assert (kept, wrote) == (False, False)
    assert raw.hgetall("qdeck:health") == {}
    assert raw.hget(KEY, "n:x") is None
    assert client.run(agent_tasks.renew("purge", new.token, LEASE, now=NOW + LEASE + 3))
    assert end(client, new.token, NOW + LEASE + 4)


def test_renewing_keeps_a_long_run(client: SyncClient) -> None:
    held = take(client, "a", NOW)
    for step in range(1, 20):
        assert client.run(agent_tasks.renew("purge", held.token, LEASE, now=NOW + step * 5000))
        assert take(client, "b", NOW + step * 5000 + 1).token == 0
    assert end(client, held.token, NOW + 100_000)


def test_ending_twice_is_once(client: SyncClient, raw: redis.Redis) -> None:
    held = take(client, "a", NOW)
    for _ in range(3):
        assert end(client, held.token, NOW + 1, counters={"ready_too_old": 7})
    assert (raw.hget(KEY, "n:ready_too_old"), raw.hget(KEY, "runs")) == (b"7", b"1")


def test_a_claim_whose_answer_was_lost_is_one(
    url: str, raw: redis.Redis, make_proxy: Callable[[str], FaultProxy]
) -> None:
    proxy = make_proxy(url)
    client = SyncClient(Endpoint(proxy.url, timeout=0.5), patience=5)
    take(client, "warm", NOW - 10 * EVERY)
    proxy.drop_next_reply(containing=b"EVALSHA")
    held = take(client, "a", NOW)
    assert (held.token, raw.hget(KEY, "token")) == (2, b"2")
    proxy.drop_next_reply(containing=b"EVALSHA")
    assert end(client, held.token, NOW + 1, counters={"x": 1})
    assert raw.hget(KEY, "n:x") == b"1"
    client.close()


def test_a_hash_is_replaced_in_the_step_that_ends_the_run(client: SyncClient, raw: redis.Redis) -> None:
    raw.hset("qdeck:health", "gone", "1")
    held = take(client, "a", NOW)
    end(client, held.token, NOW, hash_key="qdeck:health", hash_fields={"status": "healthy"}, live_ms=3_600_000)
    assert raw.hgetall("qdeck:health") == {b"status": b"healthy"}
    assert 3_500_000 < raw.pttl("qdeck:health") <= 3_600_000


def test_the_clock_of_the_server_set_back_stops_nothing(client: SyncClient) -> None:
    end(client, take(client, "a", NOW + 10 * EVERY).token, NOW + 10 * EVERY)
    assert take(client, "a", NOW).token == 2


def test_what_is_known_of_the_runs(client: SyncClient) -> None:
    held = take(client, "a", NOW)
    end(client, held.token, NOW + 9, outcome="failed", summary={"error": "no"}, counters={"x": 2})
    [slot, never] = client.run(agent_tasks.read(["purge", "health"]))
    assert (slot.holder, slot.held, slot.started_ms, slot.ended_ms) == ("a", False, NOW, NOW + 9)
    assert (slot.outcome, slot.summary, slot.runs, slot.failed, slot.counters) == (
        "failed",
        {"error": "no"},
        0,
        1,
        {"x": 2},
    )
    assert never == agent_tasks.AgentTask(name="health")


def test_who_may_only_read_may_not_claim(reader_url: tuple[str, Server]) -> None:
    client = SyncClient(Endpoint(reader_url[0]))
    with pytest.raises(NotAllowed):
        take(client, "a", 0)
    client.close()


def test_many_that_ask_at_once_get_each_run_once(url: str, raw: redis.Redis) -> None:
    """Eight agents with an interval of 20 ms: every token is one agent's, and no slot is done twice."""
    got: list[tuple[int, int]] = []

    def work(name: str) -> None:
        client = SyncClient(Endpoint(url))
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            claim = client.run(agent_tasks.claim("maintain", name, every_ms=20, lease_ms=5000))
            if claim.token:
                got.append((claim.token, claim.started_ms))
                assert client.run(agent_tasks.finish("maintain", claim.token, agent_tasks.TaskResult()))
        client.close()

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, f"a{n}") for n in range(8)]:
            done.result()
    tokens = sorted(token for token, _ in got)
    assert tokens == list(range(1, len(tokens) + 1))
    assert raw.hget("qdeck:agent:{qdeck:maintain}", "runs") == str(len(tokens)).encode()
    started = sorted(at for _, at in got)
    assert all(b - a >= 20 for a, b in pairwise(started))
    assert len(tokens) > 30
