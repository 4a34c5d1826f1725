"""What may stand behind the `?` of a URL: checked when the URL is read, so that no later call stumbles over it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OF_SENTINEL: Final = ("sentinel_username", "sentinel_password")
# Options of redis-py's pool, and of how it reads replies: a URL that other programs use too may have them.
_WITHOUT_EFFECT: Final = frozenset(
    {"max_connections", "timeout", "retry_on_timeout", "health_check_interval", "protocol", "decode_responses",
     "encoding", "encoding_errors", "socket_keepalive"}
)  # fmt: skip
_SECONDS: Final = ("socket_timeout", "socket_connect_timeout")
_KNOWN: Final = frozenset({"username", "password", "db", "client_name", *_SECONDS})
_TLS: Final = frozenset(
    {"ssl_ca_certs", "ssl_ca_path", "ssl_ca_data", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_cert_reqs",
     "ssl_check_hostname", "ssl_min_version", "ssl_ciphers"}
)  # fmt: skip
_REQUIRED: Final = ("none", "optional", "required")
_NAME: Final = re.compile(r"[a-z_]{1,40}")


class Wrong(ValueError):
    """What is wrong with a URL, in words that hold nothing secret."""


def check(query: Mapping[str, Sequence[str]], *, kind: str, tls: bool, torn: bool) -> None:
    """Refuses what no connection takes. Of a `torn` URL, where a password may be anywhere, no name is told."""
    known = _KNOWN | _WITHOUT_EFFECT | (_TLS if tls else frozenset())
    if kind == "sentinel":
        known |= frozenset(OF_SENTINEL)
    for name in query:
        if name in known:
            continue
        if name in _TLS:
            raise Wrong(f"{name} is for TLS: write rediss")
        if name in OF_SENTINEL:
            raise Wrong(f"{name} is for redis+sentinel://")
        told = name if _NAME.fullmatch(name) and not torn else "something else"
        raise Wrong(f"{told} is no option; those in use are socket_timeout, socket_connect_timeout and ssl_…")
    if kind == "cluster" and query.get("db", ["0"])[0] != "0":
        raise Wrong("a cluster has no databases: leave db out")
    for name in _SECONDS:
        if name in query and not _is_time(query[name][0]):
            raise Wrong(f"{name} is not a number of seconds above 0")
    if query.get("ssl_cert_reqs", ["none"])[0] not in _REQUIRED:
        raise Wrong(f"ssl_cert_reqs is none of {', '.join(_REQUIRED)}")
    db = query.get("db", ["0"])[0]
    if not (db.isascii() and db.isdigit()):
        raise Wrong("the database is not a number")


def tidy(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that connections of ours take."""
    return {name: value for name, value in options.items() if name not in _WITHOUT_EFFECT}


def _is_time(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return math.isfinite(value) and value > 0
