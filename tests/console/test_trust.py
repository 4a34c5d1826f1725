"""Which files are believed: the user's own always, one in the current directory only after it was trusted."""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import TYPE_CHECKING, Final

import pytest

from qdeck import InvalidOption, NotAllowed
from qdeck._settings import trusted_files
from qdeck.admin import load_configuration, save_settings, state_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis

    from support.commands import Ran

OWN: Final = """
default_context = "shop"
[contexts.shop]
url = "redis://10.9.0.1/3"
environment = "production"
[contexts.dev]
url = "redis://10.9.0.2"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory, and a user without a configuration."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("QDECK_URL", raising=False)
    monkeypatch.delenv("REDIS_URL", raising=False)
    folder = tmp_path / "clone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def own(here: Path, tmp_path: Path) -> Path:
    """The user's own file."""
    file = tmp_path / "config" / "qdeck" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(OWN)
    return file


class Listener:
    """A server that only notes what it is sent."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.received: list[bytes] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                line, _ = self.socket.accept()
            except OSError:
                return
            self.received.append(line.recv(4096))
            line.close()


@pytest.fixture
def foreign() -> Iterator[Listener]:
    """A server that somebody else would like to be told secrets."""
    made = Listener()
    yield made
    made.socket.close()


HOSTILE: Final = """
default_context = "a"
[contexts.a]
url = "redis://x:${{AWS_SECRET_ACCESS_KEY}}@127.0.0.1:{port}"
[purge]
purge_enabled = true
max_ready_age = 0
[agent]
http = "0.0.0.0:9180"
token = "${{AWS_SECRET_ACCESS_KEY}}"
"""


@pytest.mark.parametrize("args", [("status",), ("status", "--context", "a"), ("doctor",), ("agent",), ("purge",)])
def test_a_file_that_came_with_a_directory_sends_no_variable_anywhere(
    qdeck: Callable[..., Ran], here: Path, foreign: Listener, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.delenv("QDECK_URL", raising=False)
    monkeypatch.chdir(here)
    (here / "qdeck.toml").write_text(HOSTILE.format(port=foreign.port))
    ran = qdeck(*args)
    assert ran.code == 64
    assert foreign.received == []
    if "--context" in args:
        assert "context 'a' is in qdeck.toml, which is not trusted" in ran.err
        assert "was ignored" not in ran.err
    else:
        assert "qdeck.toml was ignored, with its servers and settings: it is not trusted" in ran.err
    assert "qdeck config trust" in ran.err
    assert "hunter2" not in ran.out + ran.err


def test_trusted_once_it_is_read_and_changed_it_is_not(
    qdeck: Callable[..., Ran], url: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QDECK_URL", raising=False)
    monkeypatch.chdir(here)
    file = here / "qdeck.toml"
    file.write_text(f"default_context = 'a'\n[contexts.a]\nurl = '{url}'\n")
    assert qdeck("status").code == 64
    told = qdeck("config", "trust", "--json")
    assert told.json == {"file": str(file), "trusted": True, "contexts": ["a"]}
    assert qdeck("status").code == 0
    store = state_dir() / "trusted.json"
    assert store.stat().st_mode & 0o777 == 0o600
    assert list(json.loads(store.read_text())) == [str(file)]
    file.write_text(file.read_text() + "\n")
    changed = qdeck("status")
    assert changed.code == 64
    assert "it changed since it was trusted" in changed.err
    assert qdeck("config", "trust").code == 0
    assert qdeck("status").code == 0
    assert qdeck("config", "trust", "--remove").code == 0
    assert qdeck("status").code == 64


def test_a_file_that_is_named_is_trusted(qdeck: Callable[..., Ran], url: str, here: Path) -> None:
    (here / "other.toml").write_text(f"default_context = 'a'\n[contexts.a]\nurl = '{url}'\n")
    assert qdeck("status", "--config", str(here / "other.toml")).code == 0


def test_trust_is_of_a_path_and_of_what_is_in_it(here: Path, tmp_path: Path) -> None:
    (here / "qdeck.toml").write_text(OWN)
    trusted_files.add(here / "qdeck.toml", (here / "qdeck.toml").read_bytes())
    assert load_configuration().file is not None
    other = tmp_path / "other"
    other.mkdir()
    (other / "qdeck.toml").write_text(OWN)
    assert trusted_files.state_of(other / "qdeck.toml", OWN.encode()) is trusted_files.TrustState.UNKNOWN


@pytest.mark.parametrize("wrong", ["mode", "link", "pipe", "garbage", "list"])
def test_a_store_that_others_can_write_to_trusts_nothing(here: Path, tmp_path: Path, wrong: str) -> None:
    file = here / "qdeck.toml"
    file.write_text(OWN)
    trusted_files.add(file, file.read_bytes())
    store = state_dir() / "trusted.json"
    if wrong == "mode":
        store.chmod(0o666)
    elif wrong == "link":
        store.rename(tmp_path / "elsewhere")
        store.symlink_to(tmp_path / "elsewhere")
    elif wrong == "pipe":
        store.unlink()
        os.mkfifo(store, 0o600)
    else:
        store.write_text("{" if wrong == "garbage" else "[1]")
    assert load_configuration().file is None
    if wrong in ("mode", "link", "pipe"):
        with pytest.raises(NotAllowed):
            trusted_files.add(file, file.read_bytes())
    else:
        trusted_files.add(file, file.read_bytes())
        assert load_configuration().file is not None


def test_what_the_console_saves_stays_trusted(here: Path) -> None:
    file = here / "qdeck.toml"
    file.write_text("[purge]\nmax_ready_age = 5\n")
    trusted_files.add(file, file.read_bytes())
    save_settings(load_configuration().file or file, {("purge", "max_ready_age"): 6})
    assert load_configuration().settings.purge.max_ready_age == 6
    other = here / "other.toml"
    other.write_text("[purge]\nmax_ready_age = 5\n")
    save_settings(other, {("purge", "max_ready_age"): 6})
    assert trusted_files.state_of(other, other.read_bytes()) is trusted_files.TrustState.UNKNOWN, "it never was"


def test_a_trusted_file_that_changed_does_not_send_commands_elsewhere(
    qdeck: Callable[..., Ran], url: str, raw: redis.Redis, here: Path, own: Path
) -> None:
    """Not to the server that the user's own file names, either by default or by the same name."""
    own.write_text(f'default_context = "dev"\n[contexts.dev]\nurl = "{url}"\n')
    file = here / "qdeck.toml"
    file.write_text('default_context = "dev"\n[contexts.dev]\nurl = "redis://10.9.0.2"\n')
    trusted_files.add(file, file.read_bytes())
    file.write_text(file.read_text() + "# a comment\n")
    for args in ((), ("--context", "dev")):
        ran = qdeck("enqueue", "shop:mail:actions", "send", *args)
        assert (ran.code, "it changed since it was trusted" in ran.err) == (64, True), ran
        assert "qdeck config trust" in ran.err
    assert raw.dbsize() == 0
    assert qdeck("enqueue", "shop:mail:actions", "send", "--url", url).code == 0
    assert qdeck("enqueue", "shop:mail:actions", "send", "--config", str(own)).code == 0


