"""A walk through a sorted set that changes meanwhile: no member that stays in place is missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._redis import reads

if TYPE_CHECKING:
    from qdeck._redis.commands import Command, Program


class SortedSet:
    """Goes on behind the last entry by its rank; where that has moved or gone, by its score and member.

    Plain reads only. It is `over` once the set had no more than was asked for, so that what is added is not chased.
    """

    def __init__(
        self,
        key: bytes,
        *,
        down: bool = False,
        lowest: int | None = None,
        after: tuple[bytes, bytes] | None = None,
    ) -> None:
        """`after` is a member with its score, behind which it begins."""
        self.over = False
        self.last = after
        self._key, self._down, self._lowest = key, down, lowest
        self._rank = -1 if after is not None or lowest is not None else 0

    def jump(self, lowest: int) -> None:
        """Continue with the first entry of this score or a higher one."""
        self.last, self._lowest, self._rank = None, lowest, -1

    def take(self, most: int) -> Program[list[bytes]]:
        """Return the next members, each with its score."""
        flat = (yield from self._next(most)) if not self.over else []
        if flat:
            self.last = flat[-2], flat[-1]
        return flat

    def _next(self, most: int) -> Program[list[bytes]]:
        by_rank, rank_of = (b"ZREVRANGE", b"ZREVRANK") if self._down else (b"ZRANGE", b"ZRANK")
        if self.last is None:
            if self._lowest is None:
                self._rank = most
                call: Command = (by_rank, self._key, 0, most - 1, b"WITHSCORES")
            else:
                call = (b"ZRANGEBYSCORE", self._key, self._lowest, b"+inf", b"WITHSCORES", b"LIMIT", 0, most)
            found: list[bytes] = yield call
            self.over = len(found) < 2 * most
            return found
        member, score = self.last
        if self._rank < 0:
            rank = yield (rank_of, self._key, member)
            self._rank = -1 if rank is None else rank + 1
        if self._rank > 0:
            start = self._rank - 1
            found = yield (by_rank, self._key, start, start + most, b"WITHSCORES")
            if found[:1] == [member] and float(found[1]) == float(score):
                self._rank += (len(found) - 2) // 2
                self.over = len(found) < 2 * most + 2
                return found[2:]
        self._rank = -1
        return (yield from self._by_score(member, score, most))

    def _by_score(self, member: bytes, score: bytes, most: int) -> Program[list[bytes]]:
        passed, tied, down = 0, float(score), self._down
        by_score, end = (b"ZREVRANGEBYSCORE", b"-inf") if down else (b"ZRANGEBYSCORE", b"+inf")
        while True:
            found = reads.pairs((yield (by_score, self._key, score, end, b"WITHSCORES", b"LIMIT", passed, most)))
            fresh = [
                pair for pair in found if float(pair[1]) != tied or (pair[0] < member if down else pair[0] > member)
            ]
            if fresh or not found:
                self.over = len(found) < most
                return [word for pair in fresh for word in pair]
            passed += len(found)
