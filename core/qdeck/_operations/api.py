"""Operations on a deck, in blocking code and (with an `a` before the name) in asyncio.

```
plan = build_plan(deck, "retry", ["shop:mail:actions"], where="error:Timeout*")   # writes nothing
result = apply_plan(deck, plan)                                                   # exactly that
undo_batch(deck, result.batch)                                                    # and back
```
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qdeck._deck import reads
from qdeck._deck.deck import need_states
from qdeck._errors import InvalidOption, UsageError
from qdeck._filter import parse
from qdeck._operations import activity, applying, editing, foreign, foreign_reads, groups, planning, redrive, undoing
from qdeck._operations import stuck as stuck_jobs
from qdeck._operations.driving import Step, adrive, drive
from qdeck._operations.model import BatchResult, Fates, UndoResult, Verb
from qdeck._operations.planfile import check_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from qdeck._deck.deck import Deck
    from qdeck._engine.ops import Program
    from qdeck._filter import Filter
    from qdeck._operations.driving import Steps
    from qdeck._operations.groups import Groups
    from qdeck._operations.model import Activity
    from qdeck._operations.planfile import Plan
    from qdeck._operations.stuck import StuckJob


def build_plan(
    deck: Deck,
    verb: str | Verb,
    queues: str | Sequence[str] = (),
    *,
    where: str | Filter = "",
    ids: Sequence[str] = (),
    state: str | Sequence[str] | None = None,
    priority: int | str | None = None,
    target: str | None = None,
    stuck: bool = False,
    reason: str = "",
    path: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Plan:
    """What a verb would do, to the jobs named or to all that match, of some queues or of all. It writes nothing.

    With `stuck` only running jobs that are stuck are taken.
    """
    wish = _wish(
        verb, queues, where, ids, state, priority=priority, target=target, stuck=stuck, reason=reason, path=path
    )
    return deck.look(_planned(deck, wish, progress=progress, cancelled=cancelled))


async def abuild_plan(
    deck: Deck,
    verb: str | Verb,
    queues: str | Sequence[str] = (),
    *,
    where: str | Filter = "",
    ids: Sequence[str] = (),
    state: str | Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    **options: Any,
) -> Plan:
    """What a verb would do, in asyncio; the options are those of `build_plan`."""
    wish = _wish(verb, queues, where, ids, state, **options)
    return await deck.alook(_planned(deck, wish, progress=progress, cancelled=cancelled))


def _planned(deck: Deck, wish: planning.Wish, **watch: Any) -> Program[Plan]:
    """Return the program that makes a plan on the database and the systems of a connection."""
    return planning.build(deck.memory, deck.address, wish, db=deck.endpoint.db, others=deck.others, **watch)


def _wish(
    verb: str | Verb,
    queues: str | Sequence[str],
    where: str | Filter,
    ids: Sequence[str],
    state: str | Sequence[str] | None,
    **options: Any,
) -> planning.Wish:
    try:
        what = Verb(verb)
    except ValueError as error:
        raise InvalidOption(f"{error}", hint=f"verbs are: {', '.join(Verb)}") from error
    wanted = parse(where) if isinstance(where, str) else where
    names = (queues,) if isinstance(queues, str) else tuple(queues)
    states = () if state is None else need_states(state)
    return planning.Wish(verb=what, queues=names, wanted=wanted, ids=tuple(ids), states=states, **options)


def _check(deck: Deck, plan: Plan) -> None:
    """Raises when the plan is not what it was made as, or not for this database; the server is asked later."""
    check_whole(plan)
    made, here = plan.head.db, deck.endpoint.db
    if made is not None and made != here:
        raise UsageError(
            f"the plan {plan.path} was made on database {made}, and this is database {here}",
            hint="make a plan for this database, or apply it to that one",
        )


def apply_plan(deck: Deck, plan: Plan, **options: Any) -> BatchResult:
    """Does what a plan says, to each entry that still is as the plan saw it; goes on where an earlier run ended.

    A plan whose file was changed since it was made is refused.
    Options: `rate` entries a second, `progress` (is given a `Tally` after each slice), `cancelled` (ends it when it
    answers true), `keep_bytes` and `keep_ms` of what undoes it.
    """
    _check(deck, plan)
    return drive(deck, applying.apply_steps(plan, **options))


async def aapply_plan(deck: Deck, plan: Plan, **options: Any) -> BatchResult:
    """Does what a plan says, in asyncio; the options are those of `apply_plan`."""
    await asyncio.to_thread(_check, deck, plan)
    return await adrive(deck, applying.apply_steps(plan, **options))


def redrive_plan(deck: Deck, plan: Plan, **options: Any) -> tuple[BatchResult, Fates]:
    """Applies a plan of retries at a `rate`, `first` a few, and stops by itself when they die again."""
    _check(deck, plan)
    return drive(deck, redrive.redrive_steps(plan, **options))


async def aredrive_plan(deck: Deck, plan: Plan, **options: Any) -> tuple[BatchResult, Fates]:
    """Applies a plan of retries at a rate, in asyncio."""
    await asyncio.to_thread(_check, deck, plan)
    return await adrive(deck, redrive.redrive_steps(plan, **options))


def read_fates(deck: Deck, plan: Plan) -> Fates:
    """What became of the jobs of a plan that was applied."""
    return deck.look(redrive.read_fates(plan))


async def aread_fates(deck: Deck, plan: Plan) -> Fates:
    """What became of the jobs of a plan that was applied, in asyncio."""
    return await deck.alook(redrive.read_fates(plan))


def fates_told(plan: Plan) -> str:
    """How much can be seen of what becomes of the entries of other layouts, in words."""
    return redrive.told(plan)


def undo_batch(deck: Deck, batch: str | None = None, **options: Any) -> UndoResult:
    """Takes a batch back, without an id this user's own last one. Twice is once."""
    return drive(deck, undoing.undo_steps(batch, **options))


