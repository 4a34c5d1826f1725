"""Of jobs whose system keeps them in several places, only the parts that are needed are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from core.adapters.test_recall import LINE, Line
from qdeck.adapters import Part
from qdeck.admin import Reader, State, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from qdeck.adapters import Entry, Program, Raw, Want

ALL: Final = frozenset(Part)


class Asked(Line):
    """An adapter that notes which parts were wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted: list[Want] = []

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        self.wanted.append(want)
        return (yield from super().fill(queue, raws, now, want))


@pytest.mark.parametrize(
    ("where", "needs"),
    [
        ("", set()),
        ("id:1", set()),
        ("age>2h", {Part.RECORD}),
        ("error:Timeout", {Part.ERROR}),
        ("payload.user:1", {Part.BODY}),
        ("timeout", ALL),
    ],
)
def test_a_filter_adds_what_it_looks_at(url: str, raw: redis.Redis, where: str, needs: set[Part]) -> None:
    raw.rpush(LINE.key, "1")
    adapter = Asked()
    with Reader(url) as reader:
        reader.run(adapter.page("line", (State.READY,), wanted=parse(where), want=frozenset()))
    assert adapter.wanted == [needs]
