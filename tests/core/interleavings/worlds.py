"""The data that programs meet in every order: built once, and put back before each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import redis


class Saved:
    """All keys of a server as they are now, to be put back."""

    def __init__(self, raw: redis.Redis) -> None:
        self._raw = raw
        names = sorted(raw.keys())
        pipe = raw.pipeline(transaction=False)
        for name in names:
            pipe.pttl(name)
            pipe.dump(name)
        replies = iter(pipe.execute())
        self._keys = [(name, max(0, next(replies)), next(replies)) for name in names]

    def restore(self) -> None:
        """Empty the server and put the keys back. Scripts stay loaded."""
        pipe = self._raw.pipeline(transaction=False)
        pipe.flushall(asynchronous=False)
        for name, ttl, value in self._keys:
            pipe.restore(name, ttl, value)
        pipe.execute()