def test_a_file_that_changed_is_not_read_to_save_a_setting(here: Path) -> None:
    """A console that runs would go on with the servers of whoever changed it."""
    file = here / "qdeck.toml"
    file.write_text("[purge]\nmax_ready_age = 5\n")
    trusted_files.add(file, file.read_bytes())
    changed = file.read_text() + HOSTILE.format(port=1).replace(
        "[purge]\npurge_enabled = true\nmax_ready_age = 0\n", ""
    )
    file.write_text(changed.replace('default_context = "a"\n', ""))
    before = file.read_bytes()
    with pytest.raises(InvalidOption, match="changed since it was trusted"):
        save_settings(file, {("purge", "max_ready_age"): 6})
    assert file.read_bytes() == before


@pytest.mark.parametrize("hides", ["local", "empty", "null", "same name", "untrusted"])
def test_no_other_file_hides_the_production_contexts_of_the_users_own(here: Path, own: Path, hides: str) -> None:
    file = here / ("qdeck.toml" if hides in ("local", "untrusted") else "other.toml")
    file.write_text("[purge]\nmax_ready_age = 9\n")
    if hides == "local":
        trusted_files.add(file, file.read_bytes())
    if hides == "same name":
        file.write_text("[contexts.shop]\nurl = 'redis://10.9.0.7'\n[contexts.sly]\nurl = 'redis://10.9.0.1/3'\n")
    given = {"local": None, "untrusted": None, "null": "/dev/null"}.get(hides, file)
    found = load_configuration(given)
    target = found.target_at("redis://10.9.0.1/03")
    assert (target.name, target.is_production) == ("shop", True)
    if hides == "same name":
        shop, sly = found.target("shop"), found.target("sly")
        assert shop is not None
        assert sly is not None
        assert (shop.url, shop.is_production) == ("redis://10.9.0.7", True), "a context can only become stricter"
        assert (sly.name, sly.is_production) == ("sly", True)
    elif hides != "untrusted":
        merged = found.target("shop")
        assert merged is not None
        assert merged.url == "redis://10.9.0.1/3"
        assert "dev" not in found.settings.contexts, "what is not production is the other file's matter"
        assert found.target() is None


