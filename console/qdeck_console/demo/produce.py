"""The producer of the demo, a process of its own: `python -m qdeck_console.demo.produce SEED [KIND…]`."""

from __future__ import annotations

import random
import signal
import sys
import time
from typing import TYPE_CHECKING, Final

import qdeck
from qdeck import Call, chain
from qdeck_console.demo import tasks

if TYPE_CHECKING:
    from collections.abc import Collection

TICK_S: Final = 0.1
_PER_S: Final = {
    "mail": 8.0,
    "thumbnail": 5.0,
    "webhook": 1.5,
    "reindex": 2.6,
    "audit": 12.0,
    "digest": 0.05,
    "video": 0.2,
}
_CHAIN_EVERY_S: Final = 12.0
_TEMPLATES: Final = ("welcome", "receipt", "password_reset", "shipping_notice")
_EVENTS: Final = ("order.paid", "order.refunded", "user.created", "charge.failed")
_PARTNERS: Final = (
    "hooks.acme.example/v2/in",
    "hooks.globex.example/in",
    "legacy.initech.example/cgi",
    "hooks.hooli.example/q",
)
ORDER: Final = '{"customer_id": 77, "charge": {"amount": "1250"}}'
_BODIES: Final = (
    '{"customer_id": 1841, "charge": {"amount": "4900"}}',
    ORDER,
    '{"customer_id": 9, "charge": {"amount": "12,50"}}',
    '{"charge": {"amount": "80"}}',
)


def webhook(rng: random.Random) -> Call:
    """Return a delivery; about one in ten fails."""
    body = rng.choices(_BODIES, (20, 20, 1, 1))[0]
    partner = rng.choices(_PARTNERS, (6, 1, 6, 4))[0]
    return tasks.deliver_webhook.call(f"{partner}/{rng.randrange(16**4):04x}", rng.choice(_EVENTS), body)


def one(kind: str, rng: random.Random) -> Call:
    """Return a call of one kind."""
    number = rng.randrange(1, 9000)
    if kind == "mail":
        return tasks.send_mail.call(f"reader{number}@example.org", rng.choice(_TEMPLATES))
    if kind == "thumbnail":
        return tasks.make_thumbnail.call(f"/media/{number:06d}.jpg", rng.choice((160, 320, 640)))
    if kind == "reindex":
        return tasks.reindex.call(number % 64, "2026-11-17")
    if kind == "audit":
        return tasks.record.call(f"service-{number % 7}", rng.choice(("login", "export", "update")))
    if kind == "digest":
        return tasks.send_digest.call(f"segment-{number % 12}", _delay=rng.randrange(30, 300))
    if kind == "video":
        return tasks.transcode.call(f"/media/{number:06d}.mov", "av1")
    return webhook(rng)


def monthly(rng: random.Random) -> list[Call]:
    """Return the monthly chain: three jobs, each waiting for the previous one."""
    month = f"2026-{rng.randrange(1, 12):02d}"
    return chain(tasks.extract.call(month), tasks.transform.call(month), tasks.publish.call(month))


def due(rng: random.Random, kinds: Collection[str] = ()) -> list[Call]:
    """Return the calls of one tick: of these kinds, by default of all."""
    calls = []
    for kind, per_s in _PER_S.items():
        if kinds and kind not in kinds:
            continue
        whole, part = divmod(per_s * TICK_S, 1)
        calls += [one(kind, rng) for _ in range(int(whole) + (rng.random() < part))]
    if not kinds and rng.random() < TICK_S / _CHAIN_EVERY_S:
        calls += monthly(rng)
    return calls


def main() -> int:
    """Enqueue jobs until SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    _, seed, *kinds = sys.argv
    rng = random.Random(int(seed))  # noqa: S311 - the same seed shall make the same work
    tick = time.monotonic()
    while True:
        try:
            tasks.app.enqueue_many(due(rng, kinds))
        except qdeck.QdeckError as error:
            sys.stderr.write(f"producer: {error}\n")
            time.sleep(1)
        tick += TICK_S
        time.sleep(max(0.0, tick - time.monotonic()))


if __name__ == "__main__":
    sys.exit(main())
