"""The guides: every command of the runbook and of the troubleshooting page is run, on a real server."""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

import qdeck
from qdeck.admin import Writer
from support.beside import Beside
from support.commands import runner, write_trusted
from support.guides import Guide, read_steps
from support.pages import ROOT
from support.scene import QUEUE, make_scene
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.servers import Server

DOCS: Final = ROOT / "core" / "docs"
FILES: Final = {
    "fixed.json": '[["mended"], {}]',
    "shop_jobs.py": "import qdeck\n\napp = qdeck.App(queue='shop:mail:actions')\n\n\n@app.task\ndef send(*args): ...\n",
    "agent.toml": "[purge]\npurge_enabled = true\npurge_dry_run = true\n[health]\nhealth_check_enabled = true\n",
    "broken.toml": "[purge]\npurge_intervall = 60\n",
    "qdeck.toml": '[contexts.shop]\nurl = "$OTHER"\nenvironment = "production"\n',
}


@dataclass(slots=True)
class Stage:
    """Where a page is played, and what must be so before some of its headings."""

    url: str
    raw: Any  # a redis client: its replies have too many types
    beside: contextlib.ExitStack

    def set(self, heading: str) -> None:
        """Brings about what a heading is about."""
        if heading.startswith("Redrive"):
            self._fail_and_mend()
        if heading == "A queue is not drained":
            with Writer(self.url) as deck:
                deck.enqueue("shop:paused:actions", "send")
                deck.pause("shop:paused:actions")
        if heading == "The purge took the wrong things":
            done = f"{{{QUEUE}}}:done"
            self.raw.zadd(done, {self.raw.zrange(done, -1, -1)[0]: 1000 * (int(time.time()) - 7200)})
        if heading == "The server is full":
            used = int(self.raw.info("memory")["used_memory"])
            self.raw.config_set("maxmemory", used * 3 // 4)

    def _fail_and_mend(self) -> None:
        """A worker whose jobs die until what they need is there again; it goes on working."""
        app = qdeck.App(self.url, queue=QUEUE)
        mended = threading.Event()

        @app.task(retries=0)
        def send(*args: object) -> None:
            if not mended.is_set():
                raise TimeoutError("relay 7 timed out")

        ids = [send.enqueue(number).id for number in range(4)]
        self.beside.enter_context(Beside(app))
        wait_until(lambda: None not in self.raw.zmscore(f"{{{QUEUE}}}:dead_letter", ids))
        mended.set()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("page", ["runbook.md", "troubleshooting.md"])
def test_every_command_of_a_guide_does_what_the_guide_says(
    page: str,
    make_server: Callable[..., Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """'A troubleshooting guide and an operator's runbook, each step a command that was run'"""
    server = make_server()
    monkeypatch.setenv("QDECK_URL", server.url)
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.setenv("QDECK_HTTP_TOKEN", "a-token-of-tests-1234567890")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        write_trusted(tmp_path / name, text.replace("$OTHER", server.url.replace("/0", "/1")))
    with server.client() as raw:
        words = make_scene(server.url, raw).words()
        words |= {"READER": server.url.replace("redis://", "redis://reader:pw@"), "URL": server.url}
        raw.execute_command("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read")
        guide = Guide(runner(capsys), raw, words, tmp_path, _free_port())
        steps = list(read_steps(DOCS / page))
        assert len(steps) > 20
        try:
            for heading in dict.fromkeys(step.heading for step in steps):
                with contextlib.ExitStack() as beside:
                    Stage(server.url, raw, beside).set(heading)
                    for step in steps:
                        if step.heading == heading and (shutil.which("curl") or not step.line.startswith("curl ")):
                            guide.do(step)
                    guide.end()
        finally:
            guide.kill()
