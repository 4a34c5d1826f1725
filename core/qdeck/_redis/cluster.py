"""Routes of a cluster: each command goes to the server that has its slot, also while slots move."""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, MasterDownError, MovedError, ResponseError, TryAgainError

from qdeck._errors import InvalidOption
from qdeck._redis import keyless_commands
from qdeck._redis.address import Node
from qdeck._redis.commands import Command, Request
from qdeck._redis.errors import ReplyCode, code_of
from qdeck._redis.keyless_commands import KeylessScope, place_of
from qdeck._redis.routes import Exchange, LostExchange, NoAnswer, Routes

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from qdeck._redis.endpoint import Endpoint
    from qdeck._redis.retries import RetryTimer
    from qdeck._redis.routes import ExchangeReply, Steps

_HOME: Final = key_slot(b"qdeck:queues")  # where commands without a key go
_ASKING: Final[Command] = (b"ASKING",)
_SLOTS: Final = Request(((b"CLUSTER", b"SLOTS"),))
_REFRESH_S: Final = 0.2  # a moved slot is known at once; the others are read at most this often
_HOPS: Final = 8  # redirects of a request without a pause; later ones wait
_LATER: Final = (TryAgainError, ClusterDownError, MasterDownError)


@dataclass(frozen=True, slots=True)
class SlotMap:
    """The masters of the slots, and the other servers: `starts` are the first slots of ranges, with end and master."""

    starts: tuple[int, ...]
    ranges: tuple[tuple[int, Node], ...]
    masters: tuple[Node, ...]
    others: tuple[Node, ...]

    @classmethod
    def read(cls, reply: Sequence[Any], asked: Node) -> SlotMap:
        """Read a reply to CLUSTER SLOTS; a server without an address is the one that sent it."""
        ranges, others = [], []
        for first, last, *nodes in reply:
            master, *replicas = [_node(raw, asked) for raw in nodes]
            ranges.append((int(first), int(last), master))
            others += replicas
        ranges.sort(key=lambda one: one[0])
        masters = sorted({node for _, _, node in ranges}, key=str)
        return cls(
            tuple(first for first, _, _ in ranges),
            tuple((last, node) for _, last, node in ranges),
            tuple(masters),
            tuple(dict.fromkeys(others)),
        )

    def of(self, slot: int) -> Node | None:
        """Return the master of a slot; None without one."""
        at = bisect_right(self.starts, slot) - 1
        if at < 0:
            return None
        last, node = self.ranges[at]
        return node if slot <= last else None


def _node(raw: Sequence[Any], asked: Node) -> Node:
    host, port = raw[0], int(raw[1])
    text = host.decode() if isinstance(host, bytes) else ""
    return Node(asked.host if text in ("", "?") else text, port)


@dataclass(slots=True)
class _RoutedCommand:
    """One command of a request, or the part of it for one server."""

    command: Command
    slot: int | None
    place: KeylessScope | None = None
    pinned: Node | None = None
    asks: Node | None = None  # the server for one request, while its slot moves
    reply: Any = None
    done: bool = False


@dataclass(slots=True)
class _RoundResult:
    """The result of one round of exchanges."""

    failure: BaseException | None = None
    later: bool = False
    moved: bool = False


