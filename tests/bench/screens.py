"""Every screen, over a queue with a million ready jobs, a million dead letters and thousands of stuck jobs among ten
thousand others, while all of them change: how long a key takes to its frame, what the console costs, what it holds.

`python -m bench.screens feed URL` is the process that changes the big queue.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import random
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import redis

from bench import console
from bench.console import Terminal, before_others
from bench.figures import Figure, Sample, Setting
from bench.processes import Stalled
from qdeck._engine import programs, transitions
from qdeck._redis import SyncClient
from qdeck.admin import Writer

if TYPE_CHECKING:
    from bench.machine import BenchServer

BIG: Final = "bench:load:area_07:the_big_one:actions"
QUEUES: Final = 10_000
ENTRIES: Final = 1_000_000  # dead letters of the big queue, and as many ready jobs
STUCK: Final = 10_000
KEYS_PRESSED: Final = 200
WATCHED_S: Final = 10.0
_PART: Final = 10_000
_KINDS: Final = 8
_PACE_S: Final = 0.1
_OLD_MS: Final = 30 * 86_400_000  # older than the purge lets dead letters become

# Jobs as the engine leaves them.
_MAKE: Final = """
local q, state = '{' .. ARGV[1] .. '}:', ARGV[5]
local first, last, at = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
for i = first, last do
  local id = string.format('%013x%07d', at + i, i)
  redis.call('HSET', q .. 'head', id, string.format('%.0f 100 3 send', at + i))
  redis.call('HSET', q .. 'body', id, '[[' .. i .. '],{"tenant":"acme","reader":' .. i .. '}]')
  if state == 'ready' then
    redis.call('ZADD', q .. 'ready', string.format('%.0f', 1e15 + at + i), id)
  else
    local kind = i % tonumber(ARGV[6])
    redis.call('HSET', q .. 'attempts', id, '4 0 0 kind' .. kind)
    redis.call('HSET', q .. 'error', id, string.format('%.0f failed {"class":"pkg.Failure%d","message":' ..
      '"job %d timed out","traceback":"Traceback","worker":"h:1","attempt":4}', at + i, kind, i))
    redis.call('ZADD', q .. 'dead_letter', at + i, id)
    local kept = redis.call('HGET', q .. 'groups', 'kind' .. kind)
    local count = kept and tonumber(string.match(kept, '^%d+')) or 0
    local since = kept and string.match(kept, '^%d+ (%d+)') or string.format('%.0f', at + i)
    redis.call('HSET', q .. 'groups', 'kind' .. kind,
      string.format('%d %s %.0f %s\\nFailure%d\\njob N timed out', count + 1, since, at + i, id, kind))
  end