async def aundo_batch(deck: Deck, batch: str | None = None, **options: Any) -> UndoResult:
    """Takes a batch back, in asyncio."""
    return await adrive(deck, undoing.undo_steps(batch, **options))


def read_groups(deck: Deck, queues: str | Sequence[str] = (), *, where: str | Filter = "", **options: Any) -> Groups:
    """The dead letters of some queues, or of all, in groups by error class and shape of message."""
    return deck.look(_groups(deck, queues, where, options))


async def aread_groups(
    deck: Deck, queues: str | Sequence[str] = (), *, where: str | Filter = "", **options: Any
) -> Groups:
    """The dead letters in groups, in asyncio."""
    return await deck.alook(_groups(deck, queues, where, options))


def _groups(deck: Deck, queues: str | Sequence[str], where: str | Filter, options: dict[str, Any]) -> Program[Groups]:
    wanted = parse(where) if isinstance(where, str) else where
    ground = yield from foreign.ground_of(deck.memory, deck.others, _names(queues), wanted)
    found = yield from groups.read_groups(ground.native, wanted=wanted, **options)
    if ground.unread:
        left_out = tuple(why for _, why in ground.unread)
        found = replace(found, exact=False, unread=(*left_out, *found.unread))
    if not ground.foreign:
        return found
    now = yield from reads.clock()
    theirs = yield from foreign_reads.read_groups(ground.foreign, now=now, wanted=wanted, **options)
    return foreign_reads.merged(found, theirs)


def read_stuck(
    deck: Deck,
    queues: str | Sequence[str] = (),
    *,
    where: str | Filter = "",
    limit: int | None = None,
    unread: list[str] | None = None,
) -> list[StuckJob]:
    """The stuck jobs of some queues, or of all, with why. Queues that cannot be read are noted in `unread`."""
    return deck.look(_stuck(deck, queues, where, limit, unread=unread))


async def aread_stuck(
    deck: Deck,
    queues: str | Sequence[str] = (),
    *,
    where: str | Filter = "",
    limit: int | None = None,
    each: Callable[[list[StuckJob]], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> list[StuckJob]:
    """The stuck jobs, in asyncio. With `each` they are handed over page by page, however many, and none is kept."""
    return await deck.alook(_stuck(deck, queues, where, limit, each=each, cancelled=cancelled))


def _stuck(
    deck: Deck,
    queues: str | Sequence[str],
    where: str | Filter,
    limit: int | None,
    *,
    unread: list[str] | None = None,
    **more: Any,
) -> Program[list[StuckJob]]:
    unread = [] if unread is None else unread
    wanted = parse(where) if isinstance(where, str) else where
    ground = yield from foreign.ground_of(deck.memory, deck.others, _names(queues), wanted)
    unread += [why for _, why in ground.unread]
    found = yield from stuck_jobs.read_stuck(ground.native, wanted=wanted, limit=limit, unread=unread, **more)
    left = None if limit is None else limit - len(found)
    return found + (
        yield from foreign_reads.read_stuck(ground.foreign, wanted=wanted, limit=left, unread=unread, **more)
    )


def _names(queues: str | Sequence[str]) -> tuple[str, ...]:
    return (queues,) if isinstance(queues, str) else tuple(queues)


def read_activity(deck: Deck, since_ms: int | None = None) -> list[Activity]:
    """The log of operations, oldest first."""
    return deck.look(activity.read(since_ms))


async def aread_activity(deck: Deck, since_ms: int | None = None) -> list[Activity]:
    """The log of operations, in asyncio."""
    return await deck.alook(activity.read(since_ms))


def read_draft(deck: Deck, queue: str, job_id: str) -> editing.Draft:
    """A job whose payload is to be edited."""
    return deck.look(_draft(deck, queue, job_id))


def _draft(deck: Deck, queue: str, job_id: str) -> Program[editing.Draft]:
    home = yield from deck.others.home(queue)
    if home is not None:
        raise InvalidOption(f"{home.name} has nothing like edit", hint="an entry is changed by its own system")
    return (yield from editing.read_draft(queue, job_id))


def edit_job(deck: Deck, draft: editing.Draft, text: str | bytes, reason: str = "") -> BatchResult:
    """Gives the job the payload that is written there, and lets it run again when it was dead."""
    body = editing.new_body(draft, text)
    return drive(deck, _edit_steps(draft, body, reason))


async def aedit_job(deck: Deck, draft: editing.Draft, text: str | bytes, reason: str = "") -> BatchResult:
    """Gives a job another payload, in asyncio."""
    body = editing.new_body(draft, text)
    return await adrive(deck, _edit_steps(draft, body, reason))


def _edit_steps(draft: editing.Draft, body: bytes, reason: str) -> Steps[BatchResult]:
    result: BatchResult = yield Step(editing.apply_edit(draft, body, reason))
    return result
