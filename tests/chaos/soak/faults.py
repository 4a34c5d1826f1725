"""What goes wrong during a soak: each fault begins, lasts a moment, and is repaired."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

import redis

from support.proxy import Side

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.soak.crew import Crew
    from support.processes import PythonProcess


def _some(crew: Crew, kind: str) -> PythonProcess:
    return crew.dice.choice(crew.members[kind])


def _kill(kind: str) -> Callable[[Crew], None]:
    def strike(crew: Crew) -> None:
        _some(crew, kind).kill9()

    return strike


def _freeze(kind: str, least_s: float, most_s: float) -> Callable[[Crew], None]:
    def strike(crew: Crew) -> None:
        process = _some(crew, kind)
        process.freeze()
        time.sleep(crew.dice.uniform(least_s, most_s))
        process.thaw()

    return strike


def _terminate_worker(crew: Crew) -> None:
    _some(crew, "worker").terminate()


def _kill_several_workers(crew: Crew) -> None:
    for process in crew.members["worker"][:-1]:
        process.kill9()


def _cut(crew: Crew) -> None:
    crew.proxy.reset_all()


def _drop_replies(crew: Crew) -> None:
    crew.proxy.drop_next_reply(b"EVALSHA", times=10)
    time.sleep(1)
    crew.proxy.heal()


def _latency(crew: Crew) -> None:
    crew.proxy.latency(0.2)
    time.sleep(1.5)
    crew.proxy.heal()


def _blackhole(crew: Crew) -> None:
    crew.proxy.blackhole(crew.dice.choice([None, *Side]), lose=crew.dice.random() < 0.5)
    time.sleep(1.5)
    crew.proxy.heal()


def _freeze_server(crew: Crew) -> None:
    crew.server.freeze()
    time.sleep(crew.dice.uniform(0.5, 3))
    crew.server.thaw()


def _kill_server(crew: Crew) -> None:
    crew.server.kill9()
    time.sleep(crew.dice.uniform(0, 1))
    crew.server.relaunch()


def _command(*words: str) -> Callable[[Crew], None]:
    def strike(crew: Crew) -> None:
        with crew.server.client(timeout_s=30) as client, contextlib.suppress(redis.ConnectionError):
            client.execute_command(*words)

    return strike


def _setting(name: str, value: str, normal: str) -> Callable[[Crew], None]:
    def strike(crew: Crew) -> None:
        with crew.server.client(timeout_s=30) as client:
            client.config_set(name, value)
            time.sleep(1)
            client.config_set(name, normal)

    return strike


FAULTS: Final[dict[str, Callable[[Crew], None]]] = {
    "a worker is killed": _kill("worker"),
    "all workers but one are killed": _kill_several_workers,
    "a worker is frozen for longer than its leases": _freeze("worker", 2, 5),
    "a worker is asked to stop": _terminate_worker,
    "a producer is killed": _kill("producer"),
    "a producer is frozen": _freeze("producer", 0.5, 3),
    "an operator is killed": _kill("operator"),
    "an agent is killed": _kill("agent"),
    "an agent is frozen": _freeze("agent", 1, 4),
    "all connections are cut": _cut,
    "replies of scripts are lost": _drop_replies,
    "the network is slow": _latency,
    "the network is silent": _blackhole,
    "the server is frozen": _freeze_server,
    "the server is killed and started again": _kill_server,
    "the server forgets its scripts": _command("SCRIPT", "FLUSH"),
    "the server closes all connections": _command("CLIENT", "KILL", "TYPE", "normal"),
    "the server is out of memory": _setting("maxmemory", "1mb", "0"),
    "the server has too few replicas": _setting("min-replicas-to-write", "1", "0"),
}
