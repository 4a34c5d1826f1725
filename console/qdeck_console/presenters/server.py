"""The server in numbers: beside the checks of Health, and as lines among them."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck.admin import Code
from qdeck_console import format as fmt
from qdeck_console.presenters.charts import area, thin_bar
from qdeck_console.presenters.frame import role_of
from qdeck_console.presenters.line_parts import pair, section
from qdeck_console.text import cut_end, safe_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck.admin import AgentTask, ServerStats, SlowCommand, Snapshot
    from qdeck_console.format import Line

HOUR_MS: Final = 3_600_000
_TRIPS: Final = 100
_MOST_SLOW: Final = 5


class Trips:
    """How long the server took to answer, as seen from here."""

    def __init__(self) -> None:
        self._took: deque[float] = deque(maxlen=_TRIPS)
        self._began = 0.0

    def begin(self) -> None:
        """A question goes out."""
        self._began = time.monotonic()

    def end(self) -> None:
        """Its answer is here."""
        self._took.append(time.monotonic() - self._began)

    @property
    def p99_ms(self) -> float | None:
        """What all but the slowest of a hundred took at most."""
        found = sorted(self._took)
        return 1000 * found[int(len(found) * 0.99)] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something about the server that no rule judges; `known` is false where the rights do not reach."""

    name: str
    value: str = ""
    limit: str = ""
    detail: str = ""
    known: bool = True
    hint: str = ""
    command: str = ""  # that repairs it


LINK_HINT: Final = "Restore the link, or connect to the master."
CLOCK_HINT: Final = "Synchronise both machines with a time server (NTP)."


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshCost:
    """The load of this console on the server: commands and bytes per second, and the time of the last refresh."""

    commands: float
    sent_bytes: float
    took_s: float


def facts_of(
    snapshot: Snapshot,
    vitals: ServerStats | None,
    trips: Trips,
    cost: RefreshCost | None,
    *,
    here_ms: int,
    tasks: Sequence[AgentTask] | None = None,
) -> list[Fact]:
    """Return the facts about the server that are not checks."""
    found = [*_copies(snapshot, vitals), *_clients(snapshot, vitals), *_slow_fact(snapshot, vitals)]
    if tasks is not None:
        found.insert(0, _agents(snapshot, tasks))
    if trips.p99_ms is not None:
        found.append(Fact(name="round trip", value=f"{trips.p99_ms:,.1f} ms", detail="p99, measured here"))
    if snapshot.local_clock:
        found.append(
            Fact(
                name="clock",
                known=False,
                detail="TIME is not allowed: ages use this machine's clock",
                hint="Give this user +time.",
                command="ACL SETUSER USER +time",
            )
        )
    elif here_ms:
        apart = abs(here_ms - snapshot.at_ms)
        within_s = max(1, math.ceil(cost.took_s)) if cost is not None else 1
        words = f"within {within_s}s" if apart <= 1000 * within_s else f"{fmt.span(apart)} apart"
        is_near = apart <= 1000 * within_s
        found.append(
            Fact(
                name="clock, server and here",
                value=words,
                detail="ages use the server's clock",
                hint="" if is_near else CLOCK_HINT,
                command="" if is_near else "timedatectl set-ntp true",
            )
        )
    if cost is not None:
        share = _share(snapshot, cost)
        detail = "" if share is None else f"{share} of the server's commands"
        found.append(Fact(name="qdeck's own cost", value=f"{cost.commands:,.0f}/s", detail=detail))
    return found


def _agents(snapshot: Snapshot, tasks: Sequence[AgentTask]) -> Fact:
    """Return whether an agent maintains the queues, and which one ran last."""
    ran = [task for task in tasks if task.ended_ms is not None or task.started_ms is not None]
    last = max(ran, key=_moment_of, default=None)
    if last is None:
        return Fact(name="agents", value="none", detail="no qdeck agent has run")
    ago = fmt.span(max(0, snapshot.at_ms - _moment_of(last)))
    return Fact(name="agents", value=f"{ago} ago", detail=f"{last.name} by {safe_text(last.holder, limit=60)}")


def _moment_of(task: AgentTask) -> int:
    return max(task.ended_ms or 0, task.started_ms or 0)


def _share(snapshot: Snapshot, cost: RefreshCost) -> str | None:
    total = snapshot.server.commands_per_s
    percent = 100 * cost.commands / total if total else None
    if percent is None or percent > 100:
        return None
    return f"{percent:.1f} %" if percent < 1 else f"{percent:.0f} %"