FROZEN: Final = """
[contexts.shop]
url = "redis://10.9.0.1/3"
environment = "production"
read_only = true
[contexts.archive]
url = "redis://10.9.0.4"
read_only = true
"""


@pytest.mark.parametrize("where", ["redis://10.9.0.1/3", "redis://10.9.0.4"])
def test_what_the_users_own_file_forbids_to_write_to_no_other_file_allows(here: Path, own: Path, where: str) -> None:
    own.write_text(FROZEN)
    other = here / "other.toml"
    other.write_text(f"[contexts.sly]\nurl = '{where}'\nenvironment = 'production'\n[contexts.free]\nurl = '{where}'\n")
    found = load_configuration(other)
    assert found.target_at(where).read_only
    for name in ("sly", "free"):
        target = found.target(name)
        assert target is not None
        assert target.read_only, name


def test_what_the_own_file_lets_this_user_write_to_another_file_may_name_too(here: Path, own: Path) -> None:
    own.write_text(FROZEN + "[contexts.ops]\nurl = 'redis://10.9.0.4'\n")
    other = here / "other.toml"
    other.write_text("[contexts.project]\nurl = 'redis://10.9.0.4'\n")
    found = load_configuration(other)
    project = found.target("project")
    assert project is not None
    assert not project.read_only
    assert not found.target_at("redis://10.9.0.4").read_only


def test_a_url_of_a_read_only_context_cannot_be_written_to(here: Path, own: Path) -> None:
    own.write_text(FROZEN)
    target = load_configuration().target_at("redis://10.9.0.4:6379/00")
    assert (target.name, target.read_only, target.is_production) == ("archive", True, False)
    own.write_text(FROZEN + "[contexts.ops]\nurl = 'redis://10.9.0.4'\n")
    assert not load_configuration().target_at("redis://10.9.0.4").read_only, (
        "another context lets this user write there"
    )
    ops = load_configuration().target("ops")
    assert ops is not None
    assert not ops.read_only


def test_the_hidden_contexts_are_there_after_saving_too(here: Path, own: Path) -> None:
    file = here / "qdeck.toml"
    file.write_text("[purge]\nmax_ready_age = 5\n")
    trusted_files.add(file, file.read_bytes())
    assert save_settings(file, {("purge", "max_ready_age"): 6}).target_at("redis://10.9.0.1/3").is_production


def test_a_variable_of_the_own_file_is_told_with_that_file(
    here: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.write_text(OWN.replace("redis://10", "redis://u:${NOT_SET}@10"))
    with pytest.raises(InvalidOption, match=r"config\.toml: contexts\.shop\.url: the environment variable NOT_SET"):
        load_configuration("/dev/null").target("shop")


def test_an_own_file_that_cannot_be_read_is_no_reason_to_go_on_without_it(here: Path, own: Path) -> None:
    own.write_text("[contexts.shop\n")
    with pytest.raises(InvalidOption, match=r"config\.toml"):
        load_configuration("/dev/null")


@pytest.mark.parametrize("wrong", ["link to nothing", "loop", "directory"])
@pytest.mark.parametrize("given", [None, "/dev/null"])
def test_an_own_file_that_is_there_and_no_file_is_none_either(
    here: Path, own: Path, wrong: str, given: str | None
) -> None:
    """Such as a link to a volume that is not mounted: its production contexts are not known."""
    own.unlink()
    if wrong == "directory":
        own.mkdir()
    else:
        own.symlink_to(own if wrong == "loop" else "/no/such/volume/config.toml")
    with pytest.raises(InvalidOption, match=r"config\.toml cannot be read"):
        load_configuration(given)


def test_a_link_from_the_directory_to_the_own_file_is_the_own_file(here: Path, own: Path) -> None:
    (here / "qdeck.toml").symlink_to(own)
    assert load_configuration().settings.default_context == "shop"
