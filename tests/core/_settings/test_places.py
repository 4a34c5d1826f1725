"""Two URLs that lead to the same data are told from two that do not."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from qdeck._settings import read_text
from qdeck._settings.url_comparison import SameServer, compare

if TYPE_CHECKING:
    from pathlib import Path

NO, YES, UNKNOWN = SameServer.NO, SameServer.YES, SameServer.UNKNOWN

PRODUCTION = """
[contexts.shop]
url = "rediss://ops:${SHOP_PASSWORD}@Redis.Shop.example/3"
environment = "Production"
[contexts.looking]
url = "rediss://redis.shop.example/3"
environment = "prod"
read_only = true
[contexts.staging]
url = "redis://staging.example"
environment = "staging"
"""


NAMES: Final = {
    "h": ["10.1.0.1"],
    "h2": ["10.1.0.2"],
    "both": ["10.1.0.2", "10.1.0.1"],
    "six": ["fd00::7"],
    "me": ["127.0.1.1"],
    "redis.shop.example": ["10.9.0.1", "10.9.0.2"],
    "alias": ["10.9.0.2"],
    "staging.example": ["10.9.0.3"],
    "elsewhere": ["10.9.0.4"],
}


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A resolver that knows the names above; gives those that it was asked for."""
    asked: list[str] = []

    def look_up(host: str, port: object, *, type: int = 0, flags: int = 0) -> list[Any]:
        if flags & socket.AI_NUMERICHOST:
            return real(host, None, type=type, flags=flags)
        asked.append(host)
        if host == "slow":
            time.sleep(30)
        if host not in NAMES:
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return [(0, 0, 0, "", (address, 0)) for address in NAMES[host]]

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("redis://h", "redis://h:6379/0", YES),
        ("redis://h", "rediss://u:secret@H:6379", YES),
        ("redis://localhost", "redis://127.0.0.1:6379/", YES),
        ("redis://", "redis://[::1]", YES),
        ("redis://localhost", "redis://0.0.0.0", YES),
        ("redis://localhost", "redis://0", YES),
        ("redis://localhost", "redis://127.1", YES),
        ("redis://localhost", "redis://127.0.0.9", YES),
        ("redis://localhost", "redis://2130706433", YES),
        ("redis://localhost", "redis://0x7f000001", YES),
        ("redis://localhost", "redis://017700000001", YES),
        ("redis://localhost", "redis://[0:0:0:0:0:0:0:1]", YES),
        ("redis://localhost", "redis://[::]", YES),
        ("redis://localhost", "redis://[::ffff:127.0.0.1]", YES),
        ("redis://localhost", "redis://[::ffff:7f00:1]:6379/0", YES),
        ("redis://localhost", "redis://LOCALHOST.", YES),
        ("redis://localhost", "redis://%6cocalhost", YES),
        ("redis://localhost", "redis://%31%32%37.0.0.1", YES),
        ("redis://localhost", "redis://me", YES),
        ("redis://h", "redis://h.", YES),
        ("redis://h", "redis://10.1.0.1", YES),
        ("redis://h", "redis://10.1.1", YES),
        ("redis://h", "redis://[::ffff:10.1.0.1]", YES),
        ("redis://h", "redis://both", YES),
        ("redis://six", "redis://[fd00:0:0::0007]", YES),
        ("redis://10.1.0.1", "redis://10.1.0.2", NO),
        ("redis://h/9", "redis://h/09", YES),
        ("redis://h/9", "redis://h//9/", YES),
        ("redis://h/1", "redis://h?db=1", YES),
        ("redis://h/1", "redis://h/2?db=1", YES),
        ("redis://h/1", "redis://h?db=1&db=2", YES),
        ("redis://h/2", "redis://h?db=1&db=2", NO),
        ("redis://u:${NOT@SET}@h/1", "redis://h/1", YES),
        ("unix:///run/redis.sock", "unix://u:p@/run/redis.sock?db=0", YES),
        ("unix:///run/redis.sock", "unix:///run/../run//redis%2esock?db=00", YES),
        ("redis+sentinel://a:26379,b:26379/main/0", "redis+sentinel://b/main", YES),
        ("redis+sentinel://a/main/3", "redis+sentinel://a/main?db=3", YES),
        ("redis+sentinel://10.1.0.1,c/main", "redis+sentinel://h/main", YES),
        ("redis+cluster://h,10.1.0.7", "redis://10.1.0.1", YES),
        ("redis+cluster://h,10.1.0.7", "redis+cluster://10.1.0.7", YES),
        ("redis+cluster://10.1.0.7", "redis://10.1.0.8", NO),
        ("redis://h", "redis://h/0#@", YES),
        ("redis://h", "redis://h#/9", YES),
        ("redis://h", "redis://h?username=ops@shop.example", YES),
        ("redis://h", "redis+cluster://h?client_name=@", YES),
        ("unix:///run/r@1.sock", "unix:///run/./r@1.sock", YES),
        ("redis+sentinel://h/s@1", "redis+sentinel://H/s@1", YES),
        ("redis://h", "redis://h/1", NO),
        ("redis://h", "redis://h:6380", NO),
        ("redis://h", "redis://h2", NO),
        ("unix:///run/redis.sock", "unix:///run/other.sock", NO),
        ("unix:///run/redis.sock", "redis://localhost", NO),
        ("redis+sentinel://a:26379/main", "redis+sentinel://a:26379/other", NO),
        ("redis+sentinel://h:6379/main", "redis://h", NO),
        ("redis://h", "redis://no.such.name", UNKNOWN),
        ("redis://no.such.name", "redis://other.such.name", UNKNOWN),
        ("redis://h:6380", "redis://no.such.name", NO),
        ("redis://slow", "redis://h", UNKNOWN),
        ("redis://h", "redis://${NOT_SET}", UNKNOWN),
        ("redis://h", "redis://h:${NOT_SET}", UNKNOWN),
        ("redis://h", "redis://h/${NOT_SET}", UNKNOWN),
        ("redis://h", "${NOT_SET}", UNKNOWN),
        ("redis://h", "redis://[${NOT_SET}]", UNKNOWN),
    ],
)
def test_same(one: str, other: str, same: SameServer) -> None:
    assert compare(one, [other]) == compare(other, [one]) == [same] or "${" in other
    assert compare(one, [other]) == [same]


