"""A console at one moment that never passes, driven by keys only, and the rows that its terminal shows.

This module alone knows the names of the console and of the core that the drawn rows need: what moves there is changed
here, and the golden files stay as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from textual.widgets import Input, TextArea

from qdeck import ServerUnreachable, UnreachableCause
from qdeck._engine import keys
from qdeck.admin import Target, Thresholds
from qdeck.testing import Past
from qdeck_console.app import ConsoleApp
from qdeck_console.contexts import Contexts
from qdeck_console.demo import names, others, seed, tasks
from qdeck_console.presenters.frame import ShownContext
from qdeck_console.screens.dialog import Dialog
from qdeck_console.textual_compat import strips_of
from support.rows import Frame, Row
from support.screens import contexts_of
from support.still import NOW_MS, FixedCost, StillReader, paint, settle, still_time, still_traceback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import redis
    from textual.pilot import Pilot

SERVER: Final = "redis-3.eu:6379/0"
ODD: Final = "demo:dev:odd:names:actions"
QUEUES: Final = {
    "native": names.WEBHOOKS,
    "vmpooler": "centos-9",
    "ifdb": "ifdb",
    "scheduler": "scheduler",
    "lists": "demo:dev:ingestion:actions",
}
"""A queue of each system on the painted server."""
_WIDE: Final = "名前が長すぎます"
_CONTEXTS: Final = f"""
[contexts.shop]
url = "redis://{SERVER}"
environment = "dev"
[contexts.vault]
url = "rediss://ana:secret@redis-1.eu:6380/2"
environment = "production"
colour = "blue"
"""
_TEMPORARY: Final = "{qdeck:messages}"


def paint_all(url: str, raw: redis.Redis) -> None:
    """Write the demo's queues to a server, with those of other systems, odd texts and temporary queues."""
    paint(url, raw)
    with still_time():
        others.seed_others(url, 1)
        with Past(url, seed=2, worker=seed.GONE, polls=10_000) as past:
            _odd_words(past)
    _temporary(raw)


def _odd_words(past: Past) -> None:
    """Dead letters with wide characters, markup and controls in their arguments and errors."""
    seeder = seed.Seeder(past)
    seeder._now = NOW_MS
    said = (f"{_WIDE}: 宛先 <山田@例え.jp>", "[bold red]no[/] [link=https://evil.example]click[/link] [@click=quit]x",
            "tab\there \x1b[31mred\x1b[0m, 🙂👩‍💻 e\u0301 \u202eevil")  # fmt: skip

    def failing(words: str) -> Any:
        def fail() -> None:
            raise ValueError(words)

        return fail

    with still_traceback():
        for ago, words in enumerate(said, 2):
            call = tasks.send_mail.call(words, "receipt")
            seeder.die(call._replace(queue=ODD), ago, failing(words), runs=2)


def _temporary(raw: redis.Redis) -> None:
    """Write temporary queues of two tasks, and an orphaned one."""
    for number, (task, kind, minutes, bytes_) in enumerate((
        ("task-17", "responses", 4, 300), ("task-17", "callbacks", 50, 9_000), ("作業-4", "callbacks", -3, 40),
    )):  # fmt: skip
        name = f"demo:dev:mail:{kind}:{number:04d}"
        raw.rpush(name, b"x" * bytes_)
        raw.zadd(f"{_TEMPORARY}:queues", {name: NOW_MS + minutes * 60_000})
        raw.hset(f"{_TEMPORARY}:about", name, f"{NOW_MS - 600_000} 3600000 mail {kind} gold {task}")
        raw.zadd(f"{_TEMPORARY}:tasks", {f"{task}\0{name}": 0})
        if kind == "callbacks":
            raw.zadd(f"{_TEMPORARY}:callbacks", {name: 0})
    raw.rpush("demo:dev:mail:responses:get:nobody", b"unread")


class LosingReader(StillReader):
    """A client that loses its server on demand: one attempt fails, and no other one is made."""

    lost = False
    refused = False

    async def run(self, program: Any) -> Any:
        """Read, or fail as if the server refused the connection."""
        if self.lost:
            if self.refused:
                await asyncio.Event().wait()
            self.refused = True
            told = f"redis://{SERVER} cannot be reached: connection refused"
            raise ServerUnreachable(told, cause=UnreachableCause.REFUSED, server=SERVER.partition("/")[0])
        return await super().run(program)


