"""The text for a server without queues: the adapters that were tried, and what can be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck_console import format as fmt
from qdeck_console.presenters.line_parts import section
from qdeck_console.text import cut_end, safe_text, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck_console.format import Line, Piece

WIDEST: Final = 84
_NAME: Final = 11


def no_queues_lines(
    cells: int,
    height: int,
    *,
    server: str,
    keys: int | None,
    looked_for: Sequence[tuple[str, str]],
    contexts: int,
    unread: Sequence[str] = (),
) -> list[Line]:
    """Return a block in the upper middle: the state, the adapters that were tried, and what can be done."""
    room = max(20, min(WIDEST, cells - 4))
    blank: list[Line] = [()] if height >= 24 else []
    lines: list[Line] = [
        (("No queues", "strong bold"),),
        *(
            [((cut_end(safe_text(text, limit=200), room), "warn"),) for text in unread]
            or [((cut_end(_found(server, keys), room), "muted"),)]
        ),
        *blank,
        section("looked for", "", "muted", room, indent=0),
    ]
    for name, about in looked_for:
        tail = "nothing"
        text = cut_end(safe_text(about, limit=200), room - _NAME - 4 - width(tail))
        head: list[Piece] = [("–  ", "ghost"), *fmt.fit([(name, "text")], _NAME), (text, "muted")]
        lines.append((*fmt.fit(head, room - width(tail)), (tail, "faint")))
    lines += [*blank, section("what now", "", "muted", room, indent=0)]
    for what, does, more in _ways(contexts):
        left: list[Piece] = [*fmt.fit([(what, "accent bold")], 25), *fmt.fit([(does, "text")], 21)]
        lines.append(tuple(fmt.fit([*left, (more, "muted")] if room >= 70 else left, room)))
    lines += [
        *blank,
        ((cut_end("Reading changes nothing. New queues appear here automatically.", room), "faint"),),
    ]
    above = max(0, (height - len(lines)) // 3) if height >= 24 else 0
    lead = " " * max(4, (cells - room) // 2 if cells > 100 else 4)
    return [*([()] * above), *(((lead, "text"), *line) if line else () for line in lines)]


def _found(server: str, keys: int | None) -> str:
    where = safe_text(server, limit=120)
    if keys is None:
        return f"{where} answers; none of its keys looks like a queue."
    if not keys:
        return f"{where} answers and is empty."
    has = "holds 1 key; it does not look" if keys == 1 else f"holds {keys:,} keys; none of them looks"
    return f"{where} answers and {has} like a queue."


def _ways(contexts: int) -> list[tuple[str, str, str]]:
    others = f"{contexts} in qdeck.toml" if contexts else "name others in qdeck.toml"
    return [
        ("qdeck enqueue QUEUE TASK", "a first job", "or from your application"),
        ("qdeck demo", "see a demo", "a demo server with jobs"),
        ("o", "use another server", others),
        ("[adapters.lists]", "name your lists", "in qdeck.toml, if queues are lists"),
        ("8", "check this server", "version, permissions, memory, disk"),
    ]
