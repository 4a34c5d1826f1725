"""Options after the `?` of a URL: checked when the URL is read, so that no later call fails because of them."""

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


class InvalidUrl(ValueError):
    """Why a URL is invalid, in words without secrets."""


def check(query: Mapping[str, Sequence[str]], *, kind: str, tls: bool, torn: bool) -> None:
    """Refuse options that no connection takes. Of a `torn` URL, where a password may be anywhere, no name is shown."""
    known = _KNOWN | _WITHOUT_EFFECT | (_TLS if tls else frozenset())
    if kind == "sentinel":
        known |= frozenset(OF_SENTINEL)
    for name in query:
        if name in known:
            continue
        if name in _TLS:
            raise InvalidUrl(f"{name} needs TLS: write rediss")
        if name in OF_SENTINEL:
            raise InvalidUrl(f"{name} works only with redis+sentinel://")
        listed = name if _NAME.fullmatch(name) and not torn else "something else"
        raise InvalidUrl(f"{listed} is not an option; use socket_timeout, socket_connect_timeout and ssl_…")
    if kind == "cluster" and query.get("db", ["0"])[0] != "0":
        raise InvalidUrl("a cluster has no databases: leave db out")
    for name in _SECONDS:
        if name in query and not _is_time(query[name][0]):
            raise InvalidUrl(f"{name} is not a number of seconds above 0")
    if query.get("ssl_cert_reqs", ["none"])[0] not in _REQUIRED:
        raise InvalidUrl(f"ssl_cert_reqs is not one of {', '.join(_REQUIRED)}")
    db = query.get("db", ["0"])[0]
    if not (db.isascii() and db.isdigit()):
        raise InvalidUrl("the database is not a number")


def connection_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for our connections."""
    return {name: value for name, value in options.items() if name not in _WITHOUT_EFFECT}


def _is_time(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return math.isfinite(value) and value > 0
