"""What is really written for a queue, read by plain commands, and the rules that must hold for it at any moment."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from qdeck._engine import keys

if TYPE_CHECKING:
    import redis

STATES: Final = ("ready", "delayed", "blocked", "running", "dead", "done", "cancelled")
ZSETS: Final = (*STATES, "removed", "unknown_tasks")
LIVE: Final = ("ready", "delayed", "blocked", "running")
HASHES: Final = ("head", "body", "lease", "attempts", "error", "result", "log", "unique", "groups", "after", "claims")
_PLACE: Final = re.compile(rb" \d+-\d+$")
_CURSORS: Final = (
    "",
    "claims_cursor",
    "lease_cursor",
    "deadline_offset",
)  # places in a scan, and the padding: no facts about jobs


@dataclass(slots=True)
class Picture:
    """All of one queue at one moment; the model draws the same picture, so that both can be compared."""

    meta: dict[str, str] = field(default_factory=dict)
    zsets: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    hashes: dict[str, dict[str, bytes]] = field(default_factory=dict)
    outbox: list[dict[str, bytes]] = field(default_factory=list)
    wakeups: int = 0

    def states(self) -> dict[str, list[str]]:
        """The states in which each id is."""
        found: dict[str, list[str]] = {}
        for state in STATES:
            for job_id, _ in self.zsets[state]:
                found.setdefault(job_id, []).append(state)
        return found

    def waiting(self, side: str) -> dict[str, list[str]]:
        """Who waits for whom: `<` gives child → refs, `>` gives parent → children (all chunks in one)."""
        found: dict[str, list[str]] = {}
        for name, raw in self.hashes["after"].items():
            if name[0] != side:
                continue
            words = raw.decode().split()
            found.setdefault(name[1:].partition("#")[0], []).extend(words if side == "<" or "#" in name else words[1:])
        return found


def take_picture(raw: redis.Redis, queue: str) -> Picture:
    """Reads all of a queue in one transaction."""
    pipe = raw.pipeline(transaction=True)
    pipe.hgetall(keys.key(queue, "meta"))
    for state in ZSETS:
        pipe.zrange(keys.key(queue, state), 0, -1, withscores=True)
    for part in HASHES:
        pipe.hgetall(keys.key(queue, part))
    pipe.xrange(keys.key(queue, "outbox"))
    pipe.llen(keys.key(queue, "wakeup"))
    replies = pipe.execute()
    meta = {name.decode(): value.decode() for name, value in replies[0].items() if name.decode() not in _CURSORS}
    zsets = {
        # Places of entries of outboxes have times of the server, which no model knows.
        state: [(member.decode(), score) for member, score in reply if not _PLACE.search(member)]
        for state, reply in zip(ZSETS, replies[1:10], strict=True)
    }
    hashes = {
        part: {name.decode(): value for name, value in reply.items() if name}
        for part, reply in zip(HASHES, replies[10:21], strict=True)
    }
    outbox = [{name.decode(): value for name, value in fields.items()} for _, fields in replies[21]]
    return Picture(meta, zsets, hashes, outbox, replies[22])


def check_rules(pictures: dict[str, Picture]) -> None:
    """Fails unless every queue keeps the rules; `pictures` holds all queues that depend on each other."""
    for queue, picture in pictures.items():
        states = picture.states()
        torn = {job_id: where for job_id, where in states.items() if len(where) != 1}
        assert not torn, f"{queue}: in two states: {torn}"
        _check_records(queue, picture, states)
        _check_counts(queue, picture)
        _check_names(queue, picture, states)
        _check_groups(queue, picture)
        _check_waiting(queue, picture, pictures)
        # One wakes one worker; a job that was handed back wakes the others too, as one of them may know its task.
        assert picture.wakeups <= 50, f"{queue}: {picture.wakeups} wake-up tokens"
        assert bool(picture.zsets["unknown_tasks"]) == ("unknown_tasks" in picture.meta), f"{queue}: no job waits"


def _check_records(queue: str, picture: Picture, states: dict[str, list[str]]) -> None:
    heads = set(picture.hashes["head"])
    done = {job_id for job_id, _ in picture.zsets["done"]}
    assert heads <= set(states), f"{queue}: heads of jobs in no state: {heads - set(states)}"
    assert set(states) - heads <= done, f"{queue}: jobs without a head: {set(states) - heads - done}"
    assert set(picture.hashes["body"]) == heads, f"{queue}: bodies {set(picture.hashes['body']) ^ heads} do not match"
    for part in ("attempts", "error", "result", "log"):
        # A result outlives the rest of the record: it goes with the id.
        known = set(states) if part == "result" else heads
        assert set(picture.hashes[part]) <= known, (
            f"{queue}: {part} of unknown jobs {set(picture.hashes[part]) - known}"
        )
    running = {job_id for job_id, _ in picture.zsets["running"]}
    leases = set(picture.hashes["lease"])
    assert leases == running, f"{queue}: leases and running differ by {leases ^ running}"


def _check_counts(queue: str, picture: Picture) -> None:
    meta = picture.meta
    count = {state: len(picture.zsets[state]) for state in STATES}
    told = {state: int(meta.get(keys.PARTS[state][0], "0")) for state in STATES}
    assert told == count, f"{queue}: counts {told}, really {count}"

    def total(name: str) -> int:
        return int(meta.get(f"n:{name}", "0"))

    gone = sum(
        total(name) for name in ("dropped_dead", "dropped_done", "dropped_cancelled", "discarded", "moved", "missing")
    )
    assert total("enqueued") == sum(count.values()) + gone, (
        f"{queue}: {total('enqueued')} made, {count} there, {gone} gone"
    )
    assert total("dead") >= count["dead"] + total("dropped_dead")
    assert total("done") >= count["done"] + total("dropped_done")
    assert total("cancelled") + total("expired") >= count["cancelled"] + total("dropped_cancelled")
    assert total("failed") >= total("retried")


def _check_names(queue: str, picture: Picture, states: dict[str, list[str]]) -> None:
    held = picture.hashes["unique"]
    for name, holder in held.items():
        job_id = holder.decode()
        assert states.get(job_id, ["none"])[0] in LIVE, f"{queue}: name {name!r} is held by {job_id!r}, which has ended"
    for job_id, head in picture.hashes["head"].items():
        lines = head.decode().split("\n")[1:]
        if "u" in lines and states[job_id][0] in LIVE:
            name = next(line[1:] for line in lines if line.startswith("n"))
            assert held.get(name) == job_id.encode(), f"{queue}: {job_id!r} does not hold its name {name!r}"


def _check_groups(queue: str, picture: Picture) -> None:
    dead = {job_id for job_id, _ in picture.zsets["dead"]}
    attempts = {job_id: raw.decode().split() for job_id, raw in picture.hashes["attempts"].items()}
    assert {job_id for job_id, words in attempts.items() if len(words) == 4} == dead, f"{queue}: in no group"
    counted = {digest: int(raw.split()[0]) for digest, raw in picture.hashes["groups"].items()}
    assert counted == Counter(attempts[job_id][3] for job_id in dead), f"{queue}: groups miscount"


def _check_waiting(queue: str, picture: Picture, pictures: dict[str, Picture]) -> None:
    states = picture.states()
    blocked = {job_id for job_id, _ in picture.zsets["blocked"]}
    needs = picture.waiting("<")
    assert set(needs) == blocked, f"{queue}: blocked {blocked}, but those that wait are {set(needs)}"
    releases = {entry["i"].decode() for entry in picture.outbox if entry["k"] == b"release"}
    for parent in picture.waiting(">"):
        alive = states.get(parent, ["none"])[0] in LIVE
        assert alive or parent in releases, f"{queue}: {parent!r} has ended and its dependents were not told"
    for child, refs in needs.items():
        assert refs, f"{queue}: {child!r} is blocked by nothing"
        for ref in refs:
            parent, _, other = ref.partition("@")
            if other:
                _check_far(queue, child, ref, pictures)
                continue
            kids = picture.waiting(">").get(parent, [])
            assert child in kids, f"{queue}: {child!r} waits for {parent!r}, which does not know it"


def _check_far(queue: str, child: str, ref: str, pictures: dict[str, Picture]) -> None:
    parent, _, other = ref.partition("@")
    here, there = pictures[queue], pictures[other]
    if any(e["k"] == b"watch" and e["i"] == child.encode() and e["r"] == ref.encode() for e in here.outbox):
        return
    if any(e["k"] == b"resolve" and e["i"] == child.encode() and e["r"] == ref.encode() for e in there.outbox):
        return
    knows = f"{child}@{queue}" in there.waiting(">").get(parent, [])
    assert knows, f"{queue}: {child!r} waits for {ref!r}, and nothing will tell it"
