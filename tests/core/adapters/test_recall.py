"""Jobs of a list, read again as a plan saw them, by an adapter that leaves this to the class of all adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck.adapters import Adapter, Entry, Kind, Look, QueueRow, Seen, Source, State, text_of
from qdeck.admin import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import redis

    from qdeck.adapters import Capability, Program, Raw, Verb, Want

LINE = Source(key=b"shop:line", kind=Kind.LIST, state=State.READY, native_state="waiting")


class Line(Adapter):
    """A list of ids."""

    name, about = "line", "the list shop:line"

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        return {LINE.key: Kind.LIST}

    def capabilities(self) -> Mapping[Verb, Capability]:
        return {}

    def rows(self, now: int) -> Program[Look]:
        size = yield (b"LLEN", LINE.key)
        return Look(rows=(QueueRow(adapter="line", name="line", ready=size),))

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        yield from ()
        return [LINE]

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        yield from ()
        return [
            Entry(id=text_of(raw.member), key=text_of(raw.member), adapter="line", queue="line", state=State.READY,
                  native_state="waiting", seen=raw.seen())
            for raw in raws
        ]  # fmt: skip


def test_what_a_plan_saw_in_a_list_is_found_again(url: str, raw: redis.Redis) -> None:
    raw.rpush("shop:line", "one", "two", "two", "three")
    adapter = Line()
    with Reader(url) as reader:
        page = reader.run(adapter.page("line", (State.READY,)))
        planned = [Seen.parse(str(entry.seen)) for entry in page.jobs if isinstance(entry, Entry)]
        again = reader.run(adapter.recall("line", "ready", planned, 0))
    assert [entry and entry.id for entry in again] == ["one", "two", "two", "three"]
