"""The temporary queues of the service that most tests of messages have, and keys that were not used for long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import redis

OWN: Final = "nooble4:dev:ingestion_service"
"""What the names of the ingestion service's queues begin with."""


def age(raw: redis.Redis, *names: str, idle_s: int = 100_000) -> None:
    """Let keys look as if they were not used for so long. Waiting would be luck: the server's clock is coarse."""
    for name in names:
        raw.restore(name, max(0, raw.pttl(name)), raw.dump(name) or b"", replace=True, idletime=idle_s)
