"""The health of a deck as rows: what fails, what is over its threshold, what is fine, and how the server fares."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck._deck import verdict
from qdeck._deck.model import Status
from qdeck_console import format as fmt
from qdeck_console.presenters.charts import area, thin_bar
from qdeck_console.presenters.parts import LEAD, MARGIN, columns, name_parts, pair, section
from qdeck_console.text import cut_end, safe_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._deck.model import QueueRow, Snapshot
    from qdeck._deck.verdict import Check
    from qdeck._deck.vitals import Vitals
    from qdeck._settings.thresholds import Thresholds
    from qdeck_console.format import Line, Piece

_VALUE, _LIMIT, _SINCE = 12, 12, 10
_NAMES: Final = {
    "dead_letters": "dead letters",
    "ready_queue": "ready",
    "pending_queue": "overdue",
    "readable": "queues that cannot be read",
    "workers": "without worker",
    "eviction": "eviction policy",
    "saving": "saving to disk",
    "loading": "data loaded",
}
_LOOKS: Final = {
    Status.UNHEALTHY: ("✗", "bad"),
    Status.DEGRADED: ("▲", "warn"),
    Status.HEALTHY: ("•", "muted"),
    None: ("∅", "muted"),
}
_HEADS: Final = (
    (Status.UNHEALTHY, "failing", "bad"),
    (Status.DEGRADED, "over the threshold", "warn"),
    (None, "not known", "muted"),
    (Status.HEALTHY, "fine", "muted"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the list: a check, or what it says of one queue."""

    check: str
    status: Status | None
    detail: str
    value: int | str | None = None
    threshold: int | str | None = None
    queue: str | None = None
    since_ms: int | None = None
    before: bool = False  # it was so already when the console began to look

    @property
    def key(self) -> str:
        """Its identity."""
        return f"{self.check}/{self.queue or ''}/{self.status.value if self.status else ''}"


def rows(snapshot: Snapshot, thresholds: Thresholds) -> list[Row]:
    """Every check, worst first; one that several queues fail is a row for each."""
    by_name = {row.name: row for row in snapshot.queues}
    found: list[Row] = []
    for check in verdict.check_all(snapshot.server, snapshot.queues, thresholds):
        if not check.reasons:
            found.append(
                Row(check=check.name, status=check.status, detail=check.detail, value=check.value,
                    threshold=check.threshold)
            )  # fmt: skip
            continue
        for reason in check.reasons:
            row = by_name.get(reason.queue or "")
            found.append(
                Row(
                    check=check.name, status=reason.status, detail=reason.text, queue=reason.queue,
                    value=_value(check, row), threshold=check.threshold,
                )
            )  # fmt: skip
    order = [status for status, _, _ in _HEADS]
    return sorted(found, key=lambda row: order.index(row.status))


def _value(check: Check, row: QueueRow | None) -> int | str | None:
    if row is None:
        return check.value
    measured = {
        "dead_letters": row.dead, "stuck": (row.stuck or 0) or row.late, "ready_queue": row.ready,
        "pending_queue": row.overdue, "workers": (row.ready or 0) + (row.overdue or 0), "paused": row.ready,
    }  # fmt: skip
    return measured.get(check.name, check.value)


