"""A cluster: each command goes to the server that has its slot, wherever the slot moves meanwhile."""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, MasterDownError, MovedError, ResponseError, TryAgainError

from qdeck._errors import InvalidOption
from qdeck._redis import wide
from qdeck._redis.address import Node
from qdeck._redis.commands import Command, Request
from qdeck._redis.errors import ReplyCode, code_of
from qdeck._redis.routes import Lost, NoAnswer, Routes, Talk
from qdeck._redis.wide import Wide, place_of

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from qdeck._redis.effort import Effort
    from qdeck._redis.endpoint import Endpoint
    from qdeck._redis.routes import Heard, Steps

_HOME: Final = key_slot(b"qdeck:queues")  # where commands without a key go
_ASKING: Final[Command] = (b"ASKING",)
_SLOTS: Final = Request(((b"CLUSTER", b"SLOTS"),))
_REFRESH_S: Final = 0.2  # a slot that moved is known at once; how it is with the others is asked no oftener
_HOPS: Final = 8  # a request that is sent on and on waits between two tries from then on
_LATER: Final = (TryAgainError, ClusterDownError, MasterDownError)


@dataclass(frozen=True, slots=True)
class Map:
    """Who has which slots, and who else there is: `starts` are the first slots of ranges, with end and master."""

    starts: tuple[int, ...]
    ranges: tuple[tuple[int, Node], ...]
    masters: tuple[Node, ...]
    others: tuple[Node, ...]

    @classmethod
    def read(cls, reply: Sequence[Any], asked: Node) -> Map:
        """The answer to CLUSTER SLOTS; a server that does not know its own address is the one that was asked."""
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
        """Who has a slot; None when nobody has it."""
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
class _Part:
    """One command of a request, or what one server gets of it."""

    command: Command
    slot: int | None
    place: Wide | None = None
    pinned: Node | None = None
    asks: Node | None = None  # where it is to be asked for once, while its slot moves
    reply: Any = None
    done: bool = False


@dataclass(slots=True)
class _Round:
    """What came of one round of talks."""

    trouble: BaseException | None = None
    later: bool = False
    moved: bool = False


