"""A user who lacks one command of a script is refused before the script writes; a repeat with the right completes."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import pytest

from core._engine.harness import LEASE_MS, OTHER, QUEUE, Rig
from qdeck import NotAllowed
from qdeck._engine import programs, scripts, transitions
from qdeck._redis import AsyncClient, Endpoint, SyncClient
from qdeck._redis.scripts import check_rights, commands_of, plain
from qdeck._schedules import store
from qdeck.admin import Definition
from support.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from qdeck.admin import Program

    Make = Callable[[], Program[Any]]
    """Makes a program anew each time."""

READS: Final = {"time", "type", "exists", "llen", "lrange", "xlen", "xrange"} | {
    "hget", "hgetall", "hmget", "hkeys", "hscan", "hlen", "hexists", "hstrlen", "zscore", "zmscore", "zcard", "zcount",
    "zrange", "zrank", "zrevrange", "zrangebyscore", "zrevrangebyscore",
}  # fmt: skip


def _enqueue(rig: Rig) -> Make:
    return lambda: programs.enqueue(QUEUE, [rig.job("new")], rig.now)


def _enqueue_two(rig: Rig) -> Make:
    return lambda: programs.enqueue(QUEUE, [rig.job("new"), rig.job("more")], rig.now)


def _enqueue_linked(rig: Rig) -> Make:
    parent = rig.add("parent")
    return lambda: programs.enqueue(
        QUEUE, [rig.job("new", unique="one", after=[parent]), rig.job("late", delay_ms=9)], rig.now
    )


def _poll(rig: Rig) -> Make:
    rig.add("ends", on_failure=f"mend {OTHER}")
    rig.add("waits", queue=OTHER, after=[f"ends@{QUEUE}"])
    rig.deliver(OTHER)
    job = rig.claim_one()
    rig.add("next")
    ending = transitions.Ending(kind="failed", id=job.id, token=job.token, delay_ms=-1, event=b'{"class":"Boom"}')
    return lambda: programs.call(
        transitions.poll(QUEUE, "w1", 99, now=rig.now, free_slots=1, lease_ms=LEASE_MS, endings=[ending])
    )


def _beat(rig: Rig) -> Make:
    rig.add("runs")
    job = rig.claim_one()
    rig.tick(500)
    return lambda: programs.call(transitions.renew_leases(QUEUE, [(job.id, job.token)], rig.now))


def _reap(rig: Rig) -> Make:
    rig.add("lost")
    rig.claim_one()
    rig.tick(LEASE_MS + 1)
    rig.reap()
    rig.tick(LEASE_MS)
    return lambda: programs.call(transitions.reap(QUEUE, now=rig.now))


def _settle(rig: Rig) -> Make:
    rig.add("parent", queue=OTHER)
    rig.add("child", after=[f"parent@{OTHER}"])
    rig.deliver()
    rig.work("parent", queue=OTHER)
    return lambda: programs.deliver(OTHER, rig.now)


def _accept(rig: Rig) -> Make:
    rig.add("ends", queue=OTHER, on_failure=f"mend {QUEUE}")
    rig.bury(rig.claim_one(queue=OTHER), queue=OTHER)
    return lambda: programs.deliver(OTHER, rig.now)


def _trim(rig: Rig) -> Make:
    rig.configure(dead_ttl="1")
    rig.add("old")
    rig.bury(rig.claim_one())
    rig.tick(10**9)
    return lambda: programs.call(transitions.trim(QUEUE, rig.now))


def _quarantine(rig: Rig) -> Make:
    rig.raw.xadd(f"{{{QUEUE}}}:outbox", {"k": "nonsense"}, id="1-1")
    return lambda: programs.call(transitions.quarantine(QUEUE, b"1-1", "why", rig.now))


def _tick(rig: Rig) -> Make:
    definition = Definition.of("often", QUEUE, rig.job("x"), cron="* * * * *")
    return lambda: store.tick(definition, 0, [rig.now // 1000], rig.now // 1000)


MAKE: Final[dict[str, tuple[str, Callable[[Rig], Make]]]] = {
    "enqueue": ("enqueue", _enqueue),
    "enqueue two": ("enqueue", _enqueue_two),
    "enqueue_linked": ("enqueue_linked", _enqueue_linked),
    "poll": ("poll", _poll),
    "renew_leases": ("heartbeat", _beat),
    "reap": ("reap", _reap),
    "release": ("dependents", _settle),
    "accept": ("accept", _accept),
    "trim": ("trim", _trim),
    "quarantine": ("quarantine", _quarantine),
    "tick": ("tick", _tick),
}


def writes_of(name: str) -> list[str]:
    """The commands of a script that change something."""
    script = scripts.load("_schedules/tick" if name == "tick" else name)
    used = {word.lower() for word in commands_of(script.source.decode())}
    return sorted(used - READS)


CASES: Final = [(case, command) for case, (name, _) in MAKE.items() for command in writes_of(name)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(args=("--enable-debug-command", "local")) as made:
        yield made


def as_user(server: Server, raw: redis.Redis, denied: str) -> SyncClient:
    raw.execute_command("ACL", "SETUSER", "op", "reset", "on", ">pw", "~*", "&*", "+@all", f"-{denied}")
    return SyncClient(Endpoint(server.url.replace("redis://", "redis://op:pw@")))


@pytest.fixture
def rig(server: Server) -> Iterator[Rig]:
    with server.client() as raw:
        raw.flushall()
        made = Rig(server.url, raw)
        for queue in (QUEUE, OTHER):
            made.add(f"first of {queue}", queue=queue)
            made.work(f"first of {queue}", queue=queue)
        yield made
        made.client.close()


@pytest.mark.parametrize(("case", "denied"), CASES)
def test_a_script_is_refused_whole_and_a_repeat_completes(server: Server, rig: Rig, case: str, denied: str) -> None:
    make = MAKE[case][1](rig)
    before = all_keys(rig.raw)
    client = as_user(server, rig.raw, denied)
    with pytest.raises(NotAllowed, match=rf"\b{denied}\b"):
        client.run(make())
    assert all_keys(rig.raw) == before
    rig.raw.execute_command("ACL", "SETUSER", "op", f"+{denied}")
    client.run(make())
    assert all_keys(rig.raw) != before
    rig.check()
    client.close()


async def test_an_asyncio_client_is_refused_too(server: Server, rig: Rig) -> None:
    as_user(server, rig.raw, "hincrby").close()
    client = AsyncClient(Endpoint(server.url.replace("redis://", "redis://op:pw@")))
    with pytest.raises(NotAllowed, match="hincrby"):
        await client.run(programs.enqueue(QUEUE, [rig.job("new")], rig.now))
    rig.raw.execute_command("ACL", "SETUSER", "op", "+hincrby")
    [made] = await client.run(programs.enqueue(QUEUE, [rig.job("new")], rig.now))
    assert made.created
    rig.check()
    await client.close()


PLAIN: Final = ["_agent/maintenance"] + [
    f"messages/{file.name.removesuffix('.lua')}"
    for file in resources.files("qdeck").joinpath("messages", "lua").iterdir()
    if file.name.endswith(".lua")
]


@pytest.mark.parametrize("name", PLAIN)
def test_the_server_knows_each_command_that_is_asked_about(server: Server, rig: Rig, name: str) -> None:
    """Commands with a second word too, such as `memory|usage`: the rule for it is the one that the error names."""
    script = plain(name)
    client = as_user(server, rig.raw, "flushall")
    client.run(check_rights(script, b"key"))
    for command in script.commands:
        rig.raw.execute_command("ACL", "SETUSER", "op", f"-{command}")
    with pytest.raises(NotAllowed) as refused:
        client.run(check_rights(script, b"key"))
    assert refused.value.hint.startswith(f"Give this user {' '.join(f'+{command}' for command in script.commands)};")
    client.close()


def test_rights_are_checked_once_for_each_connection(server: Server, rig: Rig) -> None:
    client = as_user(server, rig.raw, "flushall")
    rig.raw.config_resetstat()
    for number in range(20):
        client.run(programs.enqueue(QUEUE, [rig.job(f"new{number}")], rig.now))
    asked = rig.raw.info("commandstats")
    assert [asked[f"cmdstat_{name}"]["calls"] for name in ("eval", "evalsha")] == [1, 20]
    rig.raw.execute_command("ACL", "SETUSER", "op", "-zadd")
    rig.raw.execute_command("CLIENT", "KILL", "USER", "op")
    with pytest.raises(NotAllowed, match="zadd"):
        client.run(programs.enqueue(QUEUE, [rig.job("late")], rig.now))
    rig.check()
    client.close()


def test_a_user_without_eval_is_served_without_the_question(server: Server, rig: Rig) -> None:
    client = as_user(server, rig.raw, "eval")
    rig.raw.config_resetstat()
    for number in range(20):
        client.run(programs.enqueue(QUEUE, [rig.job(f"new{number}")], rig.now))
    asked = rig.raw.info("commandstats")
    assert asked["cmdstat_eval"]["rejected_calls"] == 1  # Not once for each call.
    assert asked["cmdstat_evalsha"]["calls"] == 20
    rig.check()
    client.close()


def test_what_a_user_may_not_run_is_named_with_the_rule_that_allows_it(server: Server, rig: Rig) -> None:
    client = as_user(server, rig.raw, "hset")
    rig.raw.execute_command("ACL", "SETUSER", "op", "-zadd")
    with pytest.raises(NotAllowed) as refused:
        client.run(programs.enqueue(QUEUE, [rig.job("new")], rig.now))
    assert "hset, zadd" in str(refused.value)
    assert "+hset +zadd" in refused.value.hint
    client.close()


def test_a_refusal_inside_a_script_is_not_allowed_too(server: Server, rig: Rig) -> None:
    """Rights that are taken away under a connection are found in the middle; the error names the right all the same."""
    client = as_user(server, rig.raw, "flushall")
    client.run(programs.enqueue(QUEUE, [rig.job("new")], rig.now))
    rig.raw.execute_command("ACL", "SETUSER", "op", "-hsetnx")
    with pytest.raises(NotAllowed, match="hsetnx"):
        client.run(programs.enqueue(QUEUE, [rig.job("newer")], rig.now))
    client.close()


def all_keys(raw: redis.Redis) -> dict[bytes, bytes]:
    """All keys, to the byte."""
    return {key: raw.execute_command("DEBUG", "DIGEST-VALUE", key)[0] for key in sorted(raw.scan_iter())}
