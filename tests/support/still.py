"""A still life: the demo's queues at one moment that never passes, and the frames of the console that looks at them.

The server is a real one with jobs made by the engine's own steps, but its clock, what it says about itself and the
console's clock are fixed, so that every run on every machine draws the same cells.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import pkgutil
import re
import sys
import time
from dataclasses import dataclass
from time import struct_time
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeVar
from unittest import mock

import msgspec

from qdeck._engine import codec, keys, programs, transitions
from qdeck._operations import batches
from qdeck._redis import Endpoint, SyncClient
from qdeck._redis.commands import Offload, Request, Sleep, raw_of, request_of
from qdeck._server import history
from qdeck.admin import NATIVE, AsyncWriter, Definition, Limits, NewJob, QueueRef, Sample, Target
from qdeck.testing import Past
from qdeck_console import screens
from qdeck_console.actions import PURGE
from qdeck_console.app import ConsoleApp
from qdeck_console.contexts import Contexts
from qdeck_console.demo import names, seed
from qdeck_console.demo.seed import Seeder
from qdeck_console.presenters.frame import ShownContext
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.screens.help import HelpScreen
from qdeck_console.screens.job import JobScreen
from qdeck_console.screens.purge import PurgeScreen
from qdeck_console.server_cost import RequestCost
from qdeck_console.textual_compat import strips_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from rich.style import Style
    from textual.pilot import Pilot

    from qdeck._redis.commands import Item
    from qdeck.admin import Program

T = TypeVar("T")
NOW_MS: Final = 1_795_003_471_000  # 18 November 2026, 12:04:31 UTC
_ZERO_S: Final = 50_000.0
_INFO: Final = (
    b"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nserver_mode:standalone\r\n"
    b"uptime_in_seconds:1123200\r\n# Clients\r\nconnected_clients:23\r\nblocked_clients:8\r\nmaxclients:10000\r\n"
    b"# Memory\r\nused_memory:41231760\r\nused_memory_peak:52428800\r\nmaxmemory:268435456\r\n"
    b"maxmemory_policy:noeviction\r\nmem_fragmentation_ratio:1.12\r\n# Persistence\r\nloading:0\r\naof_enabled:1\r\n"
    b"rdb_last_bgsave_status:ok\r\naof_last_write_status:ok\r\nrdb_last_save_time:1795003180\r\n"
    b"# Stats\r\ntotal_commands_processed:88123456\r\ninstantaneous_ops_per_sec:412\r\nevicted_keys:0\r\n"
    b"# Replication\r\nrole:master\r\nconnected_slaves:1\r\n"
)
_HELLO: Final = [b"server", b"valkey", b"version", b"9.1.2", b"proto", 2, b"mode", b"standalone", b"role", b"master"]
_ANSWERS: Final[dict[bytes, Any]] = {
    b"TIME": [b"%d" % (NOW_MS // 1000), b"%d" % (NOW_MS % 1000 * 1000)],
    b"INFO": _INFO,
    b"HELLO": _HELLO,
    b"SLOWLOG": [],
    b"LATENCY": [],
    b"MEMORY": 400,  # what a key takes; the allocator decides
    b"OBJECT": 600,  # how long nothing touched a key, in seconds
}

# The workers, and how many jobs each runs.
_HOSTS = (("wrk-1.eu-1.4100", 3, "running"), ("wrk-2.eu-2.4101", 1, "running"), ("wrk-3.eu-3.4102", 0, "quiet"))


class StillReader(AsyncWriter):
    """A client on whose server no time passes."""

    @property
    def address(self) -> str:
        """Where it says that it is."""
        return "redis://redis-3.eu:6379/0"

    async def run(self, program: Program[T]) -> T:
        """Run a program, with fixed answers to what changes by itself."""
        return await super().run(_still(program))

    async def _run_write(self, program: Program[T]) -> T:
        return await super()._run_write(_still(program))


class StillContexts(Contexts):
    """A server on which no time passes."""

    def open(self, target: Target, _cost: RequestCost, *, read_only: bool) -> StillReader:
        """Open the server; what the console may do there is up to the console."""
        return StillReader(target.url, adapters=target.adapters or [NATIVE])


def _still(program: Program[T]) -> Program[T]:
    try:
        item = next(program)
        while True:
            try:
                reply = yield item
            except Exception as error:  # noqa: BLE001 - the program's own
                item = program.throw(error)
            else:
                item = program.send(_fixed(item, reply))
    except StopIteration as stop:
        value: T = stop.value
        return value


def _fixed(item: Item, reply: Any) -> Any:
    if isinstance(item, Sleep | Offload):
        return reply
    commands = request_of(item).commands
    if not isinstance(item, Request | list):
        return _ANSWERS.get(raw_of(commands[0][0]), reply)
    return [_ANSWERS.get(raw_of(command[0]), one) for command, one in zip(commands, reply, strict=True)]


class FixedCost(RequestCost):
    """What looking costs, the same at all times."""

    def per_second(self) -> tuple[float, float]:
        """Return what looking costs."""
        return 38.0, 5200.0


def paint(url: str, raw: redis.Redis) -> None:
    """Put everything on the server."""
    client = SyncClient(Endpoint(url))
    try:
        with Past(url, worker=seed.GONE) as past, still_traceback():
            seeder = Seeder(past)
            seeder._now = NOW_MS
            seeder.run()
        for name, running, _ in _HOSTS:
            if running:
                number = NOW_MS * 1000
                client.run(
                    programs.call(
                        transitions.poll(
                            names.SEARCH, name, number, free_slots=running, lease_ms=30_000, now=NOW_MS - 2_000
                        )
                    )
                )
    finally:
        client.close()
    _workers(raw)
    _agents(raw)
    _schedules(raw)
    _activity(raw)
    _past(raw)


def still_traceback() -> Any:
    """Give errors of the demo the same traceback on every Python, for as long as it lasts."""
    return mock.patch.object(seed, "traceback", SimpleNamespace(format_exception=_traceback))


def _traceback(error: BaseException) -> list[str]:
    return [
        "Traceback (most recent call last):\n",
        '  File "/srv/shop/tasks.py", line 71, in deliver_webhook\n    answer.raise_for_status()\n',
        f"{type(error).__name__}: {error}\n",
    ]


def _workers(raw: redis.Redis) -> None:
    for number, (name, running, state) in enumerate(_HOSTS):
        _, host, pid = name.split(".")
        said = {
            "host": host, "pid": int(pid), "version": "0.1.0", "queues": dict(names.WORKER), "state": state,
            "concurrency": 8, "rss": 61_000_000,
            "running": running, "done": 18_210 + 977 * number, "failed": 12 * number,
            "started_ms": NOW_MS - 86_400_000, "heartbeat_ms": NOW_MS - 1_000,
        }  # fmt: skip
        raw.hset("qdeck:workers", name, json.dumps(said))


def _agents(raw: redis.Redis) -> None:
    """Return what an agent purged and cleaned by itself."""
    purged = {"planned": 4, "applied": 4, "skipped": 0, "rules": {"done_too_old": {"count": 4}}, "every_s": 3600}
    for task, minutes, told in (("purge", 34, purged), ("clean", 1, {"planned": 3, "applied": 3, "every_s": 120})):
        at = NOW_MS - 60_000 * minutes
        slot: Any = {"started": at - 900, "ended": at, "until": 0, "outcome": "done"}
        slot |= {"holder": "agent-eu-1.4090", "summary": json.dumps(told)}
        raw.hset(f"qdeck:agent:{{qdeck:{task}}}", mapping=slot)


def _schedules(raw: redis.Redis) -> None:
    for name, queue, task, cron in (
        ("nightly-report", names.REPORTS, "extract", "0 2 * * *"),
        ("digest", names.DIGEST, "send_digest", "*/30 * * * *"),
        ("reindex", names.SEARCH, "reindex", "15 * * * 1-5"),
    ):
        job = NewJob("", 100, codec.JobHead(enqueued_ms=0, priority=100, retries=3, task=task).template(), b"[[],{}]")
        raw.hset("qdeck:schedules", name, Definition.of(name, queue, job, cron=cron).encode())
        turn = NOW_MS // 1000 - 571
        raw.hset(
            "{qdeck:schedules}:state", name, f"1 {NOW_MS - 86_400_000} {turn} {turn * 1000 + 40} 0 {len(name)} done -"
        )


def _activity(raw: redis.Redis) -> None:
    rules = [
        {"rule": rule, "setting": setting, "value": seconds, "unit": "s"}
        for rule, setting, seconds in (
            ("orphaned_records", "max_orphaned_age", 86_400), ("cancelled_too_old", "max_request_age", 86_400),
            ("done_too_old", "max_completed_age", 3_600), ("pending_too_old", "max_pending_age", 7_200),
        )
    ]  # fmt: skip
    batch = _kept(raw)
    raw.delete("qdeck:activity")  # the demo's own line is not the oldest here
    said: tuple[tuple[int, str, str, dict[str, Any]], ...] = (
        (1502, "agent", "purge", {"queues": [names.MAIL, names.AUDIT], "rules": rules, "counts": _counts(38, 2)}),
        (112, "ana", "pause", {"queues": [names.BILLING], "filter": ""}),
        (41, "ben", "discard", {"queues": [names.AUDIT], "filter": "age>30d", "counts": _counts(3)}),
        (23, "agent", "purge", {"queues": [names.MAIL, names.AUDIT], "rules": rules, "counts": _counts(4)}),
        (9, "ben", "discard", {"queues": [names.SEARCH], "filter": "error:IndexError", "counts": _counts(212)}),
        (8, "ana", "undo", {"queues": [names.SEARCH], "filter": "error:IndexError", "undo_until_ms": None,
                            "counts": {"restored": 212, "skipped": 0}, "batch": f"b-{9:020d}"}),
        (3, "ana", "retry", {"queues": [names.MAIL], "filter": "error:ConnectionError", "counts": _counts(10),
                             "reason": "INC-2291 relay is back", "batch": batch}),
    )  # fmt: skip
    for minutes, who, verb, more in said:
        at = NOW_MS - 60_000 * minutes
        told: dict[str, Any] = {"at_ms": at, "who": who, "host": "ops-1", "verb": verb, "outcome": "done"}
        if "counts" in more:
            told |= {"batch": f"b-{minutes:020d}", "plan": f"{minutes:020d}", "undo_until_ms": at + 86_400_000}
        raw.xadd("qdeck:activity", {"e": json.dumps(told | more)}, id=f"{at}-0")


def _counts(applied: int, skipped: int = 0) -> dict[str, int]:
    return {"planned": applied + skipped, "applied": applied, "skipped": skipped}


def _kept(raw: redis.Redis) -> str:
    """Return what a batch keeps for its undo: the ids of ten jobs of the mail queue, most of them done since."""
    batch, queue = f"b-{3:020d}", names.MAIL
    done, dead = (raw.zrange(keys.key(queue, state), 0, 8) for state in ("done", "dead"))
    packed = msgspec.msgpack.encode({"c": {"ids": [*done, *dead][:10]}})
    raw.hset(keys.undo_key(queue, batch), mapping={"#1": "0", "0": packed, "slices": 1, "bytes": len(packed)})
    until = NOW_MS - 180_000 + 86_400_000
    kept = batches.Batch(id=batch, verb="retry", by="ana@ops-1", at_ms=NOW_MS - 180_000, until_ms=until,
                         queues=[QueueRef(NATIVE, queue)], bytes=8_700_000, applied=10)  # fmt: skip
    raw.hset(keys.UNDO, batch, msgspec.json.encode(kept))
    return batch


def _past(raw: redis.Redis) -> None:
    """An hour as agents would have seen it."""
    tier = history.FINE
    for place, queue in enumerate(sorted({*names.WORKER, names.VIDEO, names.IMPORTS})):
        chunks: dict[int, bytes] = {}
        now_ready = int(raw.hget(f"{{{queue}}}:meta", "ready") or 0)
        enqueued = done = 0
        for at in range(NOW_MS - tier.keep_ms, NOW_MS, tier.step_ms):
            step = (at - NOW_MS + tier.keep_ms) // tier.step_ms
            hill = abs((step + 40 * place) % (90 + 20 * place) - 45 - 10 * place)  # up and down, each at its own pace
            enqueued, done = enqueued + 5 + hill, done + 4 + hill * 4 // 5
            ready = now_ready * (step + hill) // 360 if now_ready > 1 else now_ready + hill // 3
            sample = Sample(at_ms=at, ready=ready, dead=place, enqueued=enqueued, done=done, failed=place)
            number = at // tier.chunk_ms
            chunks[number] = chunks.get(number, b"") + history.pack(sample, tier)
        for number, packed in chunks.items():
            raw.set(history.chunk_key(queue, tier, number), packed)
        meta = f"{{{queue}}}:meta"
        told = raw.hmget(meta, "n:enqueued", "n:done", "n:dead")
        came, went, died = (int(value or 0) for value in told)
        before = f"{NOW_MS - 10_000} {max(0, came - 31 * place)} {max(0, went + died - 23 * place)} {died}"
        raw.hset(history.LATEST, queue, before)
    raw.hset(history.LATEST, "", str(NOW_MS - 10_000))


# What they show depends on it; in triage, in which order the groups of a slow machine were found.
_STILL: Final = {"qdeck_console.feed", "qdeck_console.writing", "qdeck_console.dead_groups"}


class _StillTime(ModuleType):
    """The module `time`, at one moment, for one module."""

    def __init__(self, owner: str) -> None:
        super().__init__("time")
        self.owner = owner

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return NOW_MS / 1000

    def time_ns(self) -> int:
        return NOW_MS * 1_000_000

    def monotonic(self) -> float:
        # What is shown of it stands still; what limits work by it needs it to pass.
        shows = self.owner in _STILL or ".presenters." in self.owner
        return _ZERO_S if shows else time.monotonic()

    def localtime(self, seconds: float | None = None) -> struct_time:
        return time.gmtime(NOW_MS / 1000 if seconds is None else seconds)

    def strftime(self, form: str, at: struct_time | None = None) -> str:
        return time.strftime(form, at or self.localtime())


@contextlib.contextmanager
def still_time() -> Iterator[None]:
    """Let no time pass in the console, for as long as it lasts."""
    for found in pkgutil.iter_modules(screens.__path__, f"{screens.__name__}."):
        importlib.import_module(found.name)  # they are imported when they are opened: a clock would go on in them
    held = [
        module
        for name, module in sys.modules.items()
        if name.startswith("qdeck_console.") and getattr(module, "time", None) is time
    ]
    for module in held:
        module.time = _StillTime(module.__name__)  # type: ignore[attr-defined] # it imports the module
    try:
        yield
    finally:
        for module in held:
            module.time = time  # type: ignore[attr-defined] # as it was


@dataclass(frozen=True, slots=True)
class StillFrame:
    """One frame: its cells, as text and as looks."""

    lines: list[list[tuple[str, Style]]]
    ground: str

    @property
    def digest(self) -> str:
        """What tells two frames apart, colours included."""
        cells = repr([[(text, str(style)) for text, style in line] for line in self.lines])
        return hashlib.sha256(cells.encode()).hexdigest()


async def frames(url: str, size: tuple[int, int], *, theme: str = "qdeck-ink", only: str = "") -> dict[str, StillFrame]:
    """Walks through the screens and takes a frame of each, or of one."""
    context = ShownContext(title="demo", server="redis-3.eu:6379/0", environment="dev")
    found: dict[str, StillFrame] = {}
    with still_time():
        app = ConsoleApp(StillContexts(Target(url=url)), context, theme=theme)
        app.cost = FixedCost()
        app.served.extend([412] * (app.served.maxlen or 0))
        async with app.run_test(size=size) as pilot:
            await settle(pilot, app)
            for mode in app.MODES if not only else [only]:
                app.action_tab(mode)
                if mode == PURGE:
                    await _dry_run(pilot, app)
                found[mode] = await _take(pilot, app)
            if not only:
                dead = (await app.reader.page(names.WEBHOOKS, state="dead", most=1)).jobs[0]
                app.open(JobScreen("dead", QueueRef(NATIVE, names.WEBHOOKS), dead.id))
                found["job"] = await _take(pilot, app)
                app.action_tab(app.DEFAULT_MODE)
                await settle(pilot, app)
                await pilot.press("question_mark")
                assert isinstance(app.screen, HelpScreen)
                found["help"] = await _take(pilot, app)
    return found


async def _dry_run(pilot: Pilot[int], app: ConsoleApp) -> None:
    """A plan by thresholds at which the demo's jobs are old, one of them changed for this run, and its samples."""
    await settle(pilot, app)
    screen = app.screen
    assert isinstance(screen, PurgeScreen)
    screen.work.base = Limits(max_pending_age=300, max_ready_age=7200, max_completed_age=90, dlq_ttl=3)
    screen.work.limits = screen.work.base.changed("max_ready_age=1h")
    with mock.patch("qdeck._operations.planning.new_id", return_value="66090ad75ae92mq9ohrv"):
        await pilot.press("d")
        until = time.monotonic() + 15
        while (screen.work.plan is None or app.operator.work is not None) and time.monotonic() < until:
            await pilot.pause(0.02)
    screen.view.focus()
    await pilot.press("g", *["j"] * 6)
    app._note = (0.0, [])  # what was said passes, and when is not the same in every run


