"""The scripts as such: their keys, their flags, and servers that forget them, are full, or hold something else."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from redis.crc import key_slot

from core._engine.harness import OTHER, QUEUE, Rig
from qdeck import LayoutMismatch, ServerRefused
from qdeck._engine import keys, programs, scripts, transitions

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.servers import Server

# The steps of a queue's life. What an operator's batches add has tests of its own.
LIFE: Final = (
    "enqueue", "enqueue_linked", "poll", "heartbeat", "reap", "dependents", "apply", "trim", "configure", "quarantine",
)  # fmt: skip
NEEDS_ROOM: Final = ("init", "enqueue", "enqueue_linked", "configure")
# A variable or an entry of a table of keys: scripts hold no name of a key as text, so it can only be a declared one.
_INDIRECT: Final = re.compile(r"[a-z]\w*|\w+\[[\w.]+\]")


def every_op(queue: str) -> list[transitions.Transition[Any]]:
    """One call of every script but init."""
    job = transitions.NewJob(id="a", priority=1, template="1 0 t", body=b"")
    return [
        transitions.enqueue(queue, [job]),
        transitions.enqueue(queue, [job._replace(delay_ms=1)]),
        transitions.poll(queue, "w", 1, free_slots=1, lease_ms=1),
        transitions.renew_leases(queue, [("a", "w:1 ")]),
        transitions.reap(queue),
        transitions.release_dependents(queue, "a", "done"),
        transitions.resolve_dependent(queue, "a", "b", "done"),
        transitions.watch_parents(queue, [("a", "b@c")]),
        transitions.change_jobs(queue, "cancel", [("a", "")]),
        transitions.trim(queue),
        transitions.configure(queue, {"paused": "1"}),
        transitions.quarantine(queue, b"1-1", "why"),
    ]


def test_every_script_is_called_here() -> None:
    assert {op.script.name for op in every_op(QUEUE)} == set(LIFE)
    assert set(LIFE) <= set(scripts.NAMES)


@pytest.mark.parametrize("name", scripts.NAMES)
@pytest.mark.parametrize("queue", [QUEUE, "a:b", "shop.eu:prod:x_y-z:actions:dead_letter"])
def test_all_keys_of_a_script_share_a_slot(name: str, queue: str) -> None:
    taken = scripts.load(name).keys(queue)
    assert len(set(taken)) == len(taken) > 0
    assert {key_slot(key) for key in taken} == {key_slot(queue.encode())}


def test_each_part_has_a_key_of_its_own() -> None:
    assert len({keys.key(QUEUE, part) for part in keys.PARTS}) == len(keys.PARTS)
    assert keys.key(QUEUE, "dead") == b"{shop:mail:actions}:dead_letter"
    assert {keys.part_type(part) for part in keys.PARTS} == {"hash", "zset", "list", "stream"}


@pytest.mark.parametrize("name", scripts.NAMES)
def test_a_script_touches_only_the_keys_it_declares(name: str) -> None:
    script = scripts.load(name)
    source = re.sub(r"--[^\n]*|'[^'\n]*'", lambda m: m[0] if m[0].startswith("'") else "", script.source.decode())
    declared = {part.upper() for part in script.parts}
    for command, first in re.findall(r"redis\.call\('(\w+)'(?:, ([\w\[\].]+))?", source):
        assert command == "TIME" or first in declared or _INDIRECT.fullmatch(first), f"{command} {first}"
    assert "{" not in "".join(re.findall(r"'[^'\n]*'", source)).replace("'{\"", ""), "a key written as text"
    words = set(re.findall(r"\b[A-Z]{2,}\b", re.sub(r"'[^']*'", "", source)))
    own = {
        word for line in re.findall(r"\blocal ([\w, ]+?)(?: =|$)", source, re.MULTILINE) for word in line.split(", ")
    }
    assert words <= declared | own | {"KEYS", "ARGV"}, f"names that nobody declares: {words - declared - own}"


@pytest.mark.parametrize("name", scripts.NAMES)
def test_a_script_says_what_it_is(name: str) -> None:
    """`#!lua` makes a cluster refuse foreign slots; `allow-oom` lets a full server still be emptied."""
    lines = scripts.read_source(name).split("\n")
    assert lines[0] == ("#!lua" if name in NEEDS_ROOM else "#!lua flags=allow-oom")
    head = [line for line in lines if line.startswith("-- ")]
    for label in ("-- keys:", "-- uses:", "-- args:"):
        assert any(line.startswith(label) for line in head), label


def test_a_script_that_does_not_name_its_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="keys"):
        scripts.make("bad", "#!lua\n-- uses:\nreturn 1", "")


def test_the_first_call_makes_and_registers_the_queue(rig: Rig) -> None:
    assert rig.claim(1) == []
    assert rig.raw.hget(keys.key(rig.queue, "meta"), "v") == b"2"
    assert rig.raw.hget(keys.QUEUES, rig.queue) is not None
    registered = rig.raw.hget(keys.QUEUES, rig.queue)
    rig.call(transitions.init(rig.queue))
    rig.run(programs.make_queue(rig.queue))
    assert rig.raw.hget(keys.QUEUES, rig.queue) == registered


def test_making_a_queue_leaves_one_that_is_there_alone(loose_rig: Rig) -> None:
    rig = loose_rig
    rig.add()
    rig.configure(limit="3")
    for version in ("1", "2", "3"):
        rig.raw.hset(keys.key(rig.queue, "meta"), mapping={"v": version, "": "padding"})
        rig.call(transitions.init(rig.queue))
        assert rig.raw.hmget(keys.key(rig.queue, "meta"), "v", "", "limit") == [version.encode(), b"padding", b"3"]


def test_the_time_is_the_servers(rig: Rig) -> None:
    """No clock of a producer or a worker decides (reliability 17)."""

    def server_ms() -> int:
        seconds, micros = rig.raw.time()
        return seconds * 1000 + micros // 1000

    rig.now = 0
    before = server_ms()
    rig.add("a")
    job = rig.claim_one(lease_ms=60_000)
    beat = rig.beat(job)
    after = server_ms()
    assert before <= rig.head("a").enqueued_ms <= beat.now_ms <= after
    [(_, deadline)] = rig.picture().zsets["running"]
    assert before + 60_000 <= deadline <= after + 60_000
    assert rig.reap().now_ms >= after


def test_small_hashes_are_tables_from_the_start(rig: Rig) -> None:
    """A short hash would be searched field by field: the padding sees to that."""
    rig.add()
    rig.claim_one()
    for part in ("meta", "head", "body", "lease"):
        assert rig.raw.object("encoding", keys.key(rig.queue, part)) == b"hashtable"


@pytest.mark.parametrize("number", range(len(every_op(QUEUE))))
def test_a_queue_of_a_newer_version_is_left_alone(loose_rig: Rig, number: int) -> None:
    rig = loose_rig
    rig.add("a")
    rig.raw.hset(keys.key(rig.queue, "meta"), "v", "3")
    before = rig.picture()
    with pytest.raises(LayoutMismatch, match="layout 3") as caught:
        rig.call(every_op(rig.queue)[number])
    assert "Upgrade" in caught.value.hint
    assert rig.picture() == before


@pytest.mark.parametrize("part", scripts.load("init").parts)
def test_a_foreign_key_under_our_name_is_refused_and_nothing_is_written(loose_rig: Rig, part: str) -> None:
    rig = loose_rig
    taken = keys.key(rig.queue, part)
    rig.raw.set(taken, "mine")
    with pytest.raises(LayoutMismatch) as caught:
        rig.add()
    assert caught.value.hint
    assert set(rig.raw.keys()) - {keys.QUEUES.encode()} == {taken}
    assert rig.raw.get(taken) == b"mine"


def test_a_server_that_forgets_its_scripts_all_the_time(rig: Rig) -> None:
    """SCRIPT FLUSH in a loop: a failover does that once (reliability 21)."""
    stop = threading.Event()

    def flush() -> None:
        with rig.raw.client() as other:
            while not stop.is_set():
                other.script_flush()
                time.sleep(0.001)

    thread = threading.Thread(target=flush)
    thread.start()
    try:
        for _ in range(60):
            rig.enqueue(*(rig.job() for _ in range(5)))
            jobs = rig.claim(5)
            rig.beat(*jobs)
            rig.ack(*jobs[:4])
            rig.bury(jobs[4])
    finally:
        stop.set()
        thread.join()
    assert rig.sizes() == {"done": 240, "dead": 60}


def test_a_full_server_can_still_be_emptied(make_server: Callable[..., Server]) -> None:
    """No memory for new work, but what runs can end, renew, be taken back and be cleaned up."""
    server = make_server("--maxmemory-policy", "noeviction")
    with server.client() as raw:
        rig = Rig(server.url, raw)
        rig.enqueue(*(rig.job(retries=1) for _ in range(8)))
        rig.add("later", delay_ms=5)
        jobs = rig.claim(6)
        raw.config_set("maxmemory", 1)
        with pytest.raises(ServerRefused, match=r"OOM|memory") as caught:
            rig.add()
        assert "memory" in caught.value.hint
        with pytest.raises(ServerRefused):
            rig.add(delay_ms=5)
        rig.beat(*jobs)
        rig.ack(jobs[0])
        rig.end(jobs[1], "done", result=b"1", log=b"x")
        rig.end(jobs[2], delay_ms=0)
        rig.bury(jobs[3])
        rig.end(jobs[4], "give")
        rig.change("discard", "later")
        rig.crash()
        assert len(rig.claim(9)) == 5
        rig.trim()
        raw.config_set("maxmemory", 0)
        rig.check()
        assert rig.sizes() == {"done": 2, "dead": 1, "running": 5}
        rig.client.close()


def test_the_engine_on_a_cluster_node(make_server: Callable[..., Server]) -> None:
    """A server in cluster mode refuses scripts over several slots; two queues live in two."""
    server = make_server("--cluster-enabled", "yes")
    with server.client() as raw:
        raw.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
        for _ in range(100):
            if b"cluster_state:ok" in raw.execute_command("CLUSTER", "INFO"):
                break
            time.sleep(0.05)
        rig = Rig(server.url, raw)
        assert key_slot(QUEUE.encode()) != key_slot(OTHER.encode())
        rig.add("parent", on_failure=f"mend {OTHER}")
        rig.add("child", queue=OTHER, after=[f"parent@{QUEUE}"])
        rig.deliver(OTHER)
        rig.bury(rig.claim_one())
        rig.deliver()
        for queue in (QUEUE, OTHER):
            for op in every_op(queue):
                rig.call(op)
        assert rig.state("child", OTHER) == "dead"
        rig.client.close()


def test_claims_are_bounded_by_the_bytes_that_other_calls_are() -> None:
    assert f"local MAX_BYTES = {transitions.SLICE_BYTES}\n" in scripts.load("poll").source.decode()