class Console:
    """A running console: keys go in, rows come out."""

    def __init__(self, pilot: Pilot[int], app: ConsoleApp, reader: LosingReader) -> None:
        self._pilot, self._app, self._reader = pilot, app, reader
        self._size = tuple(app.size)

    async def press(self, *keys: str) -> None:
        """Press keys at the first size, and wait until their effect is drawn. The notice of the last one stays."""
        if tuple(self._app.size) != self._size:
            await self._pilot.resize_terminal(*self._size)
            await self.settle()
        if keys[1:]:
            await self._pilot.press(*keys[:-1])
            await self.settle()
        self._app._note = (float("-inf"), [])
        await self._pilot.press(keys[-1])
        await self.settle()
        if self._app._note[1]:
            self._app._note = (float("inf"), self._app._note[1])

    async def call(self, words: str) -> None:
        """Run a command by its name, as if it had been typed after `:`."""
        await self.press("colon")
        field = self._app.focused
        assert isinstance(field, Input)
        field.value = words
        await self.settle()
        await self.press("enter")
        assert self._app.focused is not field, f"no command {words!r}:\n{self.text()}"

    async def seen(self, words: str) -> None:
        """Wait until the screen shows some words."""
        until = time.monotonic() + 30
        while words not in self.text():
            assert time.monotonic() < until, f"never saw {words!r}:\n{self.text()}"
            await self._pilot.pause(0.02)
        await self.settle()

    async def settle(self, looks: int = 1) -> None:
        """Wait until the screen has all its data, and further refreshes change nothing."""
        for field in (*self._app.screen.query(Input), *self._app.screen.query(TextArea)):
            field.cursor_blink = False
        if self._reader.lost:
            await self._settle_lost()
        else:
            await settle(self._pilot, self._app, looks=looks)

    async def _settle_lost(self) -> None:
        shown, same = "", 0
        while same < 3 or not self._app.shown.is_lost:
            await self._pilot.pause(0.02)
            now = self.text()
            shown, same = now, same + 1 if now == shown else 0

    async def lose(self) -> None:
        """Let the server refuse connections. One attempt is made, because a retry would change the counter."""
        self._reader.lost = True
        self._app.feed.poke()
        await self.settle()
        assert self._app._feeding is not None
        self._app._feeding.cancel()

    async def frame(self, width: int, height: int) -> Frame:
        """Return the rows at a size."""
        if tuple(self._app.size) != (width, height):
            await self._pilot.resize_terminal(width, height)
        work = self._app.operator.work
        if work is not None:
            work.started = time.monotonic() - 60  # what goes on is told after a moment
        if isinstance(self._app.screen, Dialog):
            self._app.screen._draw_bar()  # it follows a new size within a second
        else:
            self._app.age()
        await self.settle(looks=2)
        return self._rows()

    def _rows(self) -> Frame:
        return tuple(Row.of(strip) for strip in strips_of(self._app.screen))

    def text(self) -> str:
        """Return the text on screen."""
        return "\n".join(row.text for row in self._rows())


@contextlib.asynccontextmanager
async def drawn_console(
    url: str,
    *,
    environment: str = "dev",
    read_only: bool = False,
    live: bool = False,
    contexts: Path | None = None,
    size: tuple[int, int] = (80, 24),
) -> AsyncIterator[Console]:
    """Open a console on a server. `live`: production was opened for writing a minute ago. `contexts`: a file for
    two of them, of which one is a production.
    """
    reader = LosingReader(url)
    context = ShownContext(
        title="shop", server=SERVER, environment=environment, read_only=read_only,
        live_until=50_000.0 + 29 * 60 if live else None,
        told="live since 12:03 by ana: INC-2291" if live else "",
    )  # fmt: skip
    with still_time(), mock.patch("qdeck._operations.planning.new_id", return_value="66090ad75ae92mq9ohrv"):
        servers = Contexts(Target(url=url, thresholds=Thresholds()))
        if contexts is not None:
            servers = contexts_of(contexts, _CONTEXTS, "shop")
        app = ConsoleApp(servers, context, theme="qdeck-ink")
        app._reader, app.cost = reader, FixedCost()
        app.served.extend([412] * (app.served.maxlen or 0))
        async with app.run_test(size=size) as pilot:
            console = Console(pilot, app, reader)
            await console.settle()
            yield console


def newest_dead(raw: redis.Redis, queue: str) -> str:
    """Return the id of the newest dead letter of a queue of qdeck."""
    jobs: list[bytes] = raw.zrange(keys.key(queue, "dead"), 0, 0, desc=True)  # type: ignore[assignment] # not awaited
    return jobs[0].decode()
