"""A qdeck.toml that came with a directory costs little to ignore, whatever is in it, and looks nothing up."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from qdeck import InvalidOption
from qdeck._settings import read_text, trusted_files
from qdeck.admin import load_configuration
from qdeck_console.cli.base import read_only_hint

if TYPE_CHECKING:
    from pathlib import Path

PRODUCTION: Final = 'environment = "production"\n'
HOSTILE: Final = {
    "deep lists": "x = " + "[" * 50_000,
    "deep tables": "x = " + "{a = " * 50_000,
    "many digits": "x = " + "1" * 10_000,
    "a long dotted key": ".".join("a" * 100_000) + " = 1",
    "a dotted key in a small file": ".".join("a" * 16_000) + " = 1",
    "a long dotted header": f"[{'.'.join('a' * 100_000)}]",
    "blanks after a bracket": 'x = 1\ny = """\n[' + " " * 100_000 + '\n"""',
    "many contexts": "".join(f'[contexts.c{at}]\nurl = "redis://h{at}.example"\n{PRODUCTION}' for at in range(20_000)),
    "many hosts": f'[contexts.c]\nurl = "redis+cluster://{",".join(f"h{at}" for at in range(50_000))}"\n{PRODUCTION}',
    "a few thousand hosts": f'[contexts.c]\nurl = "redis+cluster://{",".join("ab" * 2_000)}"\n{PRODUCTION}',
    "a null in a socket": f'[contexts.c]\nurl = "unix:///tmp/\\u0000"\n{PRODUCTION}',
    "a null in a host": f'[contexts.c]\nurl = "redis://a%00b"\n{PRODUCTION}',
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory, and a user without a configuration."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "qdeck.toml"


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that the resolver was asked for."""
    asked: list[str] = []

    def look_up(host: str, port: object, *, type: int = 0, flags: int = 0) -> list[Any]:
        if flags & socket.AI_NUMERICHOST:
            return real(host, None, type=type, flags=flags)
        asked.append(host)
        return [(0, 0, 0, "", ("10.1.0.1", 0))]

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


@pytest.mark.timeout(20)
@pytest.mark.parametrize("url", ["redis://server.example", "unix:///run/redis.sock"])
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_ignored_at_once(here: Path, looked_up: list[str], what: str, url: str) -> None:
    here.write_text(HOSTILE[what])
    started = time.process_time()
    target = load_configuration().target_at(url)
    assert time.process_time() - started < 3, "seconds of processor time"
    assert (target.url, target.is_production) == (url, False)
    assert set(looked_up) <= {"server.example"}, "what a foreign file names is looked up nowhere"


def test_of_a_large_file_little_is_read(here: Path) -> None:
    with here.open("wb") as file:
        file.truncate(1 << 40)
    found = load_configuration()
    assert found.ignored
    with pytest.raises(InvalidOption, match="larger than"):
        load_configuration(here)


def test_a_pipe_in_its_place_is_not_waited_for(here: Path) -> None:
    os.mkfifo(here)
    assert load_configuration().file is None


def test_production_contexts_of_a_foreign_file_hold_without_looking_up_their_names(
    here: Path, looked_up: list[str]
) -> None:
    here.write_text(
        f'[contexts.name]\nurl = "redis://Server.example"\n{PRODUCTION}'
        f'[contexts.address]\nurl = "redis://10.1.0.1:6380"\n{PRODUCTION}'
    )
    found = load_configuration()
    assert found.target_at("redis://server.example").name == "name"
    assert found.target_at("redis://alias.example:6380").name == "address"
    assert looked_up == ["alias.example"]


@pytest.mark.parametrize("what", ["deep lists", "deep tables", "many digits"])
def test_what_no_parser_takes_is_an_error_with_the_file(what: str) -> None:
    with pytest.raises(InvalidOption, match=r"qdeck\.toml is not TOML"):
        read_text(HOSTILE[what])


def test_a_name_of_a_foreign_file_is_quoted_where_it_is_to_be_pasted(here: Path) -> None:
    here.write_text(f'[contexts."x; reboot"]\nurl = "redis://10.1.0.1"\n{PRODUCTION}')
    hint = read_only_hint(load_configuration().target_at("redis://10.1.0.1"), None)
    assert hint is not None
    assert hint.endswith("add --confirm 'x; reboot'.")


def test_a_link_does_not_borrow_the_trust_of_another_file(here: Path, tmp_path: Path) -> None:
    """Otherwise a directory could choose among the trusted files of its reader."""
    other = tmp_path / "project" / "qdeck.toml"
    other.parent.mkdir()
    other.write_text('default_context = "a"\n[contexts.a]\nurl = "redis://10.1.0.1"\n')
    trusted_files.add(other, other.read_bytes())
    here.symlink_to(other)
    assert load_configuration().file is None
    trusted_files.add(here, here.read_bytes())
    assert load_configuration().file == here.relative_to(tmp_path)
