"""Production is recognised behind an address that no configuration names: by what the server itself shows."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
import redis

from qdeck import NotAllowed, QdeckError
from qdeck._server import server_identity
from qdeck._settings import read_text
from qdeck.admin import AsyncWriter, Writer
from support.clusters import wait_for
from support.commands import runner
from support.servers import raw_client

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.clusters import Cluster, Trio
    from support.commands import Ran
    from support.proxy import FaultProxy
    from support.servers import Server


@pytest.fixture
def refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[str, str], None]:
    """Checks that a URL is not written to because it is the server of a production context, whose URL comes first."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("QDECK_URL", raising=False)
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    qdeck: Callable[..., Ran] = runner(capsys)

    def check(production: str, url: str) -> None:
        (tmp_path / "c.toml").write_text(f'[contexts.shop]\nurl = "{production}"\nenvironment = "production"\n')
        for line in ("enqueue shop:mail:actions send", "clean t-1 --idle 0 --yes", "queues pause shop:mail:actions"):
            ran = qdeck(*line.split(), "--config", "c.toml", "--url", url)
            assert ran.code == 77, (line, ran)
            assert "is the server of the production context 'shop'" in ran.err
            assert "--context shop --confirm shop" in ran.err
        assert qdeck("status", "--config", "c.toml", "--url", url).code in (0, 1), "looking takes nothing"
        with raw_client(url.replace("+cluster", "")) as raw:
            assert raw.dbsize() == 0

    return check


def test_behind_a_tunnel(
    refused: Callable[[str, str], None], make_server: Callable[..., Server], make_proxy: Callable[[str], FaultProxy]
) -> None:
    server = make_server()
    refused(server.url, make_proxy(server.url).url)