class ClusterRoutes(Routes):
    """The slots of a cluster, learned from any of its servers and from what they send on."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._map: Map | None = None
        self._moved: dict[int, Node] = {}
        self._guests: dict[Node, None] = {}  # servers that get their first slot: they need the scripts already
        self._learned = 0.0

    def exchange(self, request: Request, effort: Effort) -> Steps:
        """Sends each command to where its slot is. Those of a writing request with a key keep their order.

        A command that is sent on, or is too early, was not done: it alone is sent again. One that was lost on the way
        is sent again too, as all steps are idempotent.
        """
        reads = request.reads
        yield from self._know(effort, reads=reads)
        own = key_slot(request.key) if request.key else _HOME
        parts = [self._parts(command, own) for command in request.commands]
        left = [part for some in parts for part in some]
        hops = 0
        while left:
            ordered = not reads and bool(request.key)
            talks = self._plan(request, left, ordered=ordered)
            if not talks:
                self.doubt()
                yield effort.next_pause(ConnectionError("the cluster has no server for a slot"), reads=reads)
                yield from self._know(effort, reads=reads)
                continue
            outcomes = yield [talk for talk, _ in talks]
            came = _Round()
            for (talk, members), heard in zip(talks, outcomes, strict=True):
                self._take(talk, members, heard, came, effort)
            hops += came.moved
            left = [part for part in left if not part.done]
            if left and (came.trouble is not None or came.later or hops > _HOPS):
                if effort.is_over and came.trouble is None:
                    break  # the program reads what the server said last
                error = came.trouble
                yield effort.next_length() if error is None else effort.next_pause(error, reads=reads)
            if left:
                yield from self._know(effort, reads=reads)
                self._turn_to_others(request.commands, parts)
        return [self._whole(command, some) for command, some in zip(request.commands, parts, strict=True)]

    def _parts(self, command: Command, own: int) -> list[_Part]:
        place = place_of(command)
        if isinstance(place, int):
            return [_Part(command, place)]
        masters = self._map.masters if self._map is not None else ()
        if place is Wide.ALL:
            everybody = dict.fromkeys([*masters, *self._guests])
            return [_Part(command, None, place, pinned=node) for node in everybody]
        if place is Wide.WALK:
            node, plain = wide.step(command, masters)
            return [_Part(plain, None, place, pinned=node)]
        return [_Part(command, own)]

    def _turn_to_others(self, commands: Sequence[Command], parts: list[list[_Part]]) -> None:
        """A walk does not wait for a server that is gone: another has its slots."""
        for command, some in zip(commands, parts, strict=True):
            if some[0].place is Wide.WALK and not some[0].done and self._map is not None:
                some[0].pinned, some[0].command = wide.step(command, self._map.masters)

    def _whole(self, command: Command, parts: list[_Part]) -> Any:
        masters = self._map.masters if self._map is not None else ()
        if parts[0].place is Wide.ALL:
            return wide.together(command, [part.reply for part in parts if part.reply is not None])
        if parts[0].place is Wide.WALK:
            return wide.stepped(parts[0].reply, parts[0].pinned, masters)
        return parts[0].reply

    def _plan(self, request: Request, left: list[_Part], *, ordered: bool) -> list[tuple[Talk, list[_Part]]]:
        """The talks of one round, one for each server; of an ordered request those that come before a change of it."""
        found: dict[tuple[Node, bool], list[_Part]] = {}
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
        return [(_talk(request, node, members, asking=asking), members) for (node, asking), members in found.items()]

    def _take(self, talk: Talk, members: list[_Part], heard: Heard, came: _Round, effort: Effort) -> None:
        asked = members[0].asks is not None
        for part in members:
            part.asks = None
        if isinstance(heard, Lost):
            self.doubt()
            effort.sent = effort.sent or heard.sent
            came.trouble = heard.error
            for part in members:
                # A server that holds nothing of this request but was to be asked too: the others will do.
                part.done = part.place is Wide.ALL
            return
        replies = heard[1::2] if asked else heard
        for part, reply in zip(members, replies, strict=True):
            part.reply = reply
            if isinstance(reply, MovedError):
                self._note_move(reply, talk.node)
                came.moved = True
            elif isinstance(reply, AskError):
                part.asks = _sent_to(reply, talk.node)
                came.moved = came.moved or asked  # a guest's place that sends it on: not for ever without a pause
                self._guests[part.asks] = None
            elif isinstance(reply, _LATER):
                came.later = True
                if not isinstance(reply, TryAgainError):
                    self.doubt()
            else:
                part.done = True

    def _note_move(self, reply: AskError, asked: Node) -> None:
        self._moved[reply.slot_id] = _sent_to(reply, asked)
        self.doubt()

    def _of(self, slot: int | None) -> Node | None:
        if slot is None or self._map is None:
            return None
        return self._moved.get(slot) or self._map.of(slot)

    def _know(self, effort: Effort, *, reads: bool) -> Generator[list[Talk] | float, Any, None]:
        """Asks who has which slots, if that is not known or doubted."""
        while self._map is None or (self._stale and time.monotonic() - self._learned > _REFRESH_S):
            try:
                yield from self._learn()
            except NoAnswer as error:
                if code_of(error.last) is ReplyCode.NO_CLUSTER:
                    raise InvalidOption(
                        f"{self.endpoint} is a server of its own, no cluster", hint="write redis:// instead"
                    ) from error
                yield effort.next_pause(error.last, reads=reads)

    def _learn(self) -> Generator[list[Talk] | float, Any, None]:
        known = [] if self._map is None else [*self._map.masters, *self._map.others]
        random.shuffle(known)
        last: BaseException = ConnectionError("no server of the cluster answers")
        for node in dict.fromkeys([*known, *self._seeds]):
            [heard] = yield [Talk(node, _SLOTS)]
            if isinstance(heard, Lost):
                last = heard.error
            elif isinstance(heard[0], ResponseError):
                last = heard[0]
            elif not heard[0]:
                last = ConnectionError(f"{node} knows of no slots: is the cluster made?")
            else:
                found = Map.read(heard[0], node)
                self.changes += found != self._map
                self._map, self._moved = found, {}
                self._stale, self._learned = False, time.monotonic()
                return
        raise NoAnswer(last)


def _talk(request: Request, node: Node, members: list[_Part], *, asking: bool) -> Talk:
    commands = [part.command for part in members]
    if asking:
        commands = [word for command in commands for word in (_ASKING, command)]
    return Talk(node, request._replace(commands=commands))


def _sent_to(reply: AskError, asked: Node) -> Node:
    return Node(reply.host or asked.host, reply.port)
