"""Addresses of servers: one place that reads every form of URL, and masks its secrets.

    redis://[user:password@]host[:port][/db]                    one server; rediss:// over TLS
    unix://[user:password@]/path[?db=0]                         one server, through a socket file
    redis+sentinel://[user:password@]host[:port],…/service[/db] the master that Sentinels name
    redis+cluster://[user:password@]host[:port],…               a cluster, by any of its nodes

`rediss+sentinel://` and `rediss+cluster://` are the same over TLS. Options behind a `?` are some of redis-py's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import SplitResult, parse_qs, unquote, urlencode, urlsplit, urlunsplit

from qdeck._errors import InvalidOption
from qdeck._redis.url_options import OF_SENTINEL, InvalidUrl, check, connection_options

_HINT: Final = (
    "Write redis://[user:password@]host:port[/db], rediss://… for TLS, unix:///path, "
    "redis+sentinel://host,host/service[/db] or redis+cluster://host,host"
)
_PORTS: Final = {"sentinel": 26379, "cluster": 6379}
_SCHEMES: Final = {"unix"} | {f"{base}{many}" for base in ("redis", "rediss") for many in ("", "+sentinel", "+cluster")}


class Topology(StrEnum):
    """What a URL names: a server, a master behind Sentinels, or a cluster."""

    SERVER = "server"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Node:
    """One server of several, or a Sentinel, which has a user and a password of its own."""

    host: str
    port: int
    sentinel: bool = False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A URL that was read: `options` are redis-py's for a connection, `seeds` the servers to discover the others
    from."""

    kind: Topology
    options: dict[str, Any] = field(repr=False)
    seeds: tuple[Node, ...] = ()
    service: str = ""
    sentinel_options: dict[str, Any] = field(default_factory=dict, repr=False)


def mask_url(url: str) -> str:
    """Return the URL without its password, for screens, logs and errors."""
    try:
        parts = urlsplit(url)
        if "://" not in url or parts.scheme not in _SCHEMES:
            return "***"  # perhaps a password alone, or before a colon
        if _is_torn(parts):
            return f"{parts.scheme}://***"
        if parts.scheme == "unix" and not parts.netloc:
            return f"unix://{parts.path}"  # `urlunsplit` leaves out the slashes, and returns an invalid URL
        if parts.password is None and "@" not in parts.netloc:
            return urlunsplit(parts._replace(query="", fragment=""))
        host = parts.netloc.rpartition("@")[2]
        # A login without a password may have it in the place of the name.
        user = parts.username or "" if parts.password is not None else ""
        return urlunsplit(parts._replace(netloc=f"{user}:***@{host}", query="", fragment=""))
    except ValueError:
        return "(unreadable URL)"


def _is_torn(parts: SplitResult) -> bool:
    """Return whether a password may have an unescaped `/`, `?` or `#`, which splits the URL in a wrong place."""
    if parts.scheme == "unix":
        return bool(parts.netloc) and "@" not in parts.netloc
    return "@" in parts.path + parts.query + parts.fragment


def read_url(url: str) -> Address:
    """Read a URL; raise `InvalidOption` with the masked URL and the valid forms."""
    try:
        parts = urlsplit(url)
        if "://" not in url:
            raise InvalidUrl("it has no scheme such as redis://")
        base, _, many = parts.scheme.partition("+")
        if many and (base not in ("redis", "rediss") or many not in _PORTS):
            raise ValueError("no such scheme")
        if "\0" in unquote(parts.netloc.rpartition("@")[2] + parts.path):
            raise InvalidUrl("it contains a null character")  # connections end a name there, and comparisons do not
        query = parse_qs(parts.query)
        check(query, kind=many, tls=base == "rediss", torn=_is_torn(parts))
        if not many:
            return Address(kind=Topology.SERVER, options=_one_server(url))
        login, _, hosts = parts.netloc.rpartition("@")
        seeds = tuple(_node(text, _PORTS[many], sentinel=many == "sentinel") for text in hosts.split(","))
        service, db = _service(parts.path) if many == "sentinel" else ("", _no_database(parts.path))
        own: dict[str, str] = {name: query.pop(name)[0] for name in OF_SENTINEL if name in query}
        first = f"{login}@" * bool(login) + str(seeds[0])
        plain = urlunsplit((base, first, f"/{db}" if db else "", urlencode(query, doseq=True), ""))
        options = _one_server(plain)
    except ValueError as error:
        # The error may quote a part of the URL that is secret: only messages of qdeck are passed on.
        why = f": {error}" if isinstance(error, InvalidUrl) else ""
        raise InvalidOption(f"{mask_url(url)!r} is not a server URL{why}", hint=_HINT) from None
    return Address(
        kind=Topology(many), options=options, seeds=seeds, service=service, sentinel_options=_for_sentinel(options, own)
    )


def _one_server(url: str) -> dict[str, Any]:
    import redis.connection as blocking  # here, so that a URL can be shown without its password before all of that

    options: dict[str, Any] = dict(blocking.parse_url(url))
    parts = urlsplit(url)
    port = parts.port if parts.port is not None else 6379
    db = parts.path.strip("/")
    if parts.scheme != "unix" and db and not (db.isascii() and db.isdigit()):
        raise InvalidUrl("the database is not a number")
    if parts.scheme == "unix" and not db:
        raise InvalidUrl("the path of the socket file is missing")
    if not 0 < port < 65536:
        raise InvalidUrl(f"port {port}")
    return connection_options(options) | {"protocol": 2, "decode_responses": False}


def _halves(text: str) -> tuple[str, str]:
    host, colon, port = text.rpartition(":")
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1], ""
    return (host.strip("[]"), port) if colon else (text, "")


def _node(text: str, port: int, *, sentinel: bool) -> Node:
    host, given = _halves(text)
    if not host:
        raise InvalidUrl("a host is missing")
    if ":" in host and not text.startswith("["):
        raise InvalidUrl("an IPv6 address needs brackets, as in [::1]:6379")
    if given and not (given.isascii() and given.isdigit() and 0 < int(given) < 65536):
        raise InvalidUrl("a port is not a number from 1 to 65535")
    return Node(unquote(host), int(given or port), sentinel)


def _service(path: str) -> tuple[str, str]:
    service, _, db = path.strip("/").partition("/")
    if not service:
        raise InvalidUrl("the name of the service is missing, as in redis+sentinel://host/mymaster")
    if db and not (db.isascii() and db.isdigit()):
        raise InvalidUrl("the database is not a number")
    return unquote(service), db


def _no_database(path: str) -> str:
    if path.strip("/") not in ("", "0"):
        raise InvalidUrl("a cluster has no databases: leave the path out")
    return ""


def _for_sentinel(options: dict[str, Any], own: dict[str, str]) -> dict[str, Any]:
    """Return the options for connections to Sentinels: the same transport, their own user, and no database."""
    made = {name: value for name, value in options.items() if name not in ("db", "username", "password")}
    return made | {name.removeprefix("sentinel_"): value for name, value in own.items()}
