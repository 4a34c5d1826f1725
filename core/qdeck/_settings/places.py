"""Whether two URLs lead to the same data: who logs in there, and how, does not matter."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
_VARIABLE: Final = re.compile(r"\$\{[^}]*\}")
_PORT: Final = 6379


class _Place(NamedTuple):
    hosts: frozenset[tuple[str, int]]
    rest: str  # the number of the database; of a socket its path as well


def is_same(one: str, other: str) -> bool:
    """Whether the URLs name one server and database. With several hosts, one in common is enough."""
    first, second = _read(one), _read(other)
    if first is None or second is None:
        return False
    return first.rest == second.rest and (first.hosts == second.hosts or bool(first.hosts & second.hosts))


def _read(url: str) -> _Place | None:
    try:
        parts = urlsplit(_VARIABLE.sub("x", url))
        query = parse_qs(parts.query)
    except ValueError:
        return None
    database = query.get("db", [""])[-1]
    if parts.scheme == "unix":
        return _Place(frozenset(), f"{unquote(parts.path)} {database or '0'}")
    if not parts.scheme:
        return None
    hosts = frozenset(_host(text) for text in parts.netloc.rpartition("@")[2].split(","))
    return _Place(hosts, database or unquote(parts.path).strip("/") or "0")


def _host(text: str) -> tuple[str, int]:
    name, colon, port = text.lower().rpartition(":")
    if not colon or not port.isdecimal():  # no port, or the colons of a bare IPv6 address
        name, port = text.lower(), str(_PORT)
    name = name or "localhost"
    return ("localhost" if name in _LOCAL else name), int(port)
