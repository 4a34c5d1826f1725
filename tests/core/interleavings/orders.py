"""All orders in which programs can take their calls, each with the connection cut at any of them.

A program does no input or output: it yields what it sends. So its calls can be held back while those of another go
first, sent twice, or answered by an error, and every order that a server could see can be tried.
"""

from __future__ import annotations

import enum
import itertools
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from qdeck import OutcomeUnknown, QdeckError
from qdeck._engine.batch_transitions import SliceResult, UndoneSlice
from qdeck._engine.transitions import PollReply
from qdeck._redis.commands import Offload, Sleep, request_of
from support.programs import answer, feed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from qdeck._redis import SyncClient
    from qdeck._redis.commands import Item, Program

DEEP: Final = 4
"""How many writes of a program are ordered in every way, with its reads; what is left of it then goes at once."""


class Cut(enum.Enum):
    """What a lost connection does to one call of a program."""

    RESENT = "its reply is lost, and the client sends it again"
    LOST_BEFORE = "it does not arrive, and the client gives up"
    LOST_AFTER = "its reply is lost, and the client gives up"
    KILLED_BEFORE = "the process dies before it sends it"
    KILLED_AFTER = "the process dies before the reply arrives"


class Where(NamedTuple):
    """The call at which a program is cut: which program, and which of its calls."""

    actor: int
    call: int
    cut: Cut


class Choose(Protocol):
    """Says which program takes the next call, of those that have one; `reads` says of each whether it only reads."""

    def __call__(self, alive: Sequence[int], reads: Sequence[bool]) -> int: ...


class RedundantOrder(Exception):
    """An order that differs from one played before only by reads beside each other."""


@dataclass(slots=True)
class _Actor:
    program: Program[Any]
    item: Any = None
    calls: list[bool] = field(default_factory=list)
    """Of each call so far, whether it only read."""
    error: QdeckError | None = None
    result: Any = None
    is_resent: bool = False

    def start(self) -> None:
        with suppress(StopIteration):
            self._hold(next(self.program))

    @property
    def reads(self) -> bool:
        return request_of(self.item).reads

    def advance(self, value: Any) -> None:
        """Give the program what it gets, and hold back what it sends next."""
        try:
            self._hold(feed(self.program, value))
        except StopIteration as stop:
            self.item, self.result = None, stop.value
        except QdeckError as error:
            self.item, self.error = None, error

    def _hold(self, item: Item) -> None:
        self.item = None
        while isinstance(item, Sleep | Offload):
            item = self.program.send(item.work() if isinstance(item, Offload) else None)
        self.item = item


@dataclass(slots=True)
class Played:
    """One order as it was played: who took each call, which calls of each only read, and how each ended."""

    order: list[int] = field(default_factory=list)
    calls: list[list[bool]] = field(default_factory=list)
    errors: list[QdeckError | None] = field(default_factory=list)
    outcomes: list[object] = field(default_factory=list)

    def told(self, where: Where | None) -> str:
        """Describe the order, for a failure."""
        names = "".join("ABC"[at] for at in self.order)
        cut = "" if where is None else f", call {where.call + 1} of {'ABC'[where.actor]}: {where.cut.value}"
        return f"order {names}{cut}, errors {[str(error) for error in self.errors if error]}"


def outcome_of(result: Any) -> object:
    """Return what a program reports as done. Why it left a job alone depends on who went first."""
    if isinstance(result, list):
        return [outcome_of(one) for one in result]
    if isinstance(result, SliceResult):
        return result.count - len(result.skipped), result.kept, result.unkept
    if isinstance(result, UndoneSlice):
        return result.restored, result.requeued
    if isinstance(result, PollReply):
        return [job.id for job in result.jobs], result.refused
    return None


def play(client: SyncClient, programs: Sequence[Program[Any]], choose: Choose, where: Where | None = None) -> Played:
    """Run programs; `choose` says which of those that are not at their end takes the next call."""
    actors = [_Actor(program) for program in programs]
    for actor in actors:
        actor.start()
    played = Played()
    while alive := [at for at, actor in enumerate(actors) if actor.item is not None]:
        deep = [at for at in alive if actors[at].calls.count(False) < DEEP] or alive[:1]
        taken = choose(deep, [actor.item is not None and actor.reads for actor in actors])
        assert taken in deep, f"program {taken} has no call left: other calls than before in the same order"
        played.order.append(taken)
        actor = actors[taken]
        _take(client, actor, where.cut if where and where[:2] == (taken, len(actor.calls)) else None)
    played.calls = [actor.calls for actor in actors]
    played.errors = [actor.error for actor in actors]
    played.outcomes = [outcome_of(actor.result) for actor in actors]
    return played