class Since:
    """Since when each check is as it is, as far as this console has seen it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Status | None, int, bool]] = {}
        self._began = False

    def note(self, found: Sequence[Row], now_ms: int) -> Mapping[str, tuple[int, bool]]:
        """Notes a picture; says of each row when it came so, and whether it was so before the first one."""
        fresh: dict[str, tuple[Status | None, int, bool]] = {}
        for row in found:
            place = f"{row.check}/{row.queue or ''}"
            known = self._known.get(place)
            kept = known is not None and known[0] == row.status
            fresh[place] = known if known is not None and kept else (row.status, now_ms, not self._began)
        self._known, self._began = fresh, True
        return {place: (at, before) for place, (_, at, before) in fresh.items()}


def heads(found: Sequence[Row]) -> list[tuple[str, str, int, list[Row]]]:
    """The groups: label, role, count, rows."""
    out = []
    for status, label, role in _HEADS:
        group = [row for row in found if row.status == status]
        if group:
            out.append((label, role, len(group), group))
    return out


def _room(cells: int) -> tuple[int, int, bool, bool]:
    """Cells of name and detail, and whether there is room for the threshold and for since when."""
    wide, middle = cells >= 100, cells >= 70
    taken = LEAD + MARGIN + _VALUE + 1 + (_LIMIT + 1) * middle + (_SINCE + 1) * wide
    left = cells - taken
    name = min(36, max(18, left // 2))
    return name, max(0, left - name - 2), middle, wide


def head(cells: int) -> Line:
    """The heads of the columns."""
    name, detail, middle, wide = _room(cells)
    shown: list[tuple[Sequence[Piece], int, bool]] = [([("value", "faint")], _VALUE, True)]
    if middle:
        shown.append(([("threshold", "faint")], _LIMIT, True))
    if wide:
        shown.append(([("since", "faint")], _SINCE, True))
    line = (
        (" " * LEAD, "text"),
        *fmt.fit([("check", "faint")], name),
        *columns(shown),
        *fmt.fit([("  ", "text")], detail),
    )
    return tuple(line)


def row_line(row: Row, cells: int, at_cursor: bool, *, hide: str) -> Line:
    """One check."""
    glyph, role = _LOOKS[row.status]
    calm = row.status in (Status.HEALTHY, None)
    name_cells, detail_cells, middle, wide = _room(cells)
    name = _NAMES.get(row.check, row.check.replace("_", " "))
    label = name + (f", {' ▸ '.join(name_parts(row.queue, hide=hide))}" if row.queue else "")
    strong = "strong bold" if at_cursor or row.status is Status.UNHEALTHY else "text"
    shown: list[tuple[Sequence[Piece], int, bool]] = [(_told(row, "text" if calm else f"{role} bold"), _VALUE, True)]
    if middle:
        shown.append((_limit(row), _LIMIT, True))
    if wide:
        shown.append((_since(row), _SINCE, True))
    detail = safe_text(row.detail, limit=300)
    if row.queue:
        detail = detail.replace(row.queue, " ▸ ".join(name_parts(row.queue, hide=hide)))
    return (
        ("  ", "text"), (glyph, role if calm else f"{role} bold"), (" ", "text"),
        *fmt.fit([(cut_end(safe_text(label, limit=300), name_cells), strong)], name_cells), *columns(shown),
        ("  ", "text"), (cut_end(detail, detail_cells) if detail_cells > 8 else "", "muted"),
    )  # fmt: skip


def _told(row: Row, role: str) -> list[Piece]:
    if isinstance(row.value, int):
        return fmt.size(row.value) if row.check == "memory" else fmt.cell(fmt.count(row.value), role)
    return [(cut_end(safe_text(row.value or "", limit=80), _VALUE), role)]


def _limit(row: Row) -> list[Piece]:
    if row.threshold is None:
        return []
    text = f"≤ {row.threshold:,}" if isinstance(row.threshold, int) else safe_text(row.threshold, limit=40)
    return [(cut_end(text, _LIMIT), "muted")]


def _since(row: Row) -> list[Piece]:
    if row.since_ms is None or row.status in (Status.HEALTHY, None):
        return []
    at = fmt.clock(row.since_ms)
    return [("≤ ", "faint"), (at, "muted")] if row.before else [(at, "text")]


def server_lines(
    snapshot: Snapshot, vitals: Vitals | None, seen: Sequence[float | None], cost: tuple[float, float] | None,
    took_s: float, cells: int,
) -> list[Line]:  # fmt: skip
    """The server in numbers: memory, facts, commands a second, slow commands, and what looking costs it."""
    server = snapshot.server
    address = cut_end(safe_text(server.address, limit=200), max(10, cells - 8))
    lines: list[Line] = [pair("server", [(address, "muted")], cells), ()]
    lines += _memory(snapshot, vitals, cells)
    lines += [(), section("facts", "", "muted", cells, indent=0)]
    for label, text in _facts(snapshot, vitals):
        lines.append(pair(label, [(cut_end(safe_text(text, limit=80), max(6, cells - len(label) - 1)), "text")], cells))
    if server.commands_per_s is not None:
        rate = [(f"{server.commands_per_s:,}", "strong bold"), ("/s", "muted")]
        lines += [(), pair("commands", rate, cells), *area(list(seen)[-(cells - 6) :], 3)]
    lines += [(), *_slow(vitals, cells), (), section("qdeck here", "", "muted", cells, indent=0)]
    if cost is not None:
        share = 100 * cost[0] / server.commands_per_s if server.commands_per_s else None
        told = f"{cost[0]:,.0f} cmd/s" + (f", {share:.0f} %" if share is not None and share <= 100 else "")
        lines.append(pair("asks", [(told, "text")], cells))
        lines.append(pair("sends", [*fmt.size(round(cost[1])), ("/s", "muted")], cells))
    lines.append(pair("last picture took", [(f"{took_s * 1000:,.1f} ms", "text")], cells))
    return lines


def _memory(snapshot: Snapshot, vitals: Vitals | None, cells: int) -> list[Line]:
    server = snapshot.server
    if server.memory_bytes is None:
        return [(("memory  ", "muted"), ("∅ INFO is not allowed", "muted"))]
    most = server.max_memory_bytes
    value: list[Piece] = list(fmt.size(server.memory_bytes))
    if most:
        share = server.memory_bytes / most
        role = "bad" if share > 0.9 else "warn" if share > 0.7 else "accent"
        value += [(" of ", "muted"), *fmt.size(most)]
        lines: list[Line] = [pair("memory", value, cells), tuple(thin_bar(share, cells, role))]
        told = [(f"{share:.0%}", f"{role} bold")]
    else:
        lines, told = [pair("memory", [*value, (", no limit", "muted")], cells)], []
    if vitals is not None:
        peak, fragments = vitals.number("used_memory_peak"), vitals.facts.get("mem_fragmentation_ratio")
        words = []
        if peak is not None:
            words.append("peak " + "".join(text for text, _ in fmt.size(peak)))
        if fragments:
            words.append(f"fragmentation {fragments}")
        lines.append(pair("   ".join(words), told, cells))
    return lines


def _facts(snapshot: Snapshot, vitals: Vitals | None) -> list[tuple[str, str]]:
    server = snapshot.server
    facts = vitals.facts if vitals is not None else {}
    rows_of: list[tuple[str, str]] = []
    if server.version:
        rows_of.append(("version", f"{server.name or 'redis'} {server.version}, {server.mode or 'standalone'}"))
    if server.uptime_s is not None:
        rows_of.append(("up", fmt.span(server.uptime_s * 1000)))
    if server.role:
        count = facts.get("connected_slaves", facts.get("connected_replicas"))
        rows_of.append(("role", server.role + (f", {count} replica{'s' * (count != '1')}" if count else "")))
    if facts.get("master_link_status"):
        rows_of.append(("link to its primary", facts["master_link_status"]))
    if server.eviction:
        rows_of.append(("policy", server.eviction))
    rows_of += _kept(snapshot, vitals)
    if server.clients is not None:
        blocked = facts.get("blocked_clients")
        rows_of.append(("clients", f"{server.clients:,}" + (f", {blocked} blocked" if blocked else "")))
    hits, misses = (vitals.number(f"keyspace_{word}") if vitals else None for word in ("hits", "misses"))
    if hits is not None and misses is not None and hits + misses:
        rows_of.append(("hit rate", f"{100 * hits / (hits + misses):.1f} %"))
    evicted = vitals.number("evicted_keys") if vitals else None
    if evicted is not None:
        rows_of.append(("thrown away", f"{evicted:,} keys"))
    if "instantaneous_output_kbps" in facts:
        rows_of.append(("network out", f"{facts['instantaneous_output_kbps']} kB/s"))
    return rows_of


def _kept(snapshot: Snapshot, vitals: Vitals | None) -> list[tuple[str, str]]:
    if snapshot.server.persistence is None:
        return []
    found = [("persistence", snapshot.server.persistence)]
    saved = vitals.number("rdb_last_save_time") if vitals else None
    if saved:
        found.append(("last save", f"{fmt.span(max(0, time.time() - saved) * 1000)} ago"))
    return found


def _slow(vitals: Vitals | None, cells: int) -> list[Line]:
    if vitals is None:
        return [section("slow commands", "", "muted", cells, indent=0), (("…", "ghost"),)]
    if vitals.slow is None:
        return [section("slow commands", "", "muted", cells, indent=0), (("∅ SLOWLOG is not allowed", "muted"),)]
    lines = [section("slow commands", "", "muted", cells, indent=0, count=vitals.slow_count)]
    for entry in vitals.slow[:5]:
        words = cut_end(safe_text(" ".join(entry.words), limit=200), max(8, cells - 20))
        took = f"{entry.took_us / 1000:,.1f} ms"
        lines.append(
            (*fmt.fit([(words, "text")], cells - 20), *fmt.fit([(took, "text")], 10, right=True),
             *fmt.fit([(fmt.clock(entry.at_ms), "muted")], 10, right=True))
        )  # fmt: skip
    return lines if len(lines) > 1 else [*lines, (("none was noted", "faint"),)]