async def _take(pilot: Pilot[int], app: ConsoleApp) -> StillFrame:
    await settle(pilot, app)
    strips = strips_of(app.screen)
    cells = [[(part.text, part.style) for part in strip if part.style is not None] for strip in strips]
    return StillFrame(cells, app.painter.palette.ground)


async def settle(pilot: Pilot[int], app: ConsoleApp, *, looks: int = 2, longest_s: float = 15.0) -> None:
    """Wait until the screen has what it reads, and two more pictures change nothing."""
    until, seen, same, feed_state = time.monotonic() + longest_s, "", 0, app.latest
    while same < looks and time.monotonic() < until:
        app.feed.poke()
        while app.latest is feed_state and time.monotonic() < until:
            await pilot.pause(0.01)
        feed_state = app.latest
        await pilot.pause(0.03)
        screen = next((one for one in reversed(app.screen_stack) if isinstance(one, FrameScreen)), None)
        has_all = screen is None or screen.is_read_in(app.shown)
        strips = strips_of(app.screen)
        shown = "\n".join("".join(part.text for part in strip) for strip in strips)
        is_whole = has_all and app.shown.snapshot is not None and not _UNREAD.search(shown)
        same = same + 1 if is_whole and shown == seen else 0
        seen = shown
    assert same >= looks, f"the screen goes on changing, or lacks something:\n{seen}"


_UNREAD: Final = re.compile(r"(^|│) *… *(│|$)", re.MULTILINE)  # what a screen has of something that it still reads