def test_its_socket_beside_its_port(
    refused: Callable[[str, str], None], make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = make_server("--unixsocket", str(tmp_path / "r.sock"))
    refused(server.url, f"unix://{tmp_path}/r.sock")
    refused(f"unix://{tmp_path}/r.sock", server.url)


def test_a_node_of_its_cluster(refused: Callable[[str, str], None], make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    first, second = (f"redis://127.0.0.1:{node.port}" for node in cluster.nodes[:2])
    refused(first.replace("redis://", "redis+cluster://"), second)
    refused(first.replace("redis://", "redis+cluster://"), second.replace("redis://", "redis+cluster://"))


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_master_of_its_sentinels(refused: Callable[[str, str], None], make_trio: Callable[..., Trio]) -> None:
    trio = make_trio()
    refused(trio.url, trio.master().url)


def test_another_database_and_another_server_are_others(
    make_server: Callable[..., Server], make_proxy: Callable[[str], FaultProxy], tmp_path: Path
) -> None:
    production, other = make_server(), make_server()
    found = read_text(f'[contexts.shop]\nurl = "{production.url}"\nenvironment = "production"\n')
    for url in (other.url, make_proxy(production.url).url.replace("/0", "/4")):
        target = found.target_at(url)
        with Writer(url, production=target.production) as writer:
            writer.enqueue("shop:mail:actions", "send")


def test_production_that_cannot_be_reached_holds_nobody_up_for_long(make_server: Callable[..., Server]) -> None:
    production, other = make_server(), make_server()
    found = read_text(f'[contexts.shop]\nurl = "{production.url}"\nenvironment = "production"\n')
    production.freeze()
    try:
        with Writer(other.url, production=found.target_at(other.url).production) as writer:
            writer.enqueue("shop:mail:actions", "send")
    finally:
        production.thaw()


def test_production_that_was_away_for_a_moment_is_recognised(
    make_server: Callable[..., Server], make_proxy: Callable[[str], FaultProxy]
) -> None:
    """The server to be written to answers late; so does production, as it is the same one."""
    server = make_server()
    found = read_text(f'[contexts.shop]\nurl = "{server.url}"\nenvironment = "production"\n')
    url = make_proxy(server.url).url
    server.freeze()
    thaw = threading.Timer(2 * server_identity.PROBE_S, server.thaw)
    thaw.start()
    try:
        with (
            Writer(url, production=found.target_at(url).production) as writer,
            pytest.raises(NotAllowed, match="'shop'"),
        ):
            writer.enqueue("shop:mail:actions", "send")
    finally:
        thaw.join()
    with server.client() as raw:
        assert raw.dbsize() == 0


def test_a_server_that_is_busy_with_a_script_is_compared_later(
    make_server: Callable[..., Server], make_proxy: Callable[[str], FaultProxy]
) -> None:
    """Meanwhile it does not say who it is. That must not count as a comparison."""
    server = make_server()
    found = read_text(f'[contexts.shop]\nurl = "{server.url}"\nenvironment = "production"\n')
    url = make_proxy(server.url).url
    with server.client() as raw, Writer(url, production=found.target_at(url).production) as writer:
        raw.config_set("busy-reply-threshold", 50)
        script = threading.Thread(target=_run_endless_script, args=(server,))
        script.start()
        wait_for(lambda: _is_busy(server), "a busy server")
        try:
            with pytest.raises(QdeckError, match="BUSY"):
                writer.enqueue("shop:mail:actions", "send")
        finally:
            raw.script_kill()
            script.join()
        with pytest.raises(NotAllowed, match="'shop'"):
            writer.enqueue("shop:mail:actions", "send")
        assert raw.dbsize() == 0


def _run_endless_script(server: Server) -> None:
    with server.client(timeout_s=30) as raw, contextlib.suppress(redis.ResponseError):
        raw.eval("while true do end", 0)


def _is_busy(server: Server) -> bool:
    with server.client() as raw:
        try:
            raw.ping()
        except redis.ResponseError as error:
            return "BUSY" in str(error)
    return False


@pytest.mark.parametrize("doubt", ["foreign file", "unknown name"])
def test_the_name_of_another_context_does_not_open_a_tunnel(
    refused: Callable[[str, str], None], make_server: Callable[..., Server], make_proxy: Callable[[str], FaultProxy],
    capsys: pytest.CaptureFixture[str], tmp_path: Path, doubt: str,
) -> None:  # fmt: skip
    """A foreign file, or a name that cannot be resolved, makes a URL that of a context which it may not be."""
    server = make_server()
    tunnel = make_proxy(server.url).url
    own = tmp_path / "config" / "qdeck" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f'[contexts.shop]\nurl = "{server.url}"\nenvironment = "production"\n')
    other = f'[contexts.other]\nurl = "{tunnel}"\nenvironment = "production"\n'
    if doubt == "foreign file":
        (tmp_path / "qdeck.toml").write_text(other)
    else:
        own.write_text(own.read_text() + other.replace("127.0.0.1", "no.such.name.invalid"))
    ran = runner(capsys)("enqueue", "shop:mail:actions", "send", "--url", tunnel, "--confirm", "other")
    assert (ran.code, "--context shop --confirm shop" in ran.err) == (77, True), ran
    with server.client() as raw:
        assert raw.dbsize() == 0


async def test_a_console_is_refused_and_stays_so(
    make_server: Callable[..., Server], make_proxy: Callable[[str], FaultProxy]
) -> None:
    server = make_server()
    found = read_text(f'[contexts.shop]\nurl = "{server.url}"\nenvironment = "production"\n')
    url = make_proxy(server.url).url
    async with AsyncWriter(url, production=found.target_at(url).production) as writer:
        for _ in range(2):
            with pytest.raises(NotAllowed):
                await writer.pause("shop:mail:actions")
    await asyncio.sleep(0)


@pytest.mark.parametrize("command", [["agent"], ["worker", "tests_app:app"]])
def test_what_writes_past_a_deck_is_refused(
    make_server: Callable[..., Server], make_proxy: Callable[[str], FaultProxy], tmp_path: Path, command: list[str]
) -> None:
    server = make_server()
    (tmp_path / "tests_app.py").write_text("import qdeck\n\napp = qdeck.App(queue='shop:mail:actions')\n")
    (tmp_path / "c.toml").write_text(f'[contexts.shop]\nurl = "{server.url}"\nenvironment = "production"\n')
    ran = subprocess.run(
        [sys.executable, "-m", "qdeck_console", *command, "--config", "c.toml", "--url", make_proxy(server.url).url],
        cwd=tmp_path, env=os.environ | {"XDG_CONFIG_HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 77, ran
    assert "the production context 'shop'" in ran.stderr
    with server.client() as raw:
        assert raw.dbsize() == 0
