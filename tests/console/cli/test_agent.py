"""`qdeck agent` as scripts and systemd see it."""

from __future__ import annotations

import http.client
import json
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from qdeck_console.__main__ import main
from support.commands import write_trusted

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.processes import PythonProcess

TOKEN = "a-token-of-tests-1234567890"
MODULE = ("-m", "qdeck_console", "agent")


@pytest.fixture
def start(url: str, make_process: Callable[..., PythonProcess], tmp_path: Path) -> Callable[..., PythonProcess]:
    def run(*more: str, env: dict[str, str] | None = None) -> PythonProcess:
        environment = {"QDECK_URL": url, "XDG_CONFIG_HOME": str(tmp_path), **(env or {})}
        process = make_process(*MODULE, *more, env=environment, cwd=tmp_path)
        process.wait_for("started")
        return process

    return run


@pytest.fixture
def refuse(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    monkeypatch.delenv("QDECK_URL", raising=False)
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.delenv("QDECK_HTTP_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> tuple[int, str]:
        code = main(("agent", *args))
        shown = capsys.readouterr()
        assert shown.out == ""
        return code, shown.err

    return run


def events(process: PythonProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in process.stdout]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_an_orderly_way(start: Callable[..., PythonProcess], number: int) -> None:
    process = start("--json")
    process.signal(number)
    assert process.wait() == 0
    told = events(process)
    assert [one["event"] for one in told if one["event"] != "ran"] == ["started", "stopping", "stopped"]
    assert all({"at", "agent", "event"} <= set(one) for one in told)
    assert process.stderr == []


def test_every_run_is_a_line(start: Callable[..., PythonProcess]) -> None:
    process = start("--health-every", "0.3", "--purge-every", "0.5")
    process.wait_for("dry_run=false")
    process.wait_for(" health ")
    process.terminate()
    assert process.wait() == 0
    [first, *_] = [line for line in process.stdout if " health " in line]
    assert "status=healthy" in first
    assert any(" purge " in line and "dry_run=false" in line for line in process.stdout)


def test_sighup_starts_it_anew_with_the_configuration_of_now(
    start: Callable[..., PythonProcess], tmp_path: Path
) -> None:
    process = start("--json")
    assert "health" not in events(process)[0]["tasks"]
    write_trusted(tmp_path / "qdeck.toml", "[health]\nhealth_check_enabled = true\nhealth_check_interval = 7\n")
    process.signal(signal.SIGHUP)
    process.wait_for('"health": 7')
    process.terminate()
    assert process.wait() == 0


def test_the_file_switches_purge_on(start: Callable[..., PythonProcess], tmp_path: Path, raw: redis.Redis) -> None:
    write_trusted(tmp_path / "qdeck.toml", "[purge]\npurge_enabled = true\npurge_dry_run = true\npurge_interval = 9\n")
    process = start("--json")
    line = json.loads(process.wait_for('"task": "purge"'))
    assert line["dry_run"] is True
    assert events(process)[0]["tasks"]["purge"] == 9


def test_the_api_with_a_token_of_the_environment_which_is_shown_nowhere(start: Callable[..., PythonProcess]) -> None:
    process = start("--http", "127.0.0.1:0", "--json", env={"QDECK_HTTP_TOKEN": TOKEN})
    address = events(process)[0]["http"]
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=10)
    connection.request("GET", "/api/v1/queue/health", headers={"X-AUTH-TOKEN": TOKEN})
    assert json.load(connection.getresponse())["status"] == "healthy"
    connection.close()
    arguments = Path(f"/proc/{process.pid}/cmdline")
    if arguments.exists():
        assert TOKEN.encode() not in arguments.read_bytes()
    process.terminate()
    assert process.wait() == 0
    assert TOKEN not in process.output


def test_passwords_are_shown_nowhere(
    make_server: Callable[..., Any], make_process: Callable[..., PythonProcess]
) -> None:
    server = make_server(password="hunter2")
    process = make_process(*MODULE, "--json", "--health-every", "0.3", env={"QDECK_URL": server.url})
    process.wait_for('"task": "health"')
    server.kill9()
    process.wait_for('"waiting"')
    process.terminate()
    assert process.wait() == 0
    assert "hunter2" not in process.output


def test_wrong_use(refuse: Callable[..., tuple[int, str]]) -> None:
    assert refuse() == (64, refuse()[1])
    assert "no server given" in refuse()[1]
    for args, words in (
        (("--http", "nowhere"), "HOST:PORT"),
        (("--purge-every", "0"), "range"),
        (("--health-every", "soon"), "not a valid float"),
        (("--purge-every", "1e9"), "31d"),
    ):
        code, told = refuse("--url", "redis://127.0.0.1:1", *args)
        assert (code, words in told) == (64, True), told


def test_a_server_that_is_not_there(refuse: Callable[..., tuple[int, str]]) -> None:
    code, told = refuse("--url", "redis://:hunter2@127.0.0.1:1")
    assert code == 69
    assert "hunter2" not in told


def test_a_token_that_can_be_guessed(refuse: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDECK_HTTP_TOKEN", "letmein")
    code, told = refuse("--url", "redis://127.0.0.1:1", "--http", ":0")
    assert (code, "letmein" in told) == (64, False)


def test_production_wants_its_name(url: str, refuse: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    write_trusted(tmp_path / "qdeck.toml", f'[contexts.live]\nurl = "{url}"\nenvironment = "production"\n')
    code, told = refuse("--context", "live")
    assert code == 77
    assert "--confirm live" in told


def test_production_with_its_name_is_worked_on(start: Callable[..., PythonProcess], url: str, tmp_path: Path) -> None:
    write_trusted(tmp_path / "qdeck.toml", f'[contexts.live]\nurl = "{url}"\nenvironment = "production"\n')
    process = start("--context", "live", "--confirm", "live", "--health-every", "0.3", "--json")
    process.wait_for('"ran", "task": "health"')


def test_without_the_extra_the_api_is_refused_and_the_rest_works(
    url: str, make_process: Callable[..., PythonProcess]
) -> None:
    blocked = "import sys; sys.modules['uvicorn'] = None; from qdeck_console.__main__ import main; "
    process = make_process("-c", f"{blocked}sys.exit(main(['agent', '--http', ':0', '--url', {url!r}]))")
    assert process.wait() == 64
    assert "pip install 'qdeck[agent]'" in process.output
    other = make_process("-c", f"{blocked}sys.exit(main(['agent', '--url', {url!r}]))")
    other.wait_for("started")
    time.sleep(0.1)
    other.terminate()
    assert other.wait() == 0


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("agent", "--help")) == 0
    shown = capsys.readouterr().out
    for word in ("--purge-every", "--health-every", "--clean-every", "--http", "QDECK_HTTP_TOKEN"):
        assert word in shown