end
redis.call('HINCRBY', q .. 'meta', state == 'ready' and 'ready' or 'dead_letter', last - first + 1)
redis.call('HINCRBY', q .. 'meta', 'n:enqueued', last - first + 1)
redis.call('HSET', 'qdeck:queues', ARGV[1], string.format('%.0f', at))
"""
# Some dead letters are retried, the newest and the oldest ones; some jobs are claimed; some stuck ones go and come.
_LEAVE: Final = """
local q = '{' .. ARGV[1] .. '}:'
local dead = redis.call('ZRANGE', q .. 'dead_letter', -15, -6)
for _, id in ipairs(redis.call('ZRANGE', q .. 'dead_letter', 0, 9)) do dead[#dead + 1] = id end
for _, id in ipairs(dead) do
  local kind = string.match(redis.call('HGET', q .. 'attempts', id), '(%S+)$')
  local count, rest = string.match(redis.call('HGET', q .. 'groups', kind), '^(%d+)(.*)$')
  redis.call('HSET', q .. 'groups', kind, (tonumber(count) - 1) .. rest)
  for _, part in ipairs({ 'head', 'body', 'attempts', 'error' }) do redis.call('HDEL', q .. part, id) end
  redis.call('ZREM', q .. 'dead_letter', id)
end
for _, id in ipairs(redis.call('ZRANGE', q .. 'ready', 0, 19)) do
  for _, part in ipairs({ 'head', 'body' }) do redis.call('HDEL', q .. part, id) end
  redis.call('ZREM', q .. 'ready', id)
end
for _, id in ipairs(redis.call('ZRANGE', 'bench:parked', 0, 4)) do
  redis.call('ZADD', q .. 'running', redis.call('ZSCORE', 'bench:parked', id), id)
  redis.call('ZREM', 'bench:parked', id)
end
for _, id in ipairs(redis.call('ZRANGE', q .. 'running', 3, 7)) do
  redis.call('ZADD', 'bench:parked', redis.call('ZSCORE', q .. 'running', id), id)
  redis.call('ZREM', q .. 'running', id)
end
for name, key in pairs({ ready = 'ready', dead_letter = 'dead_letter', running = 'running' }) do
  redis.call('HSET', q .. 'meta', name, redis.call('ZCARD', q .. key))
end
"""


def fill(server: BenchServer, entries: int, stuck: int) -> None:
    """Makes the big queue and a log of operations."""
    make, now = server.raw.register_script(_MAKE), time.time_ns() // 1_000_000
    if stuck:
        make(args=[BIG, 0, stuck - 1, now - 2 * entries - stuck, "ready", _KINDS])
    client = SyncClient(Writer(server.url).endpoint)
    for start in range(0, stuck, 500):  # held by workers that nobody knows, with leases that are over in a moment
        client.run(
            programs.call(transitions.poll(BIG, f"wrk-{start // 500}", now * 1000, free_slots=500, lease_ms=1000))
        )
    client.close()
    for state, at in (("ready", now), ("dead", now - _OLD_MS)):
        for start in range(0, entries, _PART):
            make(args=[BIG, start, min(entries, start + _PART) - 1, at - entries, state, _KINDS])
    server.raw.hset(f"{{{BIG}}}:meta", mapping={"dead_max": 2 * entries, "dead_ttl": 2 * _OLD_MS})
    for number in range(500):
        server.raw.xadd("qdeck:activity", {"e": _operation(now - 500_000 + 1000 * number, number)})


def _operation(at_ms: int, number: int) -> str:
    told = {"at_ms": at_ms, "who": "ana", "host": "ops-1", "verb": "retry", "queues": [BIG], "filter": "error:Failure*"}
    return json.dumps(told | {"counts": {"retried": 1 + number % 90}, "outcome": "done", "plan": None, "reason": ""})


def feed(url: str) -> None:
    """Changes the big queue ten times a second until it is ended."""
    raw = redis.Redis.from_url(url)
    make, leave, start = raw.register_script(_MAKE), raw.register_script(_LEAVE), time.monotonic()
    for number in itertools.count():
        now = time.time_ns() // 1_000_000
        leave(args=[BIG])
        for state in ("dead", "ready"):
            make(args=[BIG, 20 * number, 20 * number + 19, now - 20 * number, state, _KINDS])
        if number % 10 == 0:
            raw.xadd("qdeck:activity", {"e": _operation(now, number)}, maxlen=10_000)
        time.sleep(max(0.0, start + (number + 1) * _PACE_S - time.monotonic()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A look at one screen: keys that lead there with what comes after each, and the keys that are pressed in turn."""

    name: str
    way: tuple[tuple[bytes, str], ...]
    keys: tuple[bytes, ...] = (b"j", b"k")
    begin: bytes = b"g"  # where the keys begin
    by_name: bool = True  # what is under the cursor counts, not in which row it is
    settles_s: float = 1.0  # after the first key


_DOWN, _UP = b"\x1b[6~", b"\x1b[5~"
_SCROLL: Final = (*[_DOWN] * 10, b"G", *[_UP] * 10, b"g")
LOOKS: Final = (
    Look(name="queues", way=((b"1", ""),), by_name=False),
    Look(name="jobs", way=((b"2", "next first"),), begin=b"G", keys=(b"k", b"j")),  # the first ones are claimed
    Look(name="jobs, scrolled", way=(), keys=_SCROLL),
    Look(name="stuck", way=((b"3", "worker lost"),)),
    Look(name="dead, groups", way=((b"4", "groups, exact"),), by_name=False),
    Look(name="dead, entries", way=((b"", ""), (b"g", ""), (b"\t", "")), settles_s=12.0),  # the largest come first
    Look(name="dead, entries scrolled", way=(), keys=_SCROLL),
    Look(name="health", way=((b"8", "checks"),), by_name=False),
    Look(name="activity", way=((b"9", "operations"),), by_name=False),
    Look(name="purge, its plan", way=((b"5", "no plan yet"), (b"d", "apply would")), by_name=False),
    Look(name="purge, its entries", way=((b"\t", ""), (b"\r", ""), (b"j", ""), (b"\r", "in the order of the plan"))),
    Look(name="purge, its entries scrolled", way=(), keys=_SCROLL),
)

_TOLD: Final = re.compile(
    rb"\x1b\[(?P<row>\d+);\d+H|\x1b\[[\d;]*38;2;95;201;190[\d;]*m\xe2\x96\x8c(?P<text>[^\n]{,400})|(?P<next>\n)"
)
_LOOKS: Final = re.compile(rb"\x1b\[[\d;]*m")


def cursor(output: bytes) -> tuple[int, str] | None:
    """The row in which the cursor of the pane that has the keys was drawn last, and the name near its beginning."""
    row, found = None, None
    for match in _TOLD.finditer(output):
        if match["row"]:
            row = int(match["row"])
        elif match["next"]:
            row = None if row is None else row + 1
        elif row is not None:
            text = _LOOKS.sub(b"", match["text"]).partition(b"\x1b")[0].decode("utf-8", "replace")
            found = (row, max(text[:24].split(), key=len, default=""))
    return found


def key_times(terminal: Terminal, look: Look, count: int) -> tuple[list[float], list[float]]:
    """Presses the keys of a look; ms from each to the frame that answers it, and to that which has the entry's line
    too where it had to be read first; in order of length.
    """
    pause, at = random.Random(7), int(look.by_name)
    terminal.press(look.begin)
    before = cursor(terminal.rest(2.0))
    answered, read = [], []
    for key in itertools.islice(itertools.cycle(look.keys), count):
        terminal.press(key)
        start, out, seen, first = time.perf_counter(), b"", None, 0.0
        while seen is None or (before is not None and seen[at] == before[at]) or seen[1] == "…":
            if seen is not None and seen[1] == "…" and not first:
                first = time.perf_counter() - start
            if time.perf_counter() - start > 10.0:
                raise Stalled(f"{look.name}: {key!r} was not answered, {before} {seen}: {out[-300:]!r}")
            out += terminal.read(0.5)
            seen = cursor(out)
        read.append(1000 * (time.perf_counter() - start))
        answered.append(1000 * first or read[-1])
        before = cursor(out + terminal.rest(pause.uniform(0.02, 0.15)))
    return sorted(answered), sorted(read)


def _part(times: list[float], percent: int) -> float:
    return times[min(len(times) - 1, math.floor(len(times) * percent / 100))]


def _cpu(terminal: Terminal, seconds: float) -> float:
    before, at = terminal.process.cpu_times(), time.perf_counter()
    terminal.rest(seconds)
    after, passed = terminal.process.cpu_times(), time.perf_counter() - at
    return 100 * (after.user + after.system - before.user - before.system) / passed


def look_at(terminal: Terminal, look: Look, keys: int, seconds: float) -> dict[str, float]:
    """What a screen takes: time from a key to its frame, processor, and what the process holds by then."""
    for number, (key, wanted) in enumerate(look.way):
        terminal.press(key)
        terminal.until(wanted.encode(), 600.0)  # a dry run takes its time
        terminal.rest(1.0 if number else look.settles_s)
    terminal.rest(3.0)
    cpu = _cpu(terminal, seconds)
    with before_others():
        answered, read = key_times(terminal, look, keys)
    return {
        "p50_ms": _part(answered, 50),
        "p99_ms": _part(answered, 99),
        "worst_ms": answered[-1],
        "read_p99_ms": _part(read, 99),
        "cpu_percent": cpu,
        "rss_mb": terminal.process.memory_info().rss / 2**20,
    }


@functools.lru_cache(maxsize=1)
def watch(
    setting: Setting,
    queues: int = QUEUES,
    entries: int = ENTRIES,
    stuck: int = STUCK,
    keys: int = KEYS_PRESSED,
    seconds: float = WATCHED_S,
    only: str = "",
) -> dict[str, dict[str, float]]:
    """One run of the console through all screens; what each takes."""
    found = {}
    with setting.server() as server, tempfile.TemporaryDirectory() as state:
        console.fill(server.raw, queues, console.DEAD)
        fill(server, entries, stuck)
        with (
            console.changing("bench.console", server.url, setting.pins.server, str(queues)),
            console.changing("bench.screens", server.url, setting.pins.server),
            Terminal(
                ["-m", "qdeck_console", "--url", server.url, "console"], setting.pins.client, {"XDG_STATE_HOME": state}
            ) as terminal,
        ):
            terminal.until(f"{queues + 1:,}".encode())
            terminal.rest(12.0)  # every queue was read once more, and what only happens at the start is over
            for look in LOOKS:
                if only in look.name:
                    found[look.name] = look_at(terminal, look, keys, seconds)
    return found


def worst(setting: Setting, name: str) -> Sample:
    """The worst screen in one respect, and what each of them takes."""
    seen = watch(setting)
    told = {
        look: " / ".join(f"{found[key]:.0f}" for key in ("p50_ms", "p99_ms", "worst_ms", "read_p99_ms"))
        + f" ms, {found['cpu_percent']:.0f} %, {found['rss_mb']:.0f} MB"
        for look, found in seen.items()
    }
    return Sample(reached=max(found[name] for found in seen.values()), more=told)


def figures() -> list[Figure]:
    """The figures of the screens. Noted of each: p50, p99, worst from a key to its frame, p99 with what was read."""
    title = f"the console's slowest screen, {ENTRIES:,} dead letters and jobs in one queue of {QUEUES:,}: "
    common: dict[str, Any] = {"at_least": False, "once": True}
    return [
        Figure(
            key="screens", title=f"{title}key to frame p99", unit=" ms", aim=50,
            measure=lambda setting: worst(setting, "p99_ms"), **common,
        ),
        Figure(
            key="screens_cpu", title=f"{title}of a core", unit=" %", aim=15,
            measure=lambda setting: worst(setting, "cpu_percent"), **common,
        ),
        Figure(
            key="screens_memory", title=f"{title}memory", unit=" MB", aim=150,
            measure=lambda setting: worst(setting, "rss_mb"), **common,
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    feed(sys.argv[2])
