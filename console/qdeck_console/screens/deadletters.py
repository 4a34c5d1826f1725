"""Writes jobs to a file, all about each on a line of JSON: those that were marked, or all that match."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck import UnknownJob
from qdeck.admin import Dropped, State
from qdeck_console.cli import shapes
from qdeck_console.format import counted
from qdeck_console.newfile import check_new_file, new_file
from qdeck_console.screens.form import Field, FormScreen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from typing import BinaryIO

    from qdeck.admin import JobRecord
    from qdeck_console.console import Console
    from qdeck_console.operating import Wish

_PAGE: Final = 200


def export(console: Console, jobs: Sequence[JobRecord], wish: Wish | None) -> None:
    """Asks for a file and writes these jobs there, or all that a wish means."""
    if wish is None and not jobs:
        console.say("nothing to write", "muted", "∅")
    else:
        console.operator.run(_export(console, jobs, wish), "export")


def write(console: Console, name: str, jobs: Sequence[JobRecord], wish: Wish | None) -> None:
    """Writes these jobs to a file, or all that a wish means, however many."""
    if wish is None and not jobs:
        console.say("nothing to write", "muted", "∅")
    elif why := check_new_file(name):
        console.say(f"{name or 'the file'}: {why}", "warn", "▲")
    else:
        console.operator.run(_write_to(console, name, jobs, wish), "export")


async def _export(console: Console, jobs: Sequence[JobRecord], wish: Wish | None) -> None:
    state = wish.states[0] if wish is not None else jobs[0].state
    word = "dead letter" if state == State.DEAD else f"{state} job"
    what = counted(len(jobs), word) if wish is None else f"all {word}s that match"
    offered = f"{state}-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
    field = Field(label="to the file", value=offered, hint="for you alone, a line of JSON each", check=check_new_file)
    answer = await console.operator.answer_to(FormScreen(console, f"Export {what}", [field]))
    if answer is None:
        console.say("nothing was written", "muted", "")
        return
    await _write_to(console, answer[0], jobs, wish)


async def _write_to(console: Console, name: str, jobs: Sequence[JobRecord], wish: Wish | None) -> None:
    work = console.operator.work
    try:
        with new_file(name) as (path, file):
            count = await _write(console, file, jobs, wish)
            if work is not None and work.cancelled:
                raise Dropped
    except Dropped:
        console.say("cancelled: nothing was written", "muted", "")
    except OSError as error:
        console.say(f"{name}: {error.strerror or error}", "bad", "✗")
    else:
        console.say(f"{count:,} written to {path}", "ok", "✓")


async def _write(console: Console, file: BinaryIO, jobs: Sequence[JobRecord], wish: Wish | None) -> int:
    work, reader, count = console.operator.work, console.reader, 0
    async for job in _each(console, jobs, wish):
        if work is not None and work.cancelled:
            break
        try:
            detail = await reader.job(job.ref, job.handle)
        except UnknownJob:
            continue  # it is dead no more
        file.write(msgspec.json.encode(shapes.detail(detail) | {"queue_from": job.queue}) + b"\n")
        count += 1
        if work is not None:
            work.done = count
    return count


async def _each(console: Console, jobs: Sequence[JobRecord], wish: Wish | None) -> AsyncIterator[JobRecord]:
    if wish is None:
        for job in jobs:
            yield job
        return
    snapshot = console.latest.snapshot
    rows = snapshot.queues if snapshot is not None else ()
    for ref in wish.queues or tuple(row.ref for row in rows if row.dead):
        cursor: str | None = None
        while True:
            page = await console.reader.page(ref, state=wish.states, where=wish.where, cursor=cursor, most=_PAGE)
            for job in page.jobs:
                yield job
            cursor = page.cursor
            if cursor is None:
                break
