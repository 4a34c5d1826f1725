"""The state directory is for its user alone: one that others can write to, or that is somebody else's, is refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from qdeck import NotAllowed
from qdeck._operations.planfile import plans_dir
from qdeck._private_files import private_folder
from qdeck._server import activity_log
from qdeck.adapters import discovery
from qdeck.admin import state_dir

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.commands import Ran


@pytest.fixture
def open_state(own_state: Path) -> Path:
    """A state directory to which everybody can write."""
    folder = own_state / "qdeck"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    return folder


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722, 0o1777])
def test_a_directory_that_others_can_write_to_is_refused(open_state: Path, mode: int) -> None:
    open_state.chmod(mode)
    with pytest.raises(NotAllowed, match=rf"can be written by others \(mode {mode & 0o777:04o}\)") as caught:
        state_dir()
    assert f"chmod 700 {open_state}" in caught.value.hint
    assert open_state.stat().st_mode & 0o777 == mode & 0o777, "it is for its user to look what is in it"


def test_a_directory_that_others_can_only_read_is_closed(open_state: Path) -> None:
    open_state.chmod(0o755)
    assert state_dir() == open_state
    assert open_state.stat().st_mode & 0o777 == 0o700


def test_a_directory_of_somebody_else_is_refused(own_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state_dir()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(NotAllowed, match="belongs to user"):
        state_dir()


def test_a_file_in_its_place_is_refused(own_state: Path) -> None:
    own_state.mkdir()
    (own_state / "qdeck").write_text("")
    with pytest.raises(NotAllowed, match="is not a directory"):
        state_dir()


@pytest.mark.parametrize("name", ["plans", "sights"])
def test_so_are_the_directories_in_it(name: str, own_state: Path) -> None:
    inside = state_dir() / name
    inside.mkdir()
    inside.chmod(0o777)
    with pytest.raises(NotAllowed, match="can be written by others"):
        private_folder(inside)
    if name == "plans":
        with pytest.raises(NotAllowed, match="can be written by others"):
            plans_dir()


def test_what_was_found_on_servers_is_neither_read_from_it_nor_written_to_it(own_state: Path) -> None:
    path = discovery.memory_path("redis://h")
    (own_state / "qdeck").chmod(0o777)
    path.write_bytes(b'{"passes": {"vmpooler x": {"cursor": "7", "found": {}, "next": {}, "passes": 0}}}')
    assert discovery.recall("redis://h").passes == {}
    before = path.read_bytes()
    discovery.remember("redis://h", discovery.Remembered(passes={}))
    assert path.read_bytes() == before


def test_a_link_in_place_of_the_activity_file_is_not_followed(own_state: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    (state_dir() / "activity.jsonl").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        activity_log.append(b"{}")
    assert victim.read_text() == "mine\n"


def test_a_command_says_so(qdeck: Callable[..., Ran], open_state: Path) -> None:
    ran = qdeck("purge")
    assert ran.code == 77
    assert "can be written by others" in ran.err
    assert "chmod 700" in ran.err
    checks = {check["name"]: check for check in qdeck("doctor", "--json").json["checks"]}
    assert "chmod 700" in checks["state_directory"]["hint"]
    assert qdeck("status").code == 0, "what needs no state works"