def _copies(snapshot: Snapshot, vitals: ServerStats | None) -> list[Fact]:
    facts: Mapping[str, str] = vitals.facts if vitals is not None else {}
    if facts.get("master_link_status"):
        gap = vitals.number("master_last_io_seconds_ago") if vitals is not None else None
        detail = f"last contact {gap}s ago" if gap is not None and gap >= 0 else ""
        is_up = facts["master_link_status"] == "up"
        return [
            Fact(
                name="link to its master",
                value=facts["master_link_status"],
                detail=detail,
                hint="" if is_up else LINK_HINT,
                command="" if is_up else "INFO replication",
            )
        ]
    count = vitals.number("connected_slaves") if vitals is not None else None
    if count is None or snapshot.server.role != "master":
        return []
    lags = [part.removeprefix("lag=") for name, value in facts.items() if name.startswith("slave")
            for part in value.split(",") if part.startswith("lag=")]  # fmt: skip
    worst = max((int(lag) for lag in lags if lag.isdigit()), default=None)
    detail = "no replica" if not count else "" if worst is None else f"lag {worst}s"
    return [Fact(name="replication", value=_replicas(count) if count else "none", detail=detail)]


def _replicas(count: int) -> str:
    return fmt.counted(count, "replica")


def _clients(snapshot: Snapshot, vitals: ServerStats | None) -> list[Fact]:
    if snapshot.server.clients is None:
        return []
    most = vitals.number("maxclients") if vitals is not None else None
    blocked = vitals.number("blocked_clients") if vitals is not None else None
    detail = f"{blocked:,} blocked" if blocked else ""
    limit = f"at most {most:,}" if most is not None else ""
    return [Fact(name="clients", value=f"{snapshot.server.clients:,}", limit=limit, detail=detail)]


def _slow_fact(snapshot: Snapshot, vitals: ServerStats | None) -> list[Fact]:
    if vitals is None:
        return []
    if vitals.slow is None:
        return [Fact(name="slow commands", known=False, detail="SLOWLOG is not allowed")]
    late = [slow for slow in vitals.slow if snapshot.at_ms - slow.at_ms <= HOUR_MS]
    more = len(late) == len(vitals.slow) and (vitals.slow_count or 0) > len(late)
    value = f"{'≥ ' * more}{len(late)}"
    longest = max(late, key=lambda slow: slow.took_us, default=None)
    detail = "in the last hour"
    if longest is not None:
        detail += f"; longest {_took(longest)}, {safe_text(' '.join(longest.words[:1]), limit=40)}"
    return [Fact(name="slow commands", value=value, detail=detail)]


def _took(slow: SlowCommand) -> str:
    return f"{slow.took_us / 1000:,.1f} ms"


def server_lines(
    snapshot: Snapshot, vitals: ServerStats | None, seen: Sequence[float | None], cost: RefreshCost | None, cells: int
) -> list[Line]:
    """Return the server in numbers: memory, facts, commands per second, slow commands, and the load of this console."""
    server = snapshot.server
    address = cut_end(safe_text(server.address.partition("://")[2] or server.address, limit=200), max(10, cells - 8))
    gap = " " * max(2, cells - 6 - len(address))
    lines: list[Line] = [(("server", "strong bold"), (gap, "text"), (address, "muted")), ()]
    lines += _memory(snapshot, vitals, cells)
    lines += [(), section("facts", "", "muted", cells, indent=0)]
    for label, text in _facts(snapshot, vitals):
        lines.append(pair(label, [(cut_end(safe_text(text, limit=80), max(6, cells - len(label) - 1)), "text")], cells))
    if server.commands_per_s is not None:
        lines += [(), *_commands(server.commands_per_s, seen, cells)]
    lines += [(), *_slow(snapshot, vitals, cells), (), section("qdeck's own cost", "", "muted", cells, indent=0)]
    if cost is not None:
        share = _share(snapshot, cost)
        told = f"{cost.commands:,.0f}/s" + (f", {share}" if share else "")
        lines.append(pair("commands", [(told, "text")], cells))
        lines.append(pair("sent", [*fmt.size(round(cost.sent_bytes)), ("/s", "muted")], cells))
        lines.append(pair("last refresh", [(f"{cost.took_s * 1000:,.1f} ms", "text")], cells))
    return lines


def _commands(now: int, seen: Sequence[float | None], cells: int) -> list[Line]:
    """Return commands per second since this console started."""
    room = cells - 5
    values = list(seen)
    if len(values) > room:
        per = len(values) / room
        parts = [values[int(at * per) : max(int(at * per) + 1, int((at + 1) * per))] for at in range(room)]
        values = [_mean(part) for part in parts]
    number = f"{now:,}"
    head = section("commands/s", f"last {len(seen):,} refreshes", "muted", cells - len(number) - 1, indent=0)
    return [(*head, (" ", "text"), (number, "strong bold")), *area(values, 3)]


