"""Compares URLs by the server they name: the resolved address, the port and the database, or the file of a socket.

Who logs in there, and how, does not matter. Names are resolved only when nothing cheaper decides.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import threading
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

RESOLVE_S: Final = 0.5  # for all names of one comparison together
_LOCAL: Final = "this machine"
_PORTS: Final = {"": 6379, "cluster": 6379, "sentinel": 26379}
_VARIABLE: Final = re.compile(r"\$\{[^}]*\}")
_UNKNOWN: Final = "unknown.invalid"  # in place of a variable that is not set
_Pair = tuple[str, str]


class SameServer(Enum):
    """Whether two URLs name the same data."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    """A name cannot be resolved now, or a part of a URL is in a variable that is not set."""


@dataclass(frozen=True, slots=True)
class _Place:
    kind: str  # "" is one server, "unix" a socket file; else sentinel or cluster
    hosts: frozenset[tuple[str, int]]
    db: int
    rest: str = ""  # the service of Sentinels, or the path of the socket
    is_open: bool = False  # a variable that is not set says where it is


def compare(url: str, others: Sequence[str], *, resolve_others: bool = True) -> list[SameServer]:
    """Return for each of the others whether it names the server and database of the URL.

    With several hosts, one in common is enough. All names are resolved at once, in `RESOLVE_S` together; without
    `resolve_others` only the names of the URL.
    """
    place = _read(url)
    if place is None:
        return [SameServer.NO] * len(others)  # no connection can be made to it
    places = [_read(other) for other in others]
    pairs = [frozenset[_Pair]() if found is None else _pairs(place, found) for found in places]
    names = {name for of_both in pairs for pair in of_both for name in pair}
    known = _resolve(names, names if resolve_others else {name for name, _ in place.hosts})
    return [
        SameServer.UNKNOWN if found is None else _judge(place, found, of_both, known)
        for found, of_both in zip(places, pairs, strict=True)
    ]


def host_of(url: str) -> str:
    """Return the hosts of a URL that have to be resolved, in words; empty without one."""
    place = _read(url)
    return ", ".join(sorted(name for name, _ in place.hosts if not _is_address(name))) if place is not None else ""


def _pairs(one: _Place, other: _Place) -> frozenset[_Pair]:
    """Return the pairs of names that have to be resolved: those behind which one server may be."""
    if one.is_open or other.is_open or not _may_be_one(one, other) or one.hosts & other.hosts:
        return frozenset()
    return frozenset((name, at) for name, port in one.hosts for at, other_port in other.hosts if port == other_port)


def _may_be_one(one: _Place, other: _Place) -> bool:
    """Return whether database and kind agree. Sentinels keep no queues themselves: only those of one service match."""
    if one.db != other.db or (one.kind == "unix") != (other.kind == "unix"):
        return False
    return "sentinel" not in (one.kind, other.kind) or (one.kind, one.rest) == (other.kind, other.rest)


def _judge(one: _Place, other: _Place, pairs: frozenset[_Pair], known: dict[str, frozenset[str]]) -> SameServer:
    if one.is_open or other.is_open:
        return SameServer.UNKNOWN
    if not _may_be_one(one, other):
        return SameServer.NO
    if one.kind == "unix":
        return SameServer.YES if _is_one_file(one.rest, other.rest) else SameServer.NO
    if one.hosts & other.hosts or any(known[name] & known[at] for name, at in pairs):
        return SameServer.YES
    return SameServer.UNKNOWN if any(not (known[name] and known[at]) for name, at in pairs) else SameServer.NO


def _resolve(names: set[str], wanted: set[str]) -> dict[str, frozenset[str]]:
    """Return the addresses of each name; none where they cannot be found in time, or are not wanted.

    In threads, because a lookup cannot be ended.
    """
    found = {name: frozenset({name}) for name in names if _is_address(name)}

    def resolve(name: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            found[name] = frozenset(_plain(str(entry[4][0])) for entry in entries)

    threads = [threading.Thread(target=resolve, args=(name,), daemon=True) for name in (names & wanted) - found.keys()]
    until = time.monotonic() + RESOLVE_S
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return {name: found.get(name, frozenset()) for name in names}


def _is_address(name: str) -> bool:
    try:
        return name == _LOCAL or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _read(url: str) -> _Place | None:
    try:
        parts = urlsplit(_VARIABLE.sub(_UNKNOWN, url))
        query = parse_qs(parts.query)
        base, _, kind = parts.scheme.partition("+")
        netloc, path, db = parts.netloc.rpartition("@")[2], unquote(parts.path), query.get("db", [""])[0]
        if "\0" in unquote(netloc) + path:
            return None  # no connection can be made to it
        if _UNKNOWN in (netloc + path + db).lower() + base:
            return _Place("", frozenset(), 0, is_open=True)
        if base == "unix":
            return _Place("unix", frozenset(), int(db or 0), path)
        if base not in ("redis", "rediss") or kind not in _PORTS:
            return None
        hosts = frozenset(_host(text, _PORTS[kind]) for text in netloc.split(","))
        service, _, in_path = path.strip("/").partition("/") if kind == "sentinel" else ("", "", path.strip("/"))
        return _Place(kind, hosts, int(db or in_path or 0), service)
    except ValueError:
        return None


def _host(text: str, usual: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    return _canonical(unquote(parts.hostname or "localhost")), usual if parts.port is None else parts.port


def _canonical(name: str) -> str:
    """Return a name in lower case; an address, however it is written, in its one form."""
    name = name.lower().rstrip(".") or "localhost"
    if name == "localhost":
        return _LOCAL
    with contextlib.suppress(OSError, UnicodeError):
        # As a connection reads it: 127.1, 2130706433 and 0x7f000001 are all 127.0.0.1.
        [*_, entry] = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return _plain(str(entry[4][0]))
    return name


def _plain(text: str) -> str:
    """Return an address in its one form; every address of this machine is the same."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback or address.is_unspecified or _is_own(address):
        return _LOCAL
    return str(address)


def _is_own(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))  # only an address of this machine can be bound to
    except OSError:
        return False
    return True


def _is_one_file(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)
