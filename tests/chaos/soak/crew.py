"""All processes of a soak, the server they share, and the proxy between them."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from chaos.jobs import NOTES_URL
from chaos.soak.app import QUEUES, make_app
from chaos.soak.faults import FAULTS
from qdeck._engine import programs, transitions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes import PythonProcess
    from support.proxy import FaultProxy
    from support.servers import Server

CREW: Final = {"worker": 4, "producer": 2, "operator": 1, "agent": 2}
_READY: Final = {"worker": '"started"', "producer": "producing", "operator": "operating", "agent": "started"}


class Crew:
    """Keeps so many of each kind of process alive while faults strike."""

    def __init__(
        self,
        server: Server,
        proxy: FaultProxy,
        notes_url: str,
        state: Path,
        make_process: Callable[..., PythonProcess],
        seconds: float,
    ) -> None:
        self.server = server
        self.proxy = proxy
        self.dice = random.Random(int(os.environ.get("SOAK_SEED", "4711")))
        self.members: dict[str, list[PythonProcess]] = {kind: [] for kind in CREW}
        self.faults: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self._made = 0
        # The last 1,000 batches can be undone, and all of them are at the end: the longer it takes, the more seldom.
        self._env = {
            "SOAK_URL": proxy.url,
            "QDECK_URL": proxy.url,
            NOTES_URL: notes_url,
            "XDG_STATE_HOME": str(state),
            "SOAK_PAUSE": str(max(0.1, seconds / 800)),
        }
        self._make_process = make_process
        app = make_app(server.url)
        for queue in QUEUES:
            # All that ends is kept, so that it can be accounted for.
            ended = ("done", "dead", "cancelled")
            keep = {f"{name}_{limit}": "100000000" for name in ended for limit in ("max", "ttl")}
            app.client.run(programs.make_queue(queue))
            app.client.run(programs.call(transitions.configure(queue, keep)))
        app.close()

    def fill(self, *kinds: str) -> None:
        """Replace processes that have ended, of all kinds or of these, and wait until the new ones work."""
        fresh: list[tuple[str, PythonProcess]] = []
        for kind in kinds or CREW:
            wanted = CREW[kind]
            self.ended[kind] += sum(member.code is not None for member in self.members[kind])
            self.members[kind] = [member for member in self.members[kind] if member.code is None]
            while len(self.members[kind]) < wanted:
                member = self._start(kind)
                self.members[kind].append(member)
                fresh.append((kind, member))
        for kind, member in fresh:
            member.wait_for(_READY[kind], 60)

    def strike(self, until: float) -> None:
        """Let faults happen one after another, all kinds before any comes again."""
        while time.monotonic() < until:
            kinds = list(FAULTS)
            self.dice.shuffle(kinds)
            for kind in kinds:
                if time.monotonic() >= until:
                    break
                FAULTS[kind](self)
                self.faults[kind] += 1
                self.fill()
                time.sleep(self.dice.uniform(0.2, 1.5))

    def stop(self, kind: str) -> None:
        """End all processes of a kind: workers and agents in an orderly way, the others at once."""
        for member in self.members[kind]:
            if kind in ("worker", "agent"):
                member.terminate()
            else:
                member.kill9()
        for member in self.members[kind]:
            member.wait(60)
        self.members[kind] = []

    def report(self) -> str:
        """Return what the living processes wrote last, for the message of a failed test."""
        lines = []
        for kind, members in self.members.items():
            lines += [f"--- {kind} {member!r}\n{member.output[-1500:]}" for member in members]
        return "\n".join(lines)

    def _start(self, kind: str) -> PythonProcess:
        self._made += 1
        arguments = {
            "worker": ("-m", "chaos.soak.app"),
            "producer": ("-m", "chaos.soak.producer", f"p{self._made}"),
            "operator": ("-m", "chaos.soak.operator", f"o{self._made}"),
            "agent": ("-m", "qdeck_console", "agent", "--json"),
        }[kind]
        return self._make_process(*arguments, env=self._env)