def _mean(part: Sequence[float | None]) -> float | None:
    known = [value for value in part if value is not None]
    return sum(known) / len(known) if known else None


def _memory(snapshot: Snapshot, vitals: ServerStats | None, cells: int) -> list[Line]:
    server = snapshot.server
    if server.memory_bytes is None:
        return [(("memory  ", "muted"), ("∅ INFO is not allowed", "muted"))]
    most = server.max_memory_bytes
    value = list(fmt.size(server.memory_bytes))
    if most:
        share = server.memory_bytes / most
        role = role_of(snapshot, Code.MEMORY, "accent")
        value += [(" of ", "muted"), *fmt.size(most)]
        lines: list[Line] = [pair("memory", value, cells), tuple(thin_bar(share, cells, role))]
        told = [(f"{share:.0%}".replace("%", " %"), f"{role} bold")]
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


def _facts(snapshot: Snapshot, vitals: ServerStats | None) -> list[tuple[str, str]]:
    server = snapshot.server
    facts: Mapping[str, str] = vitals.facts if vitals is not None else {}
    found: list[tuple[str, str]] = []
    if server.version:
        found.append(("version", f"{server.name or 'redis'} {server.version}, {server.mode or 'standalone'}"))
    if server.uptime_s is not None:
        found.append(("up", fmt.span(server.uptime_s * 1000)))
    if server.role:
        count = vitals.number("connected_slaves") if vitals is not None else None
        found.append(("role", server.role + (f", {_replicas(count)}" if count is not None else "")))
    if facts.get("master_link_status"):
        found.append(("link to its master", facts["master_link_status"]))
    if server.eviction:
        found.append(("policy", server.eviction))
    found += _kept(snapshot, vitals)
    if server.clients is not None:
        blocked = facts.get("blocked_clients")
        found.append(("clients", f"{server.clients:,}" + (f", {blocked} blocked" if blocked else "")))
    hits, misses = (vitals.number(f"keyspace_{word}") if vitals else None for word in ("hits", "misses"))
    if hits is not None and misses is not None and hits + misses:
        found.append(("hit rate", f"{100 * hits / (hits + misses):.1f} %"))
    evicted = vitals.number("evicted_keys") if vitals else None
    if evicted is not None:
        found.append(("evicted keys", f"{evicted:,}"))
    if "instantaneous_output_kbps" in facts:
        found.append(("network", f"{_per_s(facts, 'input')} in, {_per_s(facts, 'output')} out"))
    return found


def _per_s(facts: Mapping[str, str], way: str) -> str:
    text = facts.get(f"instantaneous_{way}_kbps", "")
    try:
        return "".join(part for part, _ in fmt.size(round(1000 * float(text)))) + "/s"
    except ValueError:
        return fmt.NONE


def _kept(snapshot: Snapshot, vitals: ServerStats | None) -> list[tuple[str, str]]:
    if snapshot.server.persistence is None:
        return []
    found = [("persistence", snapshot.server.persistence)]
    saved = vitals.number("rdb_last_save_time") if vitals else None
    if saved:
        found.append(("last save", f"{fmt.span(max(0, snapshot.at_ms - 1000 * saved))} ago"))
    return found


def _slow(snapshot: Snapshot, vitals: ServerStats | None, cells: int) -> list[Line]:
    if vitals is None:
        return [section("slow commands", "", "muted", cells, indent=0), (("…", "ghost"),)]
    if vitals.slow is None:
        return [section("slow commands", "", "muted", cells, indent=0), (("∅ SLOWLOG is not allowed", "muted"),)]
    lines = [section("slow commands", "", "muted", cells, indent=0, count=vitals.slow_count or None)]
    for entry in vitals.slow[:_MOST_SLOW]:
        when = f"{fmt.span(max(0, snapshot.at_ms - entry.at_ms))} ago"
        took = _took(entry)
        room = max(8, cells - len(when) - len(took) - 3)
        words = cut_end(safe_text(" ".join(entry.words), limit=200), room)
        tail = [(took, "text"), (f"  {when}", "muted")]
        lines.append((*fmt.fit([(words, "text")], cells - fmt.length(tail) - 1), (" ", "text"), *tail))
    return lines if len(lines) > 1 else [*lines, (("none", "faint"),)]
