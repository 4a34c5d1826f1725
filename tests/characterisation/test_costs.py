"""What looking and acting cost the server, counted outside the process: commands and round trips.

The queues are native ones; whether the server has keys of other systems is asked, too, by everything that looks.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from bench.console import Terminal, fill, names
from characterisation.recorded import check, compare, is_writing
from support.counting import CountingProxy
from support.screens import claim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import redis

    from support.counting import Request
    from support.servers import Server

GOLDEN: Final = "costs.json"
DEAD: Final = 10  # in each queue, ten more or less
WORKERS: Final = 3
STUCK: Final = 10  # jobs, one in each of the first queues
SLOW: Final = (pytest.mark.slow, pytest.mark.timeout(600))
# The key of a screen, and what stands there and nowhere else.
SCREENS: Final = {
    "queues": (b"1", b""),
    "stuck": (b"3", b"worker lost"),
    "dead": (b"4", b"groups"),
    "workers": (b"7", b"wrk-0.bench"),
    "health": (b"8", b"threshold"),
}
FEW: Final = 5  # refreshes that are watched, and at most: the cheapest one counts
MOST: Final = 25
CHANCE: Final = 0.1
TIMED: Final = "dead"
"""The screen that reads as much of many queues as it can in some tenths of a second: its costs tell of the machine."""
REGISTRY: Final = "qdeck:queues"  # each refresh asks it once for the queues
APART_S: Final = 0.3  # refreshes are a second apart; what asks for the registry twice in a moment is one of them
pytestmark = pytest.mark.filterwarnings("default::characterisation.recorded.Lower")


@contextlib.contextmanager
def filled(server: Server, queues: int) -> Iterator[redis.Redis]:
    with server.client(timeout_s=60) as raw:
        fill(raw, queues, DEAD)
        for queue in names(queues)[:STUCK]:
            claim(server.url, queue, lease_ms=1)
        for number in range(WORKERS):
            name = f"wrk-{number}.bench.4100"
            raw.hset("qdeck:workers", name, json.dumps({"id": name, **worker(queues)}))
        yield raw


def worker(queues: int) -> dict[str, object]:
    """What a worker tells of itself; nobody needs to look in the next hour for it to be seen alive."""
    now = time.time_ns() // 1_000_000
    told: dict[str, object] = {"host": "bench", "pid": 4100, "version": "0.1.0", "state": "running", "concurrency": 5}
    told |= {"queues": dict.fromkeys(names(queues)[:3], 1), "running": 1, "done": 10, "failed": 1, "rss": 61_000_000}
    return told | {"started_ms": now - 3_600_000, "heartbeat_ms": now + 3_600_000}


class Commands:
    """Runs commands, and counts what each of them costs."""

    def __init__(self, raw: redis.Redis, proxy: CountingProxy) -> None:
        self.raw = raw
        self.proxy = proxy
        self.costs: dict[str, dict[str, float]] = {}

    def run(self, *words: str) -> dict[str, float]:
        before = len(self.proxy.requests())
        self.raw.config_resetstat()
        done = subprocess.run(
            [sys.executable, "-m", "qdeck_console", *words],
            env={**os.environ, "QDECK_URL": self.proxy.url},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode in (0, 1, 2), done.stderr
        calls = {name: stats["calls"] for name, stats in self.raw.info("commandstats").items()}
        del calls["cmdstat_config|resetstat"]
        return {
            "round_trips": sum(request.starts_trip for request in self.proxy.requests(before)),
            "commands": sum(calls.values()),
        }

    def count(self, name: str, *words: str) -> None:
        self.costs[name] = self.run(*words)

    def until_the_same(self, *words: str) -> None:
        """Runs a command until it costs what it did the time before: the first looks search for what is there."""
        last = None
        for _ in range(10):
            last, before = self.run(*words), last
            if last == before:
                return
        pytest.fail(f"each {words} costs something else")


def dead(raw: redis.Redis) -> list[str]:
    """The dead letters of the first queue."""
    found: Any = raw.zrange(f"{{{names(1)[0]}}}:dead_letter", 0, -1)
    return [job.decode() for job in found]


@pytest.mark.parametrize("queues", [10, 1000, pytest.param(10_000, marks=SLOW)])
def test_commands(make_server: Callable[..., Server], tmp_path: Path, queues: int) -> None:
    server = make_server()
    with filled(server, queues) as raw, CountingProxy.before(server.url) as proxy:
        commands = Commands(raw, proxy)
        commands.until_the_same("status")
        commands.count("status", "status")
        commands.count("queues", "queues")
        commands.count("health", "health")
        commands.count("health --no-orphans", "health", "--no-orphans")
        commands.count("dead", "dead", "--limit", "100")
        commands.count("stuck", "stuck")
        commands.count("find", "find", dead(raw)[0])
        plan = str(tmp_path / "plan")
        commands.count("retry, planned", "dead", "retry", "--plan", plan, "--dry-run")
        commands.count("retry, applied", "dead", "retry", "--apply", plan, "--yes")
        assert not dead(raw)
        commands.count("retry, undone", "undo", "--yes")
        assert dead(raw)
    # A command that takes many seconds asks again what time it is.
    check(GOLDEN, f"commands, {queues:,} queues", commands.costs, above=0.0 if queues < 10_000 else 0.001)


def refreshes(requests: Sequence[Request]) -> list[Sequence[Request]]:
    """The requests of each whole refresh, from one question for the queues to the next."""
    starts: list[int] = []
    for at, request in enumerate(requests):
        if request.key == REGISTRY and (not starts or request.at - requests[starts[-1]].at > APART_S):
            starts.append(at)
    return [requests[start:end] for start, end in itertools.pairwise(starts)]


@contextlib.contextmanager
def consoles(url: str, screens: Iterable[str]) -> Iterator[dict[str, tuple[Terminal, CountingProxy]]]:
    """A console for each screen."""
    with contextlib.ExitStack() as stack:
        shown = {}
        for screen in screens:
            proxy = stack.enter_context(CountingProxy.before(url))
            words = ["-m", "qdeck_console", "--url", proxy.url, "console"]
            shown[screen] = stack.enter_context(Terminal(words, None)), proxy
        yield shown


def cheapest(each: Sequence[Sequence[Request]]) -> dict[str, float]:
    """What the cheapest of some refreshes cost: others do besides what is due only now and then."""
    return {
        "round_trips": min((sum(request.starts_trip for request in one) for one in each), default=0),
        "commands": min(map(len, each), default=0),
    }


@pytest.mark.parametrize("queues", [10, pytest.param(1000, marks=SLOW), pytest.param(10_000, marks=SLOW)])
def test_steady_refreshes_of_screens(make_server: Callable[..., Server], queues: int) -> None:
    """What is read once after a screen was opened is read in steps, on a busy machine in more of them: it may take
    until a refresh is as cheap as the recorded one.
    """
    part = f"console, {queues:,} queues"
    # With more queues than one refresh looks at closely, which of them a refresh meets depends on the moment.
    above = 0.0 if queues == 10 else CHANCE
    server = make_server()
    screens = [screen for screen in SCREENS if queues == 10 or screen != TIMED]
    with filled(server, queues), consoles(server.url, screens) as shown:
        start = {}
        for screen, (terminal, proxy) in shown.items():
            key, wanted = SCREENS[screen]
            terminal.until(f"{queues:,}".encode())
            terminal.press(key)
            terminal.until(wanted)
            start[screen] = len(proxy.requests())
        while True:
            for terminal, _ in shown.values():
                terminal.read(0.2)
            seen = {screen: refreshes(proxy.requests(start[screen])) for screen, (_, proxy) in shown.items()}
            costs = {screen: cheapest(each) for screen, each in seen.items()}
            watched = min(map(len, seen.values()))
            if watched >= MOST or (watched >= FEW and not is_writing() and not compare(GOLDEN, part, costs, above)[0]):
                break
    check(GOLDEN, part, costs, above=above)
