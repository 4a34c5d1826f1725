"""The console over very many queues that change all the time: how long a key takes to its frame, and what it costs.

It runs on a terminal of its own, as it does for an operator; a frame counts as soon as its bytes have come out there.
`python -m bench.console feed URL` is the process that changes the queues.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import math
import os
import pty
import random
import re
import select
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING, Any, Final, Self

import psutil
import redis

from bench.figures import Figure, Sample, Setting
from bench.machine import on_cpu
from bench.processes import TESTS, Stalled
from qdeck_console.embedded_server import dying_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

QUEUES: Final = 10_000
DEAD: Final = 100  # in each queue, ten more or less: a million together, half the queues over the threshold
KEYS_PRESSED: Final = 300
WATCHED_S: Final = 20.0  # without a key, for the processor time
_SIZE: Final = (48, 160)
_PART: Final = 500  # queues that one call of a script makes or changes
_READY: Final = 5
# Of the environment: what changes how the console looks, or has it compile its modules at each start.
_LEFT_OUT: Final = frozenset({"LINES", "COLUMNS", "NO_COLOR", "PYTHONDONTWRITEBYTECODE"})

_MAKE: Final = """
local at, ready = tonumber(ARGV[1]), tonumber(ARGV[3])
for n = 4, #ARGV do
  local dead = tonumber(ARGV[2]) - 10 + n % 21
  local q = '{' .. ARGV[n] .. '}:'
  for i = 1, dead + ready do
    local id = string.format('%013x%07d', at * 1000 + n * 1000 + i, i)
    redis.call('HSET', q .. 'head', id, string.format('%d 100 3 send', at))
    redis.call('HSET', q .. 'body', id, '[[' .. i .. '],{"user":{"id":' .. i .. '}}]')
    if i <= dead then
      redis.call('HSET', q .. 'attempts', id, '4 0 0 late')
      redis.call('HSET', q .. 'error', id, at .. ' failed {"class":"pkg.TimeoutError","message":"job ' .. i ..
        ' timed out","traceback":"Traceback","worker":"h:1","attempt":4}')
      redis.call('ZADD', q .. 'dead_letter', at + i, id)
    else
      redis.call('ZADD', q .. 'ready', string.format('%.0f', 1e15 + at + i), id)
    end
  end
  if dead > 0 then
    redis.call('HSET', q .. 'groups', 'late', string.format('%d %.0f %.0f -', dead, at, at) ..
      '\\nTimeoutError\\njob N timed out')
  end
  redis.call('HSET', q .. 'meta', 'v', 2, 'ready', ready, 'dead_letter', dead, 'n:enqueued', dead + ready,
    'n:dead', dead, 'n:failed', 4 * dead)
  redis.call('HSET', 'qdeck:queues', ARGV[n], at)
end
"""
_CHANGE: Final = """
for n = 2, #ARGV do
  local q = '{' .. ARGV[n] .. '}:'
  local done = (n * 7 + ARGV[1]) % 23
  local ready = redis.call('ZRANGE', q .. 'ready', 0, 0)[1]
  redis.call('ZINCRBY', q .. 'ready', 1000, ready)
  local dead = redis.call('ZRANGE', q .. 'dead_letter', 0, 0)[1]
  redis.call('ZINCRBY', q .. 'dead_letter', 1000, dead)
  if (n + ARGV[1]) % 2 == 0 then
    redis.call('ZADD', q .. 'dead_letter', 1, 'more')
  else
    redis.call('ZREM', q .. 'dead_letter', 'more')
  end
  local count = redis.call('ZCARD', q .. 'dead_letter')
  redis.call('HSET', q .. 'meta', 'dead_letter', count)
  local kind = redis.call('HGET', q .. 'groups', 'late')
  if kind then
    redis.call('HSET', q .. 'groups', 'late', (string.gsub(kind, '^%d+', count)))
  end
  redis.call('HINCRBY', q .. 'meta', 'n:enqueued', done)
  redis.call('HINCRBY', q .. 'meta', 'n:done', done)
  redis.call('HINCRBY', q .. 'meta', 'n:dead', 1)