class ClusterRoutes(Routes):
    """The slots of a cluster, read from any of its servers and corrected by their redirects."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._map: SlotMap | None = None
        self._moved: dict[int, Node] = {}
        self._guests: dict[Node, None] = {}  # servers that get their first slot: they need the scripts already
        self._learned = 0.0

    def exchange(self, request: Request, retries: RetryTimer) -> Steps:
        """Send each command to the server of its slot. Those of a writing request with a key keep their order.

        A command that is redirected, or is too early, was not done: it alone is sent again. One that was lost is sent
        again, too, as all steps are idempotent.
        """
        reads = request.reads
        yield from self._know(retries, reads=reads)
        own = key_slot(request.key) if request.key else _HOME
        parts = [self._parts(command, own) for command in request.commands]
        left = [part for some in parts for part in some]
        hops = 0
        while left:
            ordered = not reads and bool(request.key)
            exchanges = self._plan(request, left, ordered=ordered)
            if not exchanges:
                self.forget_routes()
                yield retries.next_pause(ConnectionError("the cluster has no server for a slot"), reads=reads)
                yield from self._know(retries, reads=reads)
                continue
            outcomes = yield [exchange for exchange, _ in exchanges]
            result = _RoundResult()
            for (exchange, members), outcome in zip(exchanges, outcomes, strict=True):
                self._take(exchange, members, outcome, result, retries)
            hops += result.moved
            left = [part for part in left if not part.done]
            if left and (result.failure is not None or result.later or hops > _HOPS):
                if retries.is_expired and result.failure is None:
                    break  # the program reads what the server said last
                error = result.failure
                yield retries.next_length() if error is None else retries.next_pause(error, reads=reads)
            if left:
                yield from self._know(retries, reads=reads)
                self._turn_to_others(request.commands, parts)
        return [self._whole(command, some) for command, some in zip(request.commands, parts, strict=True)]

    def _parts(self, command: Command, own: int) -> list[_RoutedCommand]:
        place = place_of(command)
        if isinstance(place, int):
            return [_RoutedCommand(command, place)]
        masters = self._map.masters if self._map is not None else ()
        if place is KeylessScope.ALL:
            everybody = dict.fromkeys([*masters, *self._guests])
            return [_RoutedCommand(command, None, place, pinned=node) for node in everybody]
        if place is KeylessScope.WALK:
            node, plain = keyless_commands.step(command, masters)
            return [_RoutedCommand(plain, None, place, pinned=node)]
        return [_RoutedCommand(command, own)]

    def _turn_to_others(self, commands: Sequence[Command], parts: list[list[_RoutedCommand]]) -> None:
        """Continue walks past a dead server: another has its slots."""
        for command, some in zip(commands, parts, strict=True):
            if some[0].place is KeylessScope.WALK and not some[0].done and self._map is not None:
                some[0].pinned, some[0].command = keyless_commands.step(command, self._map.masters)

    def _whole(self, command: Command, parts: list[_RoutedCommand]) -> Any:
        masters = self._map.masters if self._map is not None else ()
        if parts[0].place is KeylessScope.ALL:
            return keyless_commands.together(command, [part.reply for part in parts if part.reply is not None])
        if parts[0].place is KeylessScope.WALK:
            return keyless_commands.stepped(parts[0].reply, parts[0].pinned, masters)
        return parts[0].reply

    def _plan(
        self, request: Request, left: list[_RoutedCommand], *, ordered: bool
    ) -> list[tuple[Exchange, list[_RoutedCommand]]]:
        """Return the exchanges of one round, one for each server; of an ordered request those before a change
        of server."""
        found: dict[tuple[Node, bool], list[_RoutedCommand]] = {}
        for part in left:
            node = part.asks or part.pinned or self._of(part.slot)
            if node is None:
                if ordered and found:
                    break
                return []
            place = node, part.asks is not None
            if ordered and found and place not in found:
                break
            found.setdefault(place, []).append(part)
        return [
            (_exchange(request, node, members, asking=asking), members) for (node, asking), members in found.items()
        ]

    def _take(
        self,
        exchange: Exchange,
        members: list[_RoutedCommand],
        outcome: ExchangeReply,
        result: _RoundResult,
        retries: RetryTimer,
    ) -> None:
        asked = members[0].asks is not None
        for part in members:
            part.asks = None
        if isinstance(outcome, LostExchange):
            self.forget_routes()
            retries.sent = retries.sent or outcome.sent
            result.failure = outcome.error
            for part in members:
                # A server that holds nothing of this request: the others are enough.
                part.done = part.place is KeylessScope.ALL
            return
        replies = outcome[1::2] if asked else outcome
        for part, reply in zip(members, replies, strict=True):
            part.reply = reply
            if isinstance(reply, MovedError):
                self._note_move(reply, exchange.node)
                result.moved = True
            elif isinstance(reply, AskError):
                part.asks = _sent_to(reply, exchange.node)
                result.moved = (
                    result.moved or asked
                )  # a redirect during a migration: not repeated forever without a pause
                self._guests[part.asks] = None
            elif isinstance(reply, _LATER):
                result.later = True
                if not isinstance(reply, TryAgainError):
                    self.forget_routes()
            else:
                part.done = True

    def _note_move(self, reply: AskError, asked: Node) -> None:
        self._moved[reply.slot_id] = _sent_to(reply, asked)
        self.forget_routes()

    def _of(self, slot: int | None) -> Node | None:
        if slot is None or self._map is None:
            return None
        return self._moved.get(slot) or self._map.of(slot)

    def _know(self, retries: RetryTimer, *, reads: bool) -> Generator[list[Exchange] | float, Any, None]:
        """Read the slots, if they are unknown or outdated."""
        while self._map is None or (self._stale and time.monotonic() - self._learned > _REFRESH_S):
            try:
                yield from self._learn()
            except NoAnswer as error:
                if code_of(error.last) is ReplyCode.NO_CLUSTER:
                    raise InvalidOption(
                        f"{self.endpoint} is a single server, not a cluster", hint="Write redis:// instead."
                    ) from error
                yield retries.next_pause(error.last, reads=reads)

    def _learn(self) -> Generator[list[Exchange] | float, Any, None]:
        known = [] if self._map is None else [*self._map.masters, *self._map.others]
        random.shuffle(known)
        last: BaseException = ConnectionError("no server of the cluster answers")
        for node in dict.fromkeys([*known, *self._seeds]):
            [reply] = yield [Exchange(node, _SLOTS)]
            if isinstance(reply, LostExchange):
                last = reply.error
            elif isinstance(reply[0], ResponseError):
                last = reply[0]
            elif not reply[0]:
                last = ConnectionError(f"{node} has no slots: has the cluster been created?")
            else:
                found = SlotMap.read(reply[0], node)
                self.changes += found != self._map
                self._map, self._moved = found, {}
                self._stale, self._learned = False, time.monotonic()
                return
        raise NoAnswer(last)


def _exchange(request: Request, node: Node, members: list[_RoutedCommand], *, asking: bool) -> Exchange:
    commands = [part.command for part in members]
    if asking:
        commands = [word for command in commands for word in (_ASKING, command)]
    return Exchange(node, request._replace(commands=commands))


def _sent_to(reply: AskError, asked: Node) -> Node:
    return Node(reply.host or asked.host, reply.port)
