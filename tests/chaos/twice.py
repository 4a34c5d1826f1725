"""Clients that send a third of their calls twice, at once or late, as networks and impatient clients do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdeck._redis import AsyncClient, SyncClient

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from qdeck.adapters import Request

SHARE = 3


def send_twice(dice: random.Random, patch: Callable[[object, str, Any], None] = setattr) -> list[int]:
    """Doubles one call in three of all clients of this process; the list holds how many calls and how many doubles.

    Half of the doubles follow at once and give the answer (the first one's was lost, as it were); the others arrive
    after the next call, when they are long out of date.
    """
    counts = [0, 0]
    plain, aplain = SyncClient._exchange, AsyncClient._exchange
    late: dict[int, Request] = {}

    def twin(client: object, request: Request) -> tuple[Request | None, Request | None]:
        """What is to be sent after this call: what was put off before, and this one again."""
        counts[0] += 1
        old = late.pop(id(client), None)
        again = None
        if not request.reads and dice.randrange(SHARE) == 0:
            counts[1] += 1
            if dice.random() < 0.5:
                again = request
            else:
                late[id(client)] = request
        return old, again

    def exchange(client: SyncClient, request: Request) -> list[Any]:
        old, again = twin(client, request)
        replies = plain(client, request)
        if again is not None:
            replies = plain(client, again)
        if old is not None:
            plain(client, old)
        return replies

    async def aexchange(client: AsyncClient, request: Request) -> list[Any]:
        old, again = twin(client, request)
        replies = await aplain(client, request)
        if again is not None:
            replies = await aplain(client, again)
        if old is not None:
            await aplain(client, old)
        return replies

    patch(SyncClient, "_exchange", exchange)
    patch(AsyncClient, "_exchange", aexchange)
    return counts
