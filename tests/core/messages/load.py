"""Requests under fire: clients, workers and the cleaner are killed at random, and all is accounted for afterwards.

`python tests/core/messages/load.py --pairs 50000` runs it whole and prints what was counted; a test runs a small one.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from core.messages import load_parts as parts
from support.processes import PythonProcess
from support.servers import Server

if TYPE_CHECKING:
    import redis

PROCESSES = 4
WORKERS = 2
WATCH_S = 0.4
GRACE_MS = 10_000  # a cleaner that was killed needs a moment to be back
REGISTRY = "{qdeck:messages}:"


@dataclass
class Load:
    """One run."""

    server: Server
    folder: str
    pairs: int
    seed: int = 1
    every_s: float = 0.5
    most_s: float = 600.0
    most_kills: int = 1000  # where a process takes longer to start than it lives, the end would never come
    kills: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.raw: redis.Redis = self.server.client(timeout_s=30)
        self.running: dict[tuple[str, int], PythonProcess] = {}
        self.watched = 0

    def run(self) -> dict[str, Any]:
        """All of it; what is wrong is in `faults`."""
        began = time.monotonic()
        try:
            for role, count in (("worker", WORKERS), ("cleaner", 1), ("client", PROCESSES)):
                for number in range(count):
                    self._start(role, number)
            self._fire(began)
            self.seconds = time.monotonic() - began
            self._settle()
        finally:
            for process in self.running.values():
                process.reap()
        try:
            return self._judge()
        finally:
            self.raw.close()

    def _start(self, role: str, number: int) -> None:
        words = [role, self.folder]
        if role == "client":
            each = parts.CLIENTS // PROCESSES
            words += [str(number * each), str(each), str(self.pairs)]
        env = {"QDECK_URL": self.server.url}
        self.running[role, number] = PythonProcess("-m", "core.messages.load_parts", *words, env=env)

    def _fire(self, began: float) -> None:
        dice, shot, looked = random.Random(self.seed), time.monotonic(), 0.0
        while clients := [key for key in self.running if key[0] == "client"]:
            if time.monotonic() - began > self.most_s:
                self.faults.append(f"not done after {self.most_s} s")
                return
            for key in clients:
                if (code := self.running[key].code) is not None:
                    process = self.running.pop(key)
                    process.reap()
                    if code != 0:
                        self.faults.append(f"{key} ended: {process.output}")
            if time.monotonic() - looked > WATCH_S:
                self._watch()
                looked = time.monotonic()
            time.sleep(0.05)
            fires = len(self.running) > WORKERS + 1 and self.kills.total() < self.most_kills
            if fires and time.monotonic() - shot > self.every_s and (victims := self._at_work()):
                shot = time.monotonic()
                role, number = dice.choice(victims)
                self.running[role, number].reap()  # kill -9
                self.kills[role] += 1
                self._start(role, number)

    def _at_work(self) -> list[tuple[str, int]]:
        """What it is worth to kill, and does not keep a slow machine from ever getting anywhere."""
        return [key for key, one in self.running.items() if one.code is None and parts.AT_WORK in one.stdout]

    def _watch(self) -> None:
        """What must never be seen, whatever was killed."""
        ended = {words[1] for words in parts.read_notes(self.folder, "client") if words[0] in ("A", "F")}
        for name in self.raw.scan_iter("load:*:responses:*", count=1000, _type="list"):
            self.watched += 1
            left, size = self.raw.pttl(name), self.raw.llen(name)
            if left == -1:
                self.faults.append(f"{name!r} lives for ever")
            if size > 1:
                self.faults.append(f"{name!r} has {size} answers")
            if size and name.decode().rpartition("c-")[2] in ended:
                self.faults.append(f"{name!r} was answered again")
        now = time.time() * 1000
        stale: Any = self.raw.zrangebyscore(f"{REGISTRY}queues", "-inf", now - GRACE_MS)
        self.faults += [f"{name!r} outlived its time" for name in stale]

    def _settle(self) -> None:
        """Waits until the queue is empty, and the time of all temporary queues over."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            self._watch()
            if not self._left():
                return
            time.sleep(0.5)
        self.faults.append(f"left at the end: {self._left()}")

    def _left(self) -> dict[str, int]:
        stem = f"{{{parts.WORKER_QUEUE}}}:"
        sizes = {part: self.raw.zcard(stem + part) for part in ("ready", "delayed", "running", "blocked")}
        sizes |= {part: self.raw.zcard(REGISTRY + part) for part in ("queues", "waiting", "tasks", "callbacks")}
        sizes["about"] = self.raw.hlen(f"{REGISTRY}about")
        sizes["lists"] = len(list(self.raw.scan_iter("load:*", count=1000)))
        return {part: size for part, size in sizes.items() if size}

    def _judge(self) -> dict[str, Any]:
        """Compares what clients, workers and cleaners noted with what is on the server."""
        notes = parts.read_notes(self.folder, "client")
        outcomes: dict[int, list[str]] = {}
        for words in notes:
            if words[0] not in "BW":
                outcomes.setdefault(int(words[1]), []).append(words[0])
        missing = set(range(self.pairs)) - outcomes.keys()
        self.faults += [f"request {number} has no outcome" for number in sorted(missing)]
        for number, kinds in outcomes.items():
            if len(kinds) != 1 or kinds[0] not in "ATF":
                self.faults.append(f"request {number} ended {kinds}")
        dead, expired = self._names("dead_letter"), self._names("cancelled")
        for number, [kind, *_] in outcomes.items():
            # A worker that is killed after it answered may come back when the time of the action is over.
            if kind == "F" and number not in dead and number not in expired:
                self.faults.append(f"request {number} failed and is no dead letter")
            if kind == "A" and (number in dead or parts.is_bad(number)):
                self.faults.append(f"request {number} was answered and is dead")
        self._judge_removals(notes)
        runs = Counter(int(words[1]) for words in parts.read_notes(self.folder, "worker"))
        counts = Counter(kind for kinds in outcomes.values() for kind in kinds)
        begun = sum(words[0] == "B" for words in notes)
        return {
            "pairs": self.pairs,
            "seconds": round(self.seconds, 1),
            "rate": round(self.pairs / self.seconds),
            "kills": dict(self.kills),
            "answered": counts["A"],
            "failed": counts["F"],
            "timed_out": counts["T"],
            "dead_letters": len(dead),
            "sent_again": begun - self.pairs,
            "run_again": sum(count > 1 for number, count in runs.items() if not parts.is_bad(number)),
            "removed_by_cleaners": len(parts.read_notes(self.folder, "cleaner")),
            "lists_watched": self.watched,
            "faults": self.faults[:20],
        }

    def _names(self, part: str) -> set[int]:
        found: Any = self.raw.zrange(f"{{{parts.WORKER_QUEUE}}}:{part}", 0, -1)
        return {int(name.decode().removeprefix("load-")) for name in found}

    def _judge_removals(self, notes: list[list[str]]) -> None:
        """No queue may have gone while its client, alive, was waiting for it."""
        waits: dict[str, list[tuple[float, float]]] = {}
        begun: dict[str, float] = {}
        for kind, number, at in notes:
            if kind == "B":
                # Sent again, its predecessor's queue may go, rightly, until the new request has arrived.
                begun[number] = float("inf") if number in begun else float(at)
            elif kind == "W":
                begun[number] = float(at)
            else:
                # A reader whose time is over is no reader any more, also when it has not noted that yet.
                till = min(float(at), begun[number] + parts.timeout_of(int(number)))
                waits.setdefault(number, []).append((begun[number], till))
        for _, name, before, after, _ in parts.read_notes(self.folder, "cleaner"):
            for since, till in waits.get(name.rpartition("c-")[2], ()):
                if since < float(before) and float(after) < till:
                    self.faults.append(f"{name} was removed while it was waited on")


def main() -> None:
    """Prints what was counted; the exit code tells whether something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Server() as server:
        found = Load(server, folder, given.pairs, given.seed).run()
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    sys.exit(1 if found["faults"] else 0)


if __name__ == "__main__":
    main()
