"""An operator of the soak: runs commands of `qdeck` one after another, as a person on call with too much coffee."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Final

from chaos.jobs import NOTES_URL
from chaos.soak.app import FIRST, QUEUES, SECOND
from qdeck_console.__main__ import main as qdeck
from support.servers import raw_client

FAULTS: Final = "soak:faults"  # a list on the notebook's server: what no command may ever do
COMMANDS: Final = "soak:commands"  # a hash there: verb and exit code → how often
LOOKS: Final = (
    ("status",),
    ("health",),
    ("stuck",),
    ("dead", "--group"),
    ("dead", "--limit", "20"),
    ("jobs", FIRST, "--limit", "20"),
    ("workers",),
    ("schedule", "list"),
    ("doctor",),
)
_EXIT_CODES: Final = {0, 1, 2, 69, 77}
_MAY_FIND_NOTHING: Final = {"undo", "job"}  # 64: no batch to undo, or the job is gone


class Operator:
    """Chooses commands at random; every verb that one has comes up."""

    def __init__(self, url: str, seed: str, scratch: Path) -> None:
        self._url = url
        self._dice = random.Random(seed)
        self._payload = scratch / f"payload-{seed}.json"
        self._payload.write_text("[[0.01],{}]", encoding="utf-8")

    def choose(self) -> list[str]:
        """Return the next command."""
        dice = self._dice
        queue = dice.choice(QUEUES)
        other = SECOND if queue == FIRST else FIRST
        some = f"attempts>=0 {self._letter()}"
        kind = dice.randrange(100)
        if kind < 20:
            return list(dice.choice(LOOKS))
        if kind < 38:
            return ["dead", "retry", queue, "--where", some, "--yes"]
        if kind < 44:
            return ["dead", "retry", queue, "--rate", "200/s", "--sample", "2", "--where", some, "--yes"]
        if kind < 54:
            return ["dead", "discard", queue, "--where", some, "--yes"]
        if kind < 58:
            return ["jobs", "discard", queue, "--state", "done", "--where", some, "--yes"]
        if kind < 62:
            return ["jobs", "cancel", queue, "--where", f"priority>=200 {some}", "--yes"]
        if kind < 66:
            return ["jobs", "move", queue, "--to", other, "--create", "--state", "delayed", "--where", some, "--yes"]
        if kind < 69:
            return ["jobs", "reprioritise", queue, "--priority", "LOW", "--where", some, "--yes"]
        if kind < 72:
            return ["jobs", "run", queue, "--where", some, "--yes"]
        if kind < 75:
            return ["requeue", queue, "--yes"]
        if kind < 78:
            return ["bury", queue, "--where", some, "--yes"]
        if kind < 82:
            return self._edit(queue)
        if kind < 87:
            return ["purge", "--rule", "dead_too_old", "--set", "dlq_ttl=0.002", "--now", "--yes"]
        if kind < 89:
            return ["queues", "pause", queue]
        if kind < 92:
            return ["queues", "resume", queue]
        return ["undo", "--yes"]

    def run(self, command: list[str]) -> tuple[int, str]:
        """Run one command in this process; return its exit code and what it wrote on stdout."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = qdeck([*command, "--json", "--url", self._url])
            except SystemExit as stop:
                code = int(stop.code or 0)
        if "Traceback" in err.getvalue():
            raise RuntimeError(err.getvalue())
        return code, out.getvalue()

    def _letter(self) -> str:
        """A filter that takes about a tenth of the jobs: ids end in digits."""
        return f"id:*{self._dice.randrange(10)}"

    def _edit(self, queue: str) -> list[str]:
        code, out = self.run(["dead", queue, "--limit", "5", "--where", "task:*quick"])
        found: list[dict[str, Any]] = json.loads(out) if code == 0 and out else []
        if not found:
            return ["status"]
        return ["job", "edit", queue, self._dice.choice(found)["id"], "--payload", str(self._payload)]


def main(seed: str) -> None:
    """Run commands until this process is ended."""
    notebook = raw_client(os.environ[NOTES_URL], timeout_s=30)
    operator = Operator(os.environ["SOAK_URL"], seed, Path(os.environ["XDG_STATE_HOME"]))
    print("operating", flush=True)  # noqa: T201 - what the soak waits for
    while True:
        try:
            command = operator.choose()
            code, _ = operator.run(command)
            if code not in _EXIT_CODES and not (code == 64 and command[0] in _MAY_FIND_NOTHING):
                notebook.rpush(FAULTS, f"exit code {code}: qdeck {' '.join(command)}")
            notebook.hincrby(COMMANDS, f"{' '.join(command[:2])} → {code}")
        except Exception:  # noqa: BLE001 - whatever it is, the soak reports it
            notebook.rpush(FAULTS, traceback.format_exc())
        time.sleep(float(os.environ["SOAK_PAUSE"]))


if __name__ == "__main__":
    main(sys.argv[1])
