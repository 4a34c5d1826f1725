"""Exports: text for the clipboard, and values as JSON in a file that only its owner can read."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from qdeck import UnknownJob
from qdeck.admin import Dropped, State
from qdeck_console.cli.output import dumps
from qdeck_console.documents import detail, document, whole_letter
from qdeck_console.format import counted
from qdeck_console.output_files import check_new_file, new_file
from qdeck_console.screens.prompt import Prompt, PromptField
from qdeck_console.steps import in_steps
from qdeck_console.text import safe_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
    from typing import BinaryIO

    from qdeck.admin import JobRecord
    from qdeck_console.console import Console
    from qdeck_console.format import Line
    from qdeck_console.operations import OperationRequest
    from qdeck_console.operator import Work

MOST_COPIED: Final = 100_000
_AT_ONCE_S: Final = 0.008  # for which values are written before a key is answered
_PAGE: Final = 200


def copy(console: Console, what: str, text: str) -> None:
    """Send text to the clipboard of the terminal. A terminal does not confirm it, so the message says sent."""
    text = safe_text(text, limit=MOST_COPIED, one_line=False)
    console.copy_to_clipboard(text)
    count = text.count("\n") + 1
    words = f"{what} sent to the clipboard" if count == 1 else f"{count:,} lines sent to the clipboard"
    console.say(f"{words}: {text}" if count == 1 else words, "ok", "✓")


class ExportFile:
    """The file that values are written to, a line of JSON each."""

    def __init__(self, file: BinaryIO, work: Work) -> None:
        self._file, self._work = file, work

    @property
    def is_dropped(self) -> bool:
        """Whether it was cancelled: then nothing is left of it."""
        return self._work.cancelled

    def put(self, rows: Iterable[dict[str, Any]]) -> None:
        """Write some documents at once."""
        for row in rows:
            self._file.write(dumps(row).encode() + b"\n")
            self._work.done += 1

    async def put_all(self, values: Iterable[object]) -> None:
        """Write values, however many, and let keys be answered in between."""
        await in_steps(self._steps(values))

    def _steps(self, values: Iterable[object]) -> Iterator[None]:
        paused = time.monotonic()
        for value in values:
            self.put([document(value)])
            if time.monotonic() - paused > _AT_ONCE_S:
                yield
                paused = time.monotonic()
                if self.is_dropped:
                    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What is written to a file: what writes it, of what it is, and how many there are where that is known."""

    fill: Callable[[ExportFile], Awaitable[None]]
    count: int | None = None
    noun: str = "row"
    name: str = ""  # in that of the file; else that of the tab
    of: str = ""  # what they are of, where not all that the screen lists is written

    @property
    def words(self) -> str:
        """How much it is about to be."""
        words = f"all matching {self.noun}s" if self.count is None else counted(self.count, self.noun)
        return f"{words} of {self.of}" if self.of else words


def in_memory(values: Sequence[object]) -> Export:
    """Return what a screen has already."""
    return Export(fill=lambda file: file.put_all(values), count=len(values))


def of_jobs(console: Console, jobs: Sequence[JobRecord], request: OperationRequest | None) -> Export:
    """The details of these jobs, or about all that a request means, read as they are written."""
    state = request.states[0] if request is not None else jobs[0].state if jobs else State.READY

    async def fill(file: ExportFile) -> None:
        async for job in _each(console, jobs, request):
            if file.is_dropped:
                return
            try:
                whole = await console.reader.job(job.ref, job.handle)
            except UnknownJob:
                continue  # it is none of these any more
            file.put([whole_letter(whole, job) if state == State.DEAD else detail(whole)])

    return Export(
        fill=fill,
        count=None if request is not None else len(jobs),
        noun="dead letter" if state == State.DEAD else f"{state} job",
        name=state,
    )


async def _each(
    console: Console, jobs: Sequence[JobRecord], request: OperationRequest | None
) -> AsyncIterator[JobRecord]:
    if request is None:
        for job in jobs:
            yield job
        return
    snapshot = console.latest.snapshot
    rows = snapshot.queues if snapshot is not None else ()
    for ref in request.queues or tuple(row.ref for row in rows if row.dead):
        cursor: str | None = None
        while True:
            page = await console.reader.page(ref, state=request.states, where=request.where, cursor=cursor, most=_PAGE)
            for job in page.jobs:
                yield job
            cursor = page.cursor
            if cursor is None:
                break


def write(console: Console, name: str, export: Export) -> None:
    """Write to a file that is not there yet, a line each, for this user alone."""
    work = console.operator.work
    if work is not None:
        console.say(f"{work.verb} in progress: esc cancels it", "muted", "∅")
    elif export.count == 0:
        console.say("nothing to export", "muted", "∅")
    else:
        console.operator.run(_write(console, name, export), "write")


async def _write(console: Console, name: str, export: Export) -> None:
    work = console.operator.work
    assert work is not None  # noqa: S101 - run() made it
    work.total = export.count
    try:
        with new_file(name) as (path, file):
            exported = ExportFile(file, work)
            await export.fill(exported)
            if exported.is_dropped:
                raise Dropped
    except Dropped:
        console.say("cancelled: nothing was written", "muted", "")
        return
    except OSError as error:
        is_taken = isinstance(error, FileExistsError)
        told = f"{error.filename or name}{' ' if is_taken else ': '}{error.strerror or error}"
        console.say(told, *(("warn", "▲") if is_taken else ("bad", "✗")))
        return
    console.say(f"{counted(work.done, export.noun)} written to {path}", "ok", "✓")


def ask(console: Console, tab: str, export: Export) -> None:
    """Ask where to write what a tab lists."""
    field = PromptField(
        value=f"qdeck-{export.name or tab}-{time.strftime('%Y%m%d-%H%M%S')}.jsonl", check=check_new_file
    )
    about: Line = (("one line of JSON each, in ", "muted"), (safe_text(str(Path.cwd()), limit=200), "text"))

    def answered(given: tuple[str, ...] | None) -> None:
        if given is None:
            console.say("nothing was written", "muted", "")
        else:
            write(console, given[0], export)

    console.ask(Prompt(console, f"Write {export.words} to a file", [about], [field], go="write"), answered)