@pytest.mark.parametrize("url", ["redis://[", "", "http://h", "redis://h:x"])
def test_a_url_to_which_no_connection_can_be_made_is_none_of_them(url: str) -> None:
    assert compare(url, [url, "redis://h"]) == [NO, NO]


def test_names_are_resolved_only_where_nothing_else_decides(names: list[str]) -> None:
    others = ["redis://h2:1", "redis://h2/3", "redis://h", "unix:///x", "redis+sentinel://h2/main", "redis://10.0.0.1"]
    compare("redis://h", others[:-1])
    assert names == []
    compare("redis://h", others)
    assert names == ["h"]


def test_all_names_together_take_a_bounded_time() -> None:
    started = time.monotonic()
    found = compare("redis://h", ["redis://slow", "redis://10.1.0.1", "redis://slow", "redis://both"])
    assert found == [UNKNOWN, YES, UNKNOWN, YES]
    assert time.monotonic() - started < 5


def test_a_socket_is_compared_by_its_file(tmp_path: Path) -> None:
    one, link, hard, other = (tmp_path / name for name in ("one", "link", "hard", "other"))
    one.touch()
    other.touch()
    link.symlink_to(one)
    hard.hardlink_to(one)
    assert compare(f"unix://{one}", [f"unix://{path}" for path in (link, hard, other)]) == [YES, YES, NO]


def test_an_address_of_this_machine_is_this_machine() -> None:
    own = {str(entry[4][0]) for entry in _own_addresses()}
    assert own
    for address in own:
        host = f"[{address}]" if ":" in address else address
        assert compare(f"redis://{host}", ["redis://localhost"]) == [YES]


def _own_addresses() -> list[Any]:
    """The address that a connection out of this machine would have; loopback where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return [(0, 0, 0, "", ("127.0.0.1", 0))]
        return [(0, 0, 0, "", probe.getsockname())]


@pytest.mark.parametrize(
    "url",
    [
        "redis://redis.shop.example/3",
        "rediss://me:pw@redis.shop.example:6379/3",
        "redis://alias./03",
        "redis://10.9.1/3",
    ],
)
def test_a_url_of_a_production_context_is_that_context(url: str) -> None:
    url = url.replace("10.9.1/", "10.9.0.1/")
    target = read_text(PRODUCTION).target_at(url)
    assert (target.name, target.is_production, target.read_only, target.url) == ("shop", True, False, url)


@pytest.mark.parametrize("url", ["redis://redis.shop.example", "redis://staging.example", "redis://elsewhere"])
def test_another_url_is_nobodys(url: str) -> None:
    target = read_text(PRODUCTION).target_at(url)
    assert (target.name, target.is_production, target.url) == (None, False, url)


@pytest.mark.parametrize("password", ["a/b", "a@b", "a#b?c", "${x}", "%2F"])
def test_a_password_from_a_variable_does_not_hide_the_host(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", password)
    assert read_text(PRODUCTION).target_at("redis://10.9.0.1/3").name == "shop"


@pytest.mark.parametrize("url", ["redis://no.such.name/3", "redis://slow/3"])
def test_a_name_that_cannot_be_resolved_gets_the_strict_answer(url: str) -> None:
    target = read_text(PRODUCTION).target_at(url)
    assert (target.name, target.is_production) == ("shop", True)
    assert url.split("/")[2] in target.caution


def test_a_variable_that_is_not_set_gets_the_strict_answer() -> None:
    target = read_text('[contexts.shop]\nurl = "${NOT_SET}"\nenvironment = "prod"').target_at("redis://h")
    assert target.is_production
    assert "NOT_SET" in target.caution
    named = read_text(
        '[contexts.shop]\nurl = "${NOT_SET}"\nenvironment = "prod"\n[contexts.dev]\nurl = "redis://10.1.0.1"'
    )
    dev = named.target("dev")
    assert dev is not None
    assert not dev.is_production, "a name in a trusted file says that it is another server"
    assert not named.target_at("redis://h").is_production, "and so does the url of such a name"


def test_a_context_of_another_name_at_the_same_place_is_production_too() -> None:
    found = read_text(
        PRODUCTION
        + """
        [contexts.play]
        url = "redis://alias/3"
        [contexts.kept]
        url = "redis://alias/3"
        read_only = true
        [contexts.near]
        url = "redis://alias/4"
        """
    )
    play, kept, near = (found.target(name) for name in ("play", "kept", "near"))
    assert play is not None
    assert kept is not None
    assert near is not None
    assert (play.name, play.is_production, play.read_only, play.url) == ("play", True, False, "redis://alias/3")
    assert "'shop'" in play.caution
    assert (kept.name, kept.is_production, kept.read_only) == ("kept", True, True)
    assert not near.is_production
