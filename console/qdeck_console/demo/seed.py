"""What the demo finds at its first frame: history, made by the engine's own steps with times in the past."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from qdeck import Call, TimeLimitExceeded, chain
from qdeck._engine import codec, keys, ops, programs
from qdeck._engine.ops import Claimed, Ending, Op
from qdeck_console.demo import names, produce, tasks

if TYPE_CHECKING:
    from qdeck._connection import SyncClient

MINUTE_MS: Final = 60_000
_IDS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_GONE: Final = "wrk-7.eu-3.4412"
_LIMIT_MS: Final = 2_000
Failing = Callable[[], object]


class Seeder:
    """Puts a deck into the state of an ordinary bad day. The same seed makes the same jobs."""

    def __init__(self, client: SyncClient, seed: int) -> None:
        self._client = client
        self._rng = random.Random(seed)  # noqa: S311 - the same seed shall make the same jobs
        self._turns = 0
        self._now = self._server_ms()

    def run(self) -> None:
        """Makes everything. Dead letters first: to bury a job, its queue must hold no other."""
        self._webhooks()
        self._other_deaths()
        self._poison_pill()
        self._done()
        self._stuck()
        self._paused()
        self._waiting()

    def _webhooks(self) -> None:
        refused = [("hooks.globex.example/in", ago) for ago in range(3, 38, 2)]
        for partner, ago in refused:
            endpoint = f"{partner}/{self._rng.randrange(16**4):04x}"
            call = tasks.deliver_webhook.call(endpoint, "order.paid", '{"customer_id": 77}')
            self._die(call, ago, partial(tasks.refuse, endpoint), runs=3)
        broken = [('{"customer_id": 9, "charge": {"amount": "12,50"}}', 41), ('{"charge": {"amount": "80"}}', 33)]
        for body, ago in broken * 2:
            call = tasks.deliver_webhook.call("hooks.acme.example/v2/in", "charge.failed", body)
            self._die(call, ago, partial(tasks.parse_event, body), runs=3)
        for ago in (26, 19, 12, 5):
            call = tasks.deliver_webhook.call("legacy.initech.example/cgi", "user.created", "{}")
            self._die(call, ago, _too_long, runs=3, kind="timeout")

    def _other_deaths(self) -> None:
        call = tasks.make_thumbnail.call("/media/004417.heic", 320)
        self._die(call, 52, lambda: b"\xffftypheic".decode("utf-8"), runs=2)
        call = tasks.send_mail.call("reader77@example.org", "receipt")
        self._die(call, 190, lambda: "Dear {reader}".format_map({}), runs=3)
        call = tasks.reindex.call(13, "2026-11-17")
        self._die(call, 255, lambda: memoryview(b"shard")[9], runs=2)

    def _poison_pill(self) -> None:
        """A picture that kills every worker which opens it."""
        queue = names.THUMBNAILS
        at = self._now - 64 * MINUTE_MS
        self._enqueue(tasks.make_thumbnail.call("/media/bomb.png", 640), at)
        for _ in range(ops.CRASH_LIMIT):
            self._claim(queue, at, lease_ms=30_000)
            at += 31_000
            self._run(ops.reap(queue, now=at))  # found expired once: it gets half of its lease more
            at += 16_000
            self._run(ops.reap(queue, now=at))
            at += 500

    def _done(self) -> None:
        for queue, kind, count in (
            (names.MAIL, "mail", 24),
            (names.AUDIT, "audit", 40),
            (names.THUMBNAILS, "thumbnail", 12),
        ):
            calls = [produce.one(kind, self._rng) for _ in range(count)]
            at = self._now - 2 * MINUTE_MS
            self._enqueue_many(calls, at)
            claimed = self._claim(queue, at + 900, room=count)
            self._run(self._turn(queue, at + 1_700, acks=[(job.id, job.token) for job in claimed]))

    def _stuck(self) -> None:
        """Two imports whose worker is gone. Nobody serves their queue, so nobody takes them back."""
        calls = [tasks.import_feed.call(f"https://feeds.example/{name}.xml") for name in ("north", "south", "west")]
        at = self._now - 9 * MINUTE_MS
        self._enqueue_many(calls, at)
        self._claim(names.IMPORTS, at + 40_000, room=2, lease_ms=120_000)

    def _paused(self) -> None:
        calls = [tasks.issue_invoice.call(20_260_000 + n, self._rng.randrange(900, 90_000)) for n in range(18)]
        for at, call in enumerate(calls):
            self._enqueue(call, self._now - (112 - 4 * at) * MINUTE_MS)
        self._run(ops.configure(names.BILLING, {"paused": "1"}))
        at = self._now - 112 * MINUTE_MS
        told = {"at_ms": at, "who": "ana", "host": "ops-1", "verb": "pause", "queues": [names.BILLING],
                "outcome": "done", "reason": "INC-2291 wrong VAT on invoices"}  # fmt: skip
        self._client.run(_log(at, told))

    def _waiting(self) -> None:
        backlog = [produce.one("reindex", self._rng) for _ in range(420)]
        for at in range(0, len(backlog), 60):
            self._enqueue_many(backlog[at : at + 60], self._now - (420 - at) * 1_000)
        self._enqueue_many([produce.one("video", self._rng) for _ in range(5)], self._now - MINUTE_MS)
        self._run(ops.configure(names.SEARCH, {"limit": "4"}))
        self._enqueue_many([produce.one("digest", self._rng) for _ in range(24)], self._now)
        nightly = tasks.extract.call("2026-10", _delay=5 * 3600, _name="nightly close")
        links = chain(nightly, tasks.transform.call("2026-10"), tasks.publish.call("2026-10"))
        self._enqueue_many(links, self._now - 3 * MINUTE_MS)

    def _die(self, call: Call, ago_min: int, failing: Failing, *, runs: int, kind: str = "failed") -> None:
        """Lets a job fail for real as often as it may, the last time so many minutes ago."""
        at = self._now - ago_min * MINUTE_MS - runs * 5_000 - self._rng.randrange(30_000)
        self._enqueue(call, at)
        for attempt in range(1, runs + 1):
            at += 300
            [job] = self._claim(call.queue, at)
            ran_ms = _LIMIT_MS if kind == "timeout" else self._rng.randrange(60, 400)
            at += ran_ms
            told = {**_raised(failing), "worker": _GONE, "attempt": attempt, "ran_ms": ran_ms}
            event = codec.encode_json(told)
            delay = 2_000 if attempt < runs else -1
            ending = Ending(kind=kind, id=job.id, token=job.token, delay_ms=delay, event=event)
            self._run(self._turn(call.queue, at, endings=[ending]))
            at += 2_000

    def _enqueue(self, call: Call, at: int) -> None:
        self._enqueue_many([call], at)

    def _enqueue_many(self, calls: Iterable[Call], at: int) -> None:
        given = list(calls)
        fresh = {call.id: self._id(at, number) for number, call in enumerate(given)}
        jobs = [
            call.job._replace(id=fresh[call.id], after=tuple(fresh.get(ref, ref) for ref in call.job.after))
            for call in given
        ]
        self._client.run(programs.enqueue(given[0].queue, jobs, at))

    def _id(self, at: int, number: int) -> str:
        return f"{at * 1000 + number:013x}" + "".join(self._rng.choices(_IDS, k=7))

    def _claim(self, queue: str, at: int, *, room: int = 1, lease_ms: int = 30_000) -> list[Claimed]:
        return self._run(self._turn(queue, at, room=room, lease_ms=lease_ms)).jobs

    def _turn(
        self,
        queue: str,
        at: int,
        *,
        room: int = 0,
        lease_ms: int = 30_000,
        acks: list[tuple[str, str]] | None = None,
        endings: list[Ending] | None = None,
    ) -> Op[ops.Turn]:
        self._turns += 1
        return ops.turn(
            queue, _GONE, self._turns, room=room, lease_ms=lease_ms, acks=acks or (), endings=endings or (), now=at
        )

    def _run(self, op: Op[ops.T]) -> ops.T:
        return self._client.run(programs.call(op))

    def _server_ms(self) -> int:
        def ask() -> ops.Program[int]:
            [stamp] = yield ops.commands((b"TIME",), reads=True)
            return int(stamp[0]) * 1000 + int(stamp[1]) // 1000

        return self._client.run(ask())


def _log(at: int, told: dict[str, Any]) -> ops.Program[None]:
    """A line in the log of operations of then."""
    yield ops.commands((b"XADD", keys.ACTIVITY, f"{at}-0", b"e", codec.encode_json(told)))


def _too_long() -> None:
    raise TimeLimitExceeded(f"ran for more than {_LIMIT_MS // 1000} s")


def _raised(failing: Failing) -> dict[str, str]:
    """What a worker notes about an error that really was raised."""
    try:
        failing()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the demo's material
        return {
            "class": type(error).__name__,
            "message": str(error),
            "traceback": "".join(traceback.format_exception(error)),
        }
    raise AssertionError("the demo's error did not happen")