end
"""


def names(queues: int) -> list[str]:
    """The queues that are watched."""
    return [f"bench:load:area_{n % 40:02}:task_{n:05}:actions" for n in range(queues)]


def fill(raw: redis.Redis, queues: int, dead: int) -> None:
    """Makes the queues as scripts leave them."""
    make, at = raw.register_script(_MAKE), time.time_ns() // 1_000_000 - 600_000
    for part in _parts(queues):
        for some in range(0, len(part), 20):
            make(args=[at, dead, _READY, *part[some : some + 20]])


def _parts(queues: int) -> list[list[str]]:
    found = names(queues)
    return [found[at : at + _PART] for at in range(0, queues, _PART)]


def feed(url: str, queues: int) -> None:
    """Changes every queue once a second, in parts, until it is ended."""
    raw = redis.Redis.from_url(url)
    change, parts = raw.register_script(_CHANGE), _parts(queues)
    start = time.monotonic()
    for number in itertools.count():
        change(args=[number // len(parts), *parts[number % len(parts)]])
        time.sleep(max(0.0, start + (number + 1) / len(parts) - time.monotonic()))


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, arguments: Sequence[str], cpu: int | None, more: Mapping[str, str] | None = None) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *_SIZE, 0, 0))
        variables = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
        variables |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", **(more or {})}
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
        self.started = time.perf_counter()
        with on_cpu(cpu):
            self.process = psutil.Popen(
                dying_with_parent([sys.executable, *arguments]),
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=variables,
                start_new_session=True,
            )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired, psutil.TimeoutExpired):
            self.process.wait(5)
        if self.process.is_running():
            self.process.kill()
            self.process.wait()
        os.close(self.master)

    def press(self, keys: bytes) -> None:
        """Presses keys."""
        os.write(self.master, keys)

    def read(self, seconds: float) -> bytes:
        """What it wrote, as soon as there is any; nothing when it wrote nothing in that time."""
        if not select.select([self.master], [], [], max(0.0, seconds))[0]:
            return b""
        with contextlib.suppress(OSError):
            return os.read(self.master, 1 << 20)
        raise Stalled("the console ended")

    def rest(self, seconds: float) -> bytes:
        """All that it writes in a time."""
        until, out = time.perf_counter() + seconds, b""
        while (left := until - time.perf_counter()) > 0:
            out += self.read(left)
        return out

    def until(self, wanted: bytes, seconds: float = 60.0) -> bytes:
        """What it writes until something is there."""
        until, out = time.perf_counter() + seconds, b""
        while wanted not in out:
            if time.perf_counter() > until:
                raise Stalled(f"never saw {wanted!r}, but {out[-500:]!r}")
            out += self.read(0.2)
        return out


_PLACE: Final = re.compile(rb"\x1b\[(\d+);\d+H|(\xe2\x96\x8c)|(\n)")


def cursor_row(output: bytes) -> int | None:
    """The row in which the sign of the cursor was written last."""
    row = found = None
    for match in _PLACE.finditer(output):
        if match[1]:
            row = int(match[1])
        elif match[3]:
            row = None if row is None else row + 1
        else:
            found = row
    return found


def key_times(terminal: Terminal, count: int) -> list[float]:
    """Moves the cursor to and fro; ms from each key to the frame that has it in another row, in order of length."""
    pause = random.Random(7)
    terminal.press(b"g")
    row = cursor_row(terminal.rest(1.5))
    took = []
    for number in range(count):
        terminal.press(b"jk"[number % 2 : number % 2 + 1])
        start, out = time.perf_counter(), b""
        while (seen := cursor_row(out)) in (None, row):
            if time.perf_counter() - start > 10.0:
                raise Stalled(f"a key was not answered: {out[-300:]!r}")
            out += terminal.read(0.5)
        took.append(1000 * (time.perf_counter() - start))
        row = seen
        out = terminal.rest(pause.uniform(0.02, 0.15))
    return sorted(took)


@contextlib.contextmanager
def changing(module: str, url: str, cpu: int | None, *more: str) -> Iterator[None]:
    """Has the feed of a module change the queues of a server meanwhile."""
    with on_cpu(cpu):
        process = subprocess.Popen(
            dying_with_parent([sys.executable, "-m", module, "feed", url, *more]),
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])},
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def before_others() -> Iterator[None]:
    """Lets the one who looks at the clock go before those that are measured, when all of them are in real time: they
    would make it wait for the end of their slice, a tenth of a second.
    """
    if not hasattr(os, "SCHED_RR") or os.sched_getscheduler(0) != os.SCHED_RR:
        yield
        return
    before = os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(before.sched_priority + 1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_RR, before)


@functools.lru_cache(maxsize=1)
def watch(
    setting: Setting, queues: int = QUEUES, dead: int = DEAD, keys: int = KEYS_PRESSED, seconds: float = WATCHED_S
) -> dict[str, Any]:
    """One run of the console, which all figures but the first frame are taken from."""
    with setting.server() as server:
        fill(server.raw, queues, dead)
        server.raw.config_resetstat()
        with (
            changing("bench.console", server.url, setting.pins.server, str(queues)),
            Terminal(["-m", "qdeck_console", "--url", server.url, "console"], setting.pins.client) as terminal,
        ):
            terminal.until(f"{queues:,}".encode())
            terminal.rest(12.0)  # every queue was read once more, and what only happens at the start is over
            process = terminal.process
            before, at = process.cpu_times(), time.perf_counter()
            terminal.rest(seconds)
            after, passed = process.cpu_times(), time.perf_counter() - at
            cpu = 100 * (after.user + after.system - before.user - before.system) / passed
            with before_others():
                took = key_times(terminal, keys)
            rss = process.memory_info().rss / 2**20
    found = {f"p{p}_ms": took[min(len(took) - 1, math.floor(len(took) * p / 100))] for p in (50, 90, 99)}
    return {**found, "worst_ms": took[-1], "cpu_percent": cpu, "rss_mb": rss, "queues": queues, "dead": queues * dead}


def figures() -> list[Figure]:
    """The figures of the console."""

    def one(name: str) -> Any:
        return lambda setting: Sample(reached=watch(setting)[name], more=watch(setting))

    title = f"console on {QUEUES:,} changing queues, {QUEUES * DEAD:,} dead letters: "
    common: dict[str, Any] = {"at_least": False, "once": True}
    return [
        Figure(key="console", title=f"{title}key to frame p99", unit=" ms", aim=50, measure=one("p99_ms"), **common),
        Figure(key="console_cpu", title=f"{title}of a core", unit=" %", aim=15, measure=one("cpu_percent"), **common),
        Figure(key="console_memory", title=f"{title}memory", unit=" MB", aim=150, measure=one("rss_mb"), **common),
    ]


if __name__ == "__main__":
    feed(sys.argv[2], int(sys.argv[3]))
