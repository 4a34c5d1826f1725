"""How the frame looks in every width, and how roles look with few colours or none: pure, without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from qdeck._deck.model import Reason, Status
from qdeck_console import format as fmt
from qdeck_console.actions import BY_ID, TABS
from qdeck_console.feed import Picture
from qdeck_console.presenters import frame
from qdeck_console.presenters.frame import Context, Offer, Tab

if TYPE_CHECKING:
    from qdeck_console.format import Line

ALL = [
    Tab(name, name.capitalize(), number, {"stuck": 9, "dead": 9960}.get(name, 0)) for name, number in TABS.items()
]  # fmt: skip


def words(line: Line) -> str:
    return "".join(text for text, _ in line)


def sick() -> Picture:
    reasons = (
        Reason(status=Status.UNHEALTHY, text="no clone has finished since 11:21"),
        Reason(status=Status.DEGRADED, text="9 stuck"),
        Reason(status=Status.DEGRADED, text="webhooks drops dead letters in 14 min"),
    )
    snapshot: Any = SimpleNamespace(
        reasons=reasons, queues=(), status=Status.UNHEALTHY, totals=SimpleNamespace(ready=56_877), server=None
    )
    return Picture(snapshot=snapshot, flow=(249.8, 233.8))


@pytest.mark.parametrize("cells", [60, 72, 80, 90, 99, 100, 110, 120, 139, 140, 160, 200])
def test_the_frame_fits_every_width(cells: int) -> None:
    for active in ("queues", "activity"):
        told = words(frame.tabs(ALL, active, cells))
        assert len(told) <= cells
        assert active.capitalize() in told or "9 Log" in told
        for number in range(1, 10):
            assert f" {number} " in f"{told} ", "each has its key"
        assert "9  4" in told or "9   4" in told, "a count does not look like the next one's key"
        assert "5 Purge" in told or cells < 80
    picture = sick()
    told = words(frame.verdict(picture, cells))
    assert len(told) <= cells
    assert "no clone has finished since 11:21" in told, "the worst reason is whole"
    assert "+" in told or "webhooks" in told, "what is left out is told"
    assert ("ready" in told) == (cells >= 100), "how many comes after why"
    for low in (False, True):
        context = Context(title="prod-eu", server="redis-1.eu:6379/0", environment="prod", read_only=True)
        line, ground = frame.bar(context, picture, None, cells, low=low)
        assert (fmt.length(line), ground) == (cells, "prod")
        assert all(word in words(line) for word in ("PRODUCTION", "prod-eu", "∅ READ-ONLY"))
        assert ("unhealthy" in words(line)) == low
        assert ("redis-1" in words(line)) == (cells >= 80 and not low)


def test_keys_that_cannot_act_say_why_where_there_is_room() -> None:
    offers = [
        Offer(BY_ID["open"], "open"),
        Offer(BY_ID["cancel"], "cancel", "owner is gone"),
        Offer(BY_ID["run"], "run now", "owner is gone"),
        Offer(BY_ID["discard"], "discard", "read-only: nothing can be changed"),
        Offer(BY_ID["copy"], "copy", "nothing under the cursor"),
    ]
    told = words(frame.footer(offers, [], 100))
    assert "enter open  c cancel: owner is gone  n run now  x discard  y copy" in told
    assert "c cancel  n run now" in words(frame.footer(offers, [], 62))
    assert "cancel" not in words(frame.footer(offers, [], 100, hides=True)), "faint is no colour among sixteen"
    note = [("✓ 12 retried", "ok"), (", 12:04:20", "muted")]
    assert "12:04:20" in words(frame.footer(offers, note, 100))
    told = words(frame.footer(offers, note, 62))
    assert "✓ 12 retried" in told
    assert "12:04:20" not in told, "when is the first to go"