def _take(client: SyncClient, actor: _Actor, cut: Cut | None) -> None:
    if cut is Cut.RESENT and not actor.is_resent:
        answer(client, actor.item)
        actor.is_resent = True
        return
    lost = OutcomeUnknown("the connection was cut by the test")
    value = None if cut in (Cut.LOST_BEFORE, Cut.KILLED_BEFORE) else answer(client, actor.item)
    actor.calls.append(actor.reads)
    if cut in (Cut.KILLED_BEFORE, Cut.KILLED_AFTER):
        actor.item = None
    else:
        actor.advance(lost if cut in (Cut.LOST_BEFORE, Cut.LOST_AFTER) else value)


class _Branch(NamedTuple):
    """The beginning of an order, and the programs whose next read would only go before it as well."""

    first: tuple[int, ...] = ()
    asleep: frozenset[int] = frozenset()


class _Explorer:
    """Takes the calls of a branch, then the first that it may, and keeps the branches that begin beside these.

    Two reads beside each other are the same in either order, so one of both is enough: a read that went second in one
    order sleeps in the other until somebody writes.
    """

    def __init__(self, branch: _Branch) -> None:
        self.branches: list[_Branch] = []
        self._branch, self._order, self._asleep = branch, list[int](), branch.asleep

    def __call__(self, alive: Sequence[int], reads: Sequence[bool]) -> int:
        at, first = len(self._order), self._branch.first
        if at < len(first):
            taken = first[at]
            if at == len(first) - 1 and not reads[taken]:
                self._asleep = frozenset()
        else:
            awake = [one for one in alive if one not in self._asleep]
            if not awake:
                raise RedundantOrder
            taken = awake[0]
            for number, other in enumerate(awake[1:], 1):
                before = {one for one in awake[:number] if reads[one]} if reads[other] else set()
                asleep = self._asleep | before if reads[other] else frozenset()
                self.branches.append(_Branch((*self._order, other), frozenset(asleep)))
            if not reads[taken]:
                self._asleep = frozenset()
        self._order.append(taken)
        return taken


PlayOrder: TypeAlias = "Callable[[Sequence[str], Choose, Where | None], tuple[Played, str]]"


def every_order(run: Callable[[Choose], Played]) -> Iterator[Played]:
    """Run every order, but for those that differ from another only by reads beside each other."""
    todo = [_Branch()]
    while todo:
        explorer = _Explorer(todo.pop())
        with suppress(RedundantOrder):
            yield run(explorer)
        todo += explorer.branches


def every_cut(calls: Sequence[Sequence[bool]]) -> Iterator[Where]:
    """Return each way to cut programs at their calls, given whether each of these only reads.

    A read that is cut is a program that ends before its next write, or reads again.
    """
    for actor, own in enumerate(calls):
        writes = [call for call, reads in enumerate(own) if not reads]
        for call, cut in itertools.product(writes[:DEEP], Cut):
            if call < len(own) - 1 or cut not in (Cut.KILLED_BEFORE, Cut.KILLED_AFTER):
                yield Where(actor, call, cut)


def check_pair(run: PlayOrder, pair: tuple[str, str], *, as_wholes: bool = True) -> int:
    """Play all orders of two steps, whole and cut; return how many that were.

    With `as_wholes` each must lead to where one of the two orders leads in which no call of one comes between those of
    the other.
    """
    played = _check_orders(run, pair, None, as_wholes)
    longest = [max((one.calls[at] for one in played), key=len) for at in range(2)]
    return len(played) + sum(len(_check_orders(run, pair, where, as_wholes)) for where in every_cut(longest))


def _check_orders(run: PlayOrder, pair: tuple[str, str], where: Where | None, as_wholes: bool) -> list[Played]:
    found: list[tuple[Played, str]] = []

    def play_one(choose: Choose) -> Played:
        try:
            found.append(run(pair, choose, where))
        except AssertionError as error:
            raise AssertionError(f"{pair}, {where}: {error}") from error
        return found[-1][0]

    orders = list(every_order(play_one))
    # What is sent again must do what it would have done the first time.
    alone = None if where is not None and where.cut is Cut.RESENT else where
    serial = [_seen(*run(pair, lambda alive, reads, of=of: of(alive), alone), alone) for of in (min, max)]
    for played, text in found:
        seen = _seen(played, text, alone)
        assert not as_wholes or seen in serial, f"{pair}, {played.told(where)}: neither as wholes leads here: {seen}"
    return orders


def _seen(played: Played, text: str, where: Where | None) -> tuple[str, list[object]]:
    """Return what an order leads to: the data, and what programs report, but for one that was cut off."""
    return text, [one for at, one in enumerate(played.outcomes) if where is None or at != where.actor]
