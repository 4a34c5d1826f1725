"""The jobs that the first frame of the demo shows, made by steps of the engine with times in the past."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from qdeck import Call, TimeLimitExceeded, chain
from qdeck.testing import CRASHES_TO_BURY
from qdeck_console.demo import names, produce, tasks

if TYPE_CHECKING:
    from qdeck.testing import Past

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
GONE: Final = "wrk-7.eu-3.4412"
"""The worker of the past, which is not there any more."""
_LIMIT_MS: Final = 2_000
Failing = Callable[[], object]


class Seeder:
    """Fills the queues as on an ordinary bad day. The same seed makes the same jobs."""

    def __init__(self, past: Past) -> None:
        self._past, self._rng = past, past.rng
        self._now = past.now_ms()

    def run(self) -> None:
        """Write all jobs. Dead letters come first: to bury a job, its queue must hold no other."""
        self.webhooks()
        self._other_deaths()
        self._poison_pill()
        self.done()
        self.stuck([tasks.import_feed.call(f"https://feeds.example/{name}.xml") for name in ("north", "south", "west")])
        self.paused()
        self._waiting()

    def webhooks(self) -> None:
        """Add dead letters of a partner that was down, of events that are broken, and of a partner that is too slow."""
        refused = [("hooks.globex.example/in", ago) for ago in range(3, 38, 2)]
        for partner, ago in refused:
            endpoint = f"{partner}/{self._rng.randrange(16**4):04x}"
            call = tasks.deliver_webhook.call(endpoint, "order.paid", produce.ORDER)
            self.die(call, ago, partial(tasks.refuse, endpoint), runs=3)
        broken = [('{"customer_id": 9, "charge": {"amount": "12,50"}}', 41), ('{"charge": {"amount": "80"}}', 33)]
        for body, ago in broken * 2:
            call = tasks.deliver_webhook.call("hooks.acme.example/v2/in", "charge.failed", body)
            self.die(call, ago, partial(tasks.parse_event, body), runs=3)
        for ago in (26, 19, 12, 5):
            call = tasks.deliver_webhook.call("legacy.initech.example/cgi", "user.created", "{}")
            self.die(call, ago, _too_long, runs=3, kind="timeout")

    def _other_deaths(self) -> None:
        call = tasks.make_thumbnail.call("/media/004417.heic", 320)
        self.die(call, 52, lambda: b"\xffftypheic".decode("utf-8"), runs=2)
        call = tasks.send_mail.call("reader77@example.org", "receipt")
        self.die(call, 190, lambda: "Dear {reader}".format_map({}), runs=3)
        call = tasks.reindex.call(13, "2026-11-17")
        self.die(call, 255, lambda: memoryview(b"shard")[9], runs=2)

    def _poison_pill(self) -> None:
        """Add an image that kills every worker that opens it."""
        queue = names.THUMBNAILS
        at = self._now - 64 * MINUTE_MS
        self._past.enqueue([tasks.make_thumbnail.call("/media/bomb.png", 640)], at)
        for _ in range(CRASHES_TO_BURY):
            self._past.claim(queue, at, lease_ms=30_000)
            at += 31_000
            self._past.reap(queue, at)  # found expired once: it gets half of its lease more
            at += 16_000
            self._past.reap(queue, at)
            at += 500

    def done(self) -> None:
        """Add jobs that succeeded, as a healthy server has."""
        for queue, kind, count in (
            (names.MAIL, "mail", 24),
            (names.AUDIT, "audit", 40),
            (names.THUMBNAILS, "thumbnail", 12),
        ):
            calls = [produce.one(kind, self._rng) for _ in range(count)]
            at = self._now - 2 * MINUTE_MS
            self._past.enqueue(calls, at)
            self._past.complete(queue, at + 1_700, self._past.claim(queue, at + 900, free_slots=count))

    def stuck(self, calls: list[Call], lease_ms: int = 120_000) -> None:
        """Add imports; the worker of two of them is lost. No worker serves their queue, so they are not requeued."""
        at = self._now - 9 * MINUTE_MS
        self._past.enqueue(calls, at)
        self._past.claim(names.IMPORTS, at + 40_000, free_slots=2, lease_ms=lease_ms)

    def paused(self) -> None:
        """Add invoices, and pause their queue."""
        calls = [tasks.issue_invoice.call(20_260_000 + n, self._rng.randrange(900, 90_000)) for n in range(18)]
        for at, call in enumerate(calls):
            self._past.enqueue([call], self._now - (112 - 4 * at) * MINUTE_MS)
        at, reason = self._now - 112 * MINUTE_MS, "INC-2291 wrong VAT on invoices"
        stored = {"at_ms": at, "who": "ana@ops-1", "reason": reason}
        self._past.configure(names.BILLING, {"paused": json.dumps(stored)})
        paused: list[dict[str, object]] = [{"queues": [names.BILLING]}, {"detail": "schedule invoices"}]
        for number, what in enumerate(paused):  # the schedule is made with the others, paused
            told = {"at_ms": at + 40_000 * number, "who": "ana", "host": "ops-1", "verb": "pause", "outcome": "done"}
            self._past.log(at + 40_000 * number, told | what | {"reason": reason})

    def _waiting(self) -> None:
        backlog = [produce.one("reindex", self._rng) for _ in range(420)]
        for at in range(0, len(backlog), 60):
            self._past.enqueue(backlog[at : at + 60], self._now - (420 - at) * 1_000)
        self._past.enqueue([produce.one("video", self._rng) for _ in range(5)], self._now - MINUTE_MS)
        self._past.configure(names.SEARCH, {"limit": "4"})
        self._past.enqueue([produce.one("digest", self._rng) for _ in range(24)], self._now)
        nightly = tasks.extract.call("2026-10", _delay=5 * 3600, _name="nightly close")
        links = chain(nightly, tasks.transform.call("2026-10"), tasks.publish.call("2026-10"))
        self._past.enqueue(links, self._now - 3 * MINUTE_MS)

    def die(self, call: Call, ago_min: int, failing: Failing, *, runs: int, kind: str = "failed") -> None:
        """Let a job fail in all its attempts, the last one `ago_min` minutes ago."""
        at = self._now - ago_min * MINUTE_MS - runs * 5_000 - self._rng.randrange(30_000)
        self._past.enqueue([call], at)
        for attempt in range(1, runs + 1):
            at += 300
            [job] = self._past.claim(call.queue, at)
            ran_ms = _LIMIT_MS if kind == "timeout" else self._rng.randrange(60, 400)
            at += ran_ms
            event = {**_raised(failing), "attempt": attempt, "ran_ms": ran_ms}
            delay = 2_000 if attempt < runs else None
            self._past.fail(call.queue, at, job, event, kind=kind, retry_after_ms=delay)
            at += 2_000


def _too_long() -> None:
    raise TimeLimitExceeded(f"ran for more than {_LIMIT_MS // 1000} s")


def _raised(failing: Failing) -> dict[str, str]:
    """Return what a worker stores about an error that really was raised."""
    try:
        failing()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the demo's material
        return {
            "class": type(error).__name__,
            "message": str(error),
            "traceback": "".join(traceback.format_exception(error)),
        }
    raise AssertionError("the demo's error did not happen")
