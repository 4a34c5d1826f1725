"""The machine under the benchmarks: pinned processors, fresh servers, and what a server says about its own work."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import redis

from qdeck_console.embedded_server import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUEUE: Final = "bench:actions"
META: Final = "{" + QUEUE + "}:meta"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """The processors of server and client. Unpinned, the scheduler makes a round trip cost twice as much, or half."""

    server: int | None = None
    client: int | None = None

    @classmethod
    def parse(cls, text: str) -> Pins:
        """Reads `SERVER,CLIENT` or `none`; what the system cannot do is left out."""
        if text == "none":
            return cls()
        server, client = (int(number) for number in text.split(","))
        if not hasattr(os, "sched_setaffinity") or not {server, client} <= os.sched_getaffinity(0):
            return cls()
        return cls(server=server, client=client)

    def __str__(self) -> str:
        return "not pinned" if self.server is None else f"server on CPU {self.server}, client on CPU {self.client}"


@contextlib.contextmanager
def on_cpu(cpu: int | None) -> Iterator[None]:
    """Runs a block, and what it starts, on one processor; on any when it is None."""
    if cpu is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a server did between two looks: calls per command, those inside scripts too, and processor time."""

    seconds: float
    cpu_s: float
    calls: dict[str, int]
    script_us: float
    memory: int

    @property
    def commands(self) -> int:
        """All calls together."""
        return sum(self.calls.values())


@dataclass(slots=True)
class Look:
    """A look at a server's counters; `since` tells what happened after an earlier one."""

    at: float
    info: dict[str, Any] = field(repr=False)

    def since(self, before: Look) -> Work:
        """The difference, without the looks themselves."""
        calls = {}
        for name, stats in self.info.items():
            if name.startswith("cmdstat_"):
                more = stats["calls"] - before.info.get(name, {"calls": 0})["calls"]
                if more and name != "cmdstat_info":
                    calls[name.removeprefix("cmdstat_")] = more
        return Work(
            seconds=self.at - before.at,
            cpu_s=_cpu(self.info) - _cpu(before.info),
            calls=calls,
            script_us=_script_us(self.info) - _script_us(before.info),
            memory=self.info["used_memory"] - before.info["used_memory"],
        )


def _cpu(info: dict[str, Any]) -> float:
    return float(info["used_cpu_user"] + info["used_cpu_sys"])


def _script_us(info: dict[str, Any]) -> float:
    return float(info.get("cmdstat_evalsha", {"usec": 0})["usec"])


class BenchServer:
    """A fresh server on its processor, without persistence, and a connection to look at it."""

    def __init__(self, pins: Pins, binary: Path | None = None) -> None:
        self.pins = pins
        self._server = EmbeddedServer(binary=binary)

    def __enter__(self) -> Self:
        with on_cpu(self.pins.server):
            self._server.start()
        self.raw = redis.Redis.from_url(self.url)
        return self

    def __exit__(self, *_: object) -> None:
        self.raw.close()
        self._server.stop()

    @property
    def url(self) -> str:
        """Where it is."""
        return self._server.url

    def look(self) -> Look:
        """Its counters now."""
        return Look(time.perf_counter(), self.raw.info("all"))

    def empty(self) -> None:
        """Drops all keys and waits until their memory is free: a lazy flush would slow down what is measured next."""
        self.raw.flushall(asynchronous=False)

    def version(self) -> str:
        """Its name and version."""
        info = self.raw.info("server")
        return f"{info.get('server_name', 'redis')} {info.get('valkey_version') or info['redis_version']}"
