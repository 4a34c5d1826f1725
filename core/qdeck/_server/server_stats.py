"""Statistics of the server: `INFO`, and the commands that took it longest. With plain reads only."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error
from qdeck._server.server_info import info_fields, info_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._redis.commands import Program

MOST_SLOW: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowCommand:
    """A command that took long: when, for how long, and its first words."""

    at_ms: int
    took_us: int
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStats:
    """The server's statistics; empty without the right to read them."""

    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    slow: tuple[SlowCommand, ...] | None = None  # None: it may not be read
    slow_count: int | None = None

    def number(self, name: str) -> int | None:
        """Return a fact that is a whole number."""
        return info_number(self.facts, name)


def read_stats() -> Program[ServerStats]:
    """Read `INFO` and the newest entries of the slow log, in one round trip."""
    info, slow, count = yield with_errors((b"INFO",), (b"SLOWLOG", b"GET", MOST_SLOW), (b"SLOWLOG", b"LEN"))
    return ServerStats(
        facts=MappingProxyType(info_fields(info)),
        slow=None if is_error(slow) else tuple(_slow(entry) for entry in slow if len(entry) >= 4),
        slow_count=count if isinstance(count, int) else None,
    )


def count_keys() -> Program[int | None]:
    """Return how many keys the server has; None without the right to count them."""
    [count] = yield with_errors((b"DBSIZE",))
    return count if isinstance(count, int) else None


def _slow(entry: list[Any]) -> SlowCommand:
    words = [word.decode("utf-8", "replace") for word in entry[3][:3] if isinstance(word, bytes)]
    return SlowCommand(at_ms=int(entry[1]) * 1000, took_us=int(entry[2]), words=tuple(words))
