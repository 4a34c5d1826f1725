"""A user who may only read runs every command that looks: what it may not see is named, and nothing is written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.commands import runner
from support.scene import Scene, make_scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis

    from support.commands import Ran
    from support.servers import Server

CLOCK, INFO = "TIME", "INFO"
# Every command that looks, with its exit code and the rights that it misses and has to name.
LOOKING: Final = (
    ("status", 1, (CLOCK, INFO)),
    ("queues", 0, (CLOCK, INFO)),
    ("jobs $QUEUE", 0, (CLOCK,)),
    ("job $QUEUE $ID", 0, (CLOCK,)),
    ("find $ID", 0, ()),
    ("stuck", 1, (CLOCK,)),
    ("dead list", 0, (CLOCK,)),
    ("dead --group", 0, (CLOCK,)),
    ("dead export", 0, (CLOCK,)),
    ("dead retry --where error:Timeout* --dry-run", 0, (CLOCK,)),
    ("jobs cancel $QUEUE --dry-run", 0, (CLOCK,)),
    ("requeue --dry-run", 0, (CLOCK,)),
    ("purge", 0, (CLOCK,)),
    ("activity", 0, ()),
    ("health", 1, (CLOCK, INFO)),
    ("doctor", 1, (CLOCK, INFO)),
    ("workers", 0, (CLOCK,)),
    ("schedule list", 0, (CLOCK,)),
    ("clean $TASK --dry-run --idle 0", 0, ()),
    ("clean --orphans --dry-run", 0, ()),
)
# What a connection says at its beginning. It names itself and chooses a database; it writes nothing.
GREETINGS: Final = ("hello", "auth", "client", "select", "ping")


class Watched:
    """A server on which a looker looks, and all that its commands were."""

    def __init__(self, server: Server, raw: redis.Redis) -> None:
        self.server = server
        self.raw: Any = raw  # its replies have too many types
        self.url = server.url.replace("redis://", "redis://looker:pw@")

    def commands(self, act: Callable[[], Ran]) -> tuple[Ran, list[str], list[str]]:
        """What came of it, the commands that were run meanwhile, and those that were refused."""
        self.raw.execute_command("ACL", "LOG", "RESET")
        with self.server.client(timeout_s=20) as other, other.monitor() as monitor:
            ran = act()
            self.raw.echo("the end")
            seen: list[str] = []
            while (line := monitor.next_command()["command"]) != "ECHO the end":
                seen.append(str(line))
        return ran, seen, [entry["object"] for entry in self.raw.acl_log()]

    def category(self, name: str) -> set[str]:
        """The commands that the server counts to a category; of those with subcommands `command|subcommand`."""
        return {command.decode() for command in self.raw.execute_command("ACL", "CAT", name)}


@pytest.fixture
def watched(make_server: Callable[..., Server]) -> Iterator[Watched]:
    server = make_server("--enable-debug-command", "local")
    with server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "looker", "on", ">pw", "~*", "+@read")
        yield Watched(server, raw)


def test_who_may_only_read_sees_everything_and_writes_nothing(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """'A user with `+@read` only runs every looking command: what it may not see is named, nothing is written
    (`MONITOR` shows it)'"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    scene = make_scene(watched.server.url, watched.raw)
    qdeck, words = runner(capsys), scene.words()
    before = watched.raw.execute_command("DEBUG", "DIGEST")
    names: set[str] = set()
    for line, code, missed in LOOKING:
        args = [words[word[1:]] if word.startswith("$") else word for word in line.split()]
        ran, seen, refused = watched.commands(lambda args=args: qdeck(*args, "--url", watched.url))  # type: ignore[misc]  # bound now
        assert ran.code == code, (line, ran.err)
        for right in missed:
            assert right.lower() in refused, (line, "it was asked for")
            assert right in ran.out + ran.err, (line, "it is named")
        names |= {command_name(command) for command in seen}
    assert watched.raw.execute_command("DEBUG", "DIGEST") == before
    looked = names - set(GREETINGS)
    assert len(looked) > 15
    assert looked <= watched.category("read")
    assert not names & watched.category("write")


def command_name(line: str) -> str:
    """The command of a line of MONITOR, as the server's categories name it."""
    first, second, *_ = [*line.lower().split(), "", ""]
    return f"{first}|{second}" if first in ("memory", "object") else first


def test_what_was_seen_is_what_everybody_sees(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fewer rights make fewer facts about the server, never other numbers."""
    monkeypatch.chdir(tmp_path)
    scene: Scene = make_scene(watched.server.url, watched.raw)
    qdeck, words = runner(capsys), scene.words()
    time.sleep(0.01)
    for line in ("queues", "jobs $QUEUE", "stuck", "dead", "dead --group", "find $ID", "workers", "schedule list"):
        args = [words[word[1:]] if word.startswith("$") else word for word in line.split()]
        looked, whole = (qdeck(*args, "--json", "--url", url).json for url in (watched.url, watched.server.url))
        assert [plain(one) for one in looked] == [plain(one) for one in whole], line


def plain(entry: dict[str, Any]) -> dict[str, Any]:
    """Without what changes by itself from one look to the next."""
    return {
        name: value for name, value in entry.items() if not name.endswith(("_s", "_per_s")) and name != "heartbeat_s"
    }
