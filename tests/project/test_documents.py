"""Every block of code in the documentation does what its page says, on a real server."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

import qdeck
from core.adapters import afternoons
from core.adapters.test_conformance import FILL
from core.adapters.vmpooler import written
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

FILES: Final = {
    "fixed.json": '[["mended"], {}]',
    "shop_jobs.py": "import qdeck\n\napp = qdeck.App(queue='shop:mail:actions')\n\n\n@app.task\ndef send(*args): ...\n",
    "agent.toml": "[purge]\npurge_enabled = true\npurge_dry_run = true\n[health]\nhealth_check_enabled = true\n",
    "broken.toml": "[purge]\npurge_intervall = 60\n",
    "here.toml": '[contexts.a]\nurl = "redis://a"\n',
    "qdeck.toml": '[contexts.shop]\nurl = "$OTHER"\nenvironment = "production"\n',
}
# Pages whose code is run by a test of their own, or needs more than one server or a worker of another system.
TESTED_BY: Final = {
    "core/docs/how-to/migrate-from-scheduler.md": "core/compat/test_scheduler.py",
    "core/docs/reference/servers.md": "servers/test_durable.py",
    "core/docs/how-to/migrate-from-http.md": "core/messages/test_migration.py",
    "core/docs/how-to/migrate-from-ifdb.md": "core/compat/test_ifdb_outcomes.py",
    "core/docs/how-to/write-an-adapter.md": "core/adapters/test_authors_page.py",
    "console/docs/how-to/add-a-screen.md": "console/test_new_screen.py",
}
DOCUMENTS: Final = sorted(
    str(page.relative_to(ROOT))
    for page in [
        *ROOT.glob("*.md"),
        *ROOT.glob("core/**/*.md"),
        *ROOT.glob("console/**/*.md"),
        ROOT / "tests/README.md",
    ]
)
PAGES: Final = [page for page in DOCUMENTS if "\n```" in (ROOT / page).read_text("utf-8")]
_UNWRAPPED: Final = re.compile(
    r"<!-- generated: .*?<!-- end -->|^```.*?^```$|^(?:\||!\[|<!--)[^\n]*|^`[^`\n]*`$", re.DOTALL | re.MULTILINE
)


@dataclass(slots=True)
class Stage:
    """The server that a page is run on, and what its scenes bring about."""

    url: str
    raw: Any  # a redis client: its replies have too many types
    beside: contextlib.ExitStack

    def set(self, scene: str) -> None:
        """Bring about what the blocks below are for."""
        scenes = {
            "an empty server": self.raw.flushall,
            "a relay that works again": self._fail_and_mend,
            "a paused queue": self._pause,
            "an old job": self._age,
            "a full server": self._fill,
            "an afternoon of VMPooler": self._pool,
            "an afternoon of IFDB": lambda: self._afternoon(afternoons.ifdb),
            "an afternoon of the scheduler": lambda: self._afternoon(afternoons.scheduler),
        }
        if scene.startswith("a server of "):
            self.raw.flushall()
            FILL[scene.rpartition(" ")[2]]().populate(self.raw)
        else:
            scenes[scene]()

    def _pool(self) -> None:
        self.raw.flushall()
        written.populate(self.raw)

    def _afternoon(self, write: Callable[[Any], None]) -> None:
        self.raw.flushall()
        write(self.raw)

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

    def _pause(self) -> None:
        with Writer(self.url) as writer:
            writer.enqueue("shop:paused:actions", "send")
            writer.pause("shop:paused:actions")

    def _age(self) -> None:
        done = f"{{{QUEUE}}}:done"
        self.raw.zadd(done, {self.raw.zrange(done, -1, -1)[0]: 1000 * (int(time.time()) - 7200)})

    def _fill(self) -> None:
        used = int(self.raw.info("memory")["used_memory"])
        self.raw.config_set("maxmemory", used * 3 // 4)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("page", [page for page in PAGES if page not in TESTED_BY])
def test_every_block_of_a_page_does_what_the_page_says(
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
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        write_trusted(tmp_path / name, text.replace("$OTHER", server.url.replace("/0", "/1")))
    with server.client() as raw:
        words = make_scene(server.url, raw).words()
        words |= {"READER": server.url.replace("redis://", "redis://reader:pw@"), "URL": server.url}
        raw.execute_command("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read")
        guide = Guide(runner(capsys), raw, server.url, words, tmp_path, _free_port())
        steps = list(read_steps(ROOT / page))
        assert steps
        try:
            for heading in dict.fromkeys(step.heading for step in steps):
                with contextlib.ExitStack() as beside:
                    stage = Stage(server.url, raw, beside)
                    for step in steps:
                        if step.heading != heading:
                            continue
                        if step.kind == "scene":
                            stage.set(step.text)
                        elif shutil.which("curl") or not step.text.startswith("curl "):
                            guide.do(step)
                    guide.end()
        finally:
            guide.kill()


@pytest.mark.parametrize(("page", "test"), TESTED_BY.items())
def test_a_page_with_a_test_of_its_own_has_one(page: str, test: str) -> None:
    assert page in PAGES
    assert (ROOT / "tests" / test).is_file()


@pytest.mark.parametrize("page", DOCUMENTS)
def test_the_lines_of_a_page_wrap_at_100_columns(page: str) -> None:
    """Tables, pictures, code and what is generated are left as they are."""
    text = _UNWRAPPED.sub("", (ROOT / page).read_text("utf-8"))
    assert [line for line in text.splitlines() if len(line) > 100] == []
