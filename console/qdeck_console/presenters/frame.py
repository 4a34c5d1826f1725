"""The frame of every screen: environment bar, verdict, tabs and footer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck import UnreachableCause
from qdeck.admin import Status
from qdeck_console import format as fmt
from qdeck_console.actions import LOCKED, READ_ONLY
from qdeck_console.presenters.charts import thin_bar
from qdeck_console.presenters.line_parts import more_words, name_parts, naming_of
from qdeck_console.text import cut_end, safe_text, width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck import InvalidFilter
    from qdeck.admin import Code, Snapshot
    from qdeck_console.actions import Action
    from qdeck_console.feed import FeedState
    from qdeck_console.format import Line, Piece
    from qdeck_console.history import Flow

LATE_S: Final = 3.0
_ANSWERS: Final = 140  # cells from which on the verdict has the three questions
_STATUS: Final = {
    Status.HEALTHY: ("●", "ok"),
    Status.DEGRADED: ("▲", "warn"),
    Status.UNHEALTHY: ("✗", "bad"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownContext:
    """The context that is open, and whether it may be written to."""

    title: str
    server: str
    read_only: bool = False
    environment: str = ""
    colour: str = ""
    locked: str = ""  # why it cannot be opened for writing
    live_until: float | None = None  # monotonic; writing ends then
    told: str = ""  # since when it is live, by whom and why

    @property
    def is_production(self) -> bool:
        """Whether a mistake here is a real one."""
        return is_production(self.environment)


def is_production(environment: str) -> bool:
    """Return whether a mistake there is a real one."""
    return environment in {"prod", "production"}


def seen_environment(snapshot: Snapshot | None, given: str) -> str:
    """The environment: as given, else what the names of all of qdeck's queues say."""
    owner = "" if given else naming_of(snapshot).owner
    return owner.split(":")[1] if owner else given


def bar(
    context: ShownContext, feed_state: FeedState, frozen_ms: int | None, cells: int, *, low: bool = False
) -> tuple[Line, str]:
    """The first line and the ground it is on: where we are, whether we may write, and how old the data is.

    On a `low` screen it has the verdict too, in the place of the server.
    """
    environment = seen_environment(feed_state.snapshot, context.environment)
    production = is_production(environment)
    look = hue(context, production=production)
    left: list[Piece] = [(" qdeck  " if cells >= 80 else " ", f"{look.text} bold")]
    word = "PRODUCTION" if production else environment.upper()
    if word:
        left += [(f" {safe_text(word, limit=24)} ", f"{look.badge_text} bold on-{look.badge}"), ("  ", look.text)]
    left.append((safe_text(context.title, limit=40), f"{look.text} bold"))
    right = [*_access(context, look, narrow=cells < 100), *_clock(feed_state, frozen_ms, look, narrow=cells < 100)]
    server = feed_state.snapshot.server if feed_state.snapshot else None
    more: list[Piece] = [(f"   {safe_text(context.server, limit=60)}", look.muted)]
    if cells >= 100 and server is not None and server.version:
        more.append(
            (f"  {safe_text(server.name or 'redis', limit=12)} {safe_text(server.version, limit=12)}", look.muted)
        )
    room = cells - fmt.length(left) - fmt.length(right) - 1
    if low:
        left += _told(feed_state, look, room)
    elif cells >= 80 and fmt.length(more) <= room:
        left += more
    left = fmt.fit(left, cells - fmt.length(right))
    return (*left, *right), look.ground


def _told(feed_state: FeedState, look: Hue, room: int) -> list[Piece]:
    """The verdict on the ground of the bar, where no colour of a state can be read: its sign and words tell."""
    if room < 8:
        return []
    line = verdict(feed_state, min(room - 2, 99))
    return [("  ", look.text), *((text, f"{look.text} bold" if "bold" in role else look.text) for text, role in line)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hue:
    """The roles of the bar: production has its own, a context may give a colour to any other."""

    ground: str
    text: str
    muted: str
    badge: str
    badge_text: str
    production: bool = False


COLOURS: Final = {
    "black": "#000000",
    "red": "#8C2F24",
    "green": "#2F5D34",
    "yellow": "#7A5F12",
    "blue": "#1F4E8C",
    "magenta": "#7B2D7B",
    "cyan": "#1E6468",
    "white": "#E8E8E8",
    "grey": "#3A4146",
    "orange": "#8A4B12",
    "wine": "#3A1427",
}


def hue(context: ShownContext, *, production: bool) -> Hue:
    """The colours of a context."""
    kind = ("prod" if context.read_only else "live") if production else "bar"
    badge = "badge" if kind == "bar" else f"{kind}_badge"
    colour = COLOURS.get(context.colour, context.colour)
    if production or not colour.startswith("#") or len(colour) != 7:
        roles = {"text": f"{kind}_text", "muted": f"{kind}_muted", "badge": badge, "badge_text": f"{badge}_text"}
        return Hue(ground=kind, production=production, **roles)
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    light = 299 * red + 587 * green + 114 * blue > 128_000
    text, ground = ("#101315", "#FFFFFF") if light else ("#FFFFFF", "#101315")
    return Hue(ground=colour, text=text, muted=text, badge=text, badge_text=ground)


def _access(context: ShownContext, look: Hue, *, narrow: bool) -> list[Piece]:
    if context.read_only:
        return [("∅ READ-ONLY  ", f"{look.text} bold")]
    if context.live_until is not None:
        left = max(0.0, context.live_until - time.monotonic())
        words = f"{left / 60:.0f}m" if left >= 90 else f"{left:.0f}s"
        return [("● LIVE ", f"{look.text} bold"), (f"{words}  " if narrow else f"{words} left  ", look.muted)]
    return [("● LIVE  ", f"{look.text} bold")] if look.production else []


def _clock(feed_state: FeedState, frozen_ms: int | None, look: Hue, *, narrow: bool) -> list[Piece]:
    if frozen_ms is not None:
        role = "accent bold" if not look.ground.startswith("#") else f"{look.text} bold"
        return [(f"FROZEN {fmt.clock(frozen_ms)} ", role)]
    if feed_state.snapshot is None:
        return [("no data yet ", look.muted)]
    age = feed_state.age_s()
    words = fmt.span(age * 1000)
    if feed_state.is_lost:
        return [(f"  {words} old ", "ground bold on-bad")]
    clock: list[Piece] = [] if narrow else [(time.strftime("%H:%M:%S %Z"), look.text), (" · ", look.muted)]
    if age >= LATE_S:
        return [*clock, (f" {words} ", "ground bold on-warn")]
    return [*clock, (f"{age:.1f}s " if narrow else f"updated {age:.1f}s ago ", look.muted)]


def verdict(feed_state: FeedState, cells: int, *, now: float | None = None) -> Line:
    """Return the status and its findings, worst first, with totals at the right; or that the server is lost."""
    now = time.monotonic() if now is None else now
    if feed_state.is_lost:
        return _lost(feed_state, cells, now)
    snapshot = feed_state.snapshot
    if snapshot is None:
        return ((" … ", "ghost"), ("reading the queues", "muted"))
    glyph, role = _STATUS[snapshot.status]
    left: list[Piece] = [(f" {glyph} ", f"{role} bold"), (snapshot.status.value, f"{role} bold"), ("  ", "text")]
    right = _totals(snapshot, feed_state.flow) if cells >= 100 else []
    if cells >= _ANSWERS:
        from qdeck.admin import answers  # not before the first frame
        from qdeck_console.presenters.answers import pieces

        left += pieces(answers(snapshot.findings, snapshot.checks))
    reasons = _reasons(snapshot, cells - fmt.length(left) - fmt.length(right) - 2)
    if cells < 140 and any(text.endswith("…") for text, _ in reasons):  # why comes before how many
        right = []
        reasons = _reasons(snapshot, cells - fmt.length(left) - 2)
    left += reasons
    return (*fmt.fit(left, cells - fmt.length(right)), *right)


def _reasons(snapshot: Snapshot, room: int) -> list[Piece]:
    if not snapshot.findings:
        queues = len(snapshot.queues)
        words = "every queue is fine" if queues else "no queue yet; one appears with its first job"
        return [(words, "muted")]
    owner = naming_of(snapshot)
    out: list[Piece] = []
    for at, finding in enumerate(snapshot.findings):
        text = finding.text
        if finding.queue:
            text = text.replace(finding.label, " ▸ ".join(name_parts(finding.label, naming=owner)))
        text = safe_text(text, limit=200)
        more = len(snapshot.findings) - at
        gap = "  ·  " if out else ""
        rest = more_words(more, room)
        left = room - fmt.length(out) - (len(rest) if more > 1 else 0)
        if out and width(gap + text) > left:
            out.append((rest, "muted"))
            break
        out += [(gap, "ghost"), (cut_end(text, left - len(gap)), _STATUS[finding.severity][1])]
    return out


def role_of(snapshot: Snapshot, code: Code, well: str = "text") -> str:
    """Return the role of a count: that of the worst finding of its code; without a finding it is plain."""
    severity = snapshot.severities.get(code, Status.HEALTHY)
    return well if severity is Status.HEALTHY else _STATUS[severity][1]


def _totals(snapshot: Snapshot, flow: Flow) -> list[Piece]:
    return [
        ("   ready ", "muted"),
        (f"{snapshot.totals.ready:,}", "text"),
        ("   in ", "muted"),
        (fmt.NONE if flow[0] is None else f"{flow[0]:,.1f}", "text"),
        ("   out ", "muted"),
        (fmt.NONE if flow[1] is None else f"{flow[1]:,.1f}", "text"),
        (" /s ", "muted"),
    ]


def _lost(feed_state: FeedState, cells: int, now: float) -> Line:
    left_s = max(0.0, feed_state.retry_at - now)
    words = f"retrying in {left_s:.0f}s" if left_s >= 0.5 else "retrying now"
    words += f" (attempt {feed_state.tries})" if cells >= 100 else ""
    left: list[Piece] = [(f" ✗ {feed_state.kind or 'server lost'}  ", "bad bold")]
    tail: list[Piece] = [("  ·  ", "ghost"), (words, "text")] if cells >= 100 else [(f", {words}", "text")]
    wait = thin_bar(left_s / max(0.1, feed_state.pause_s), 12, "bad")
    bar = [(" ", "text"), *wait, (" ", "text")] if cells >= 140 else []
    why = problem(feed_state)
    room = cells - fmt.length(left) - fmt.length(tail) - fmt.length(bar)
    if feed_state.snapshot is not None and cells >= 120:
        at = fmt.clock(feed_state.read_ms)
        words = f"data from {at} ({fmt.span(feed_state.age_s() * 1000)} old)"
        words = words if width(why) + width(words) + 5 <= room else f"data from {at}"  # the cause comes first
        tail += [("  ·  ", "ghost"), (words, "muted")]
        room -= width(words) + 5
    left.append((cut_end(why, max(10, room)), "bad"))
    return (*fmt.fit([*left, *tail], cells - fmt.length(bar)), *bar)


_CAUSES: Final[Mapping[UnreachableCause, str]] = {
    UnreachableCause.REFUSED: "connection refused by",
    UnreachableCause.TIMED_OUT: "no answer from",
    UnreachableCause.CLOSED: "connection closed by",
    UnreachableCause.NO_SUCH_HOST: "no such host:",
}


def problem(feed_state: FeedState) -> str:
    """Return the problem of a server in few words: which one refused or does not answer, else its message."""
    cause = _CAUSES.get(feed_state.cause)
    if cause and feed_state.server:
        return f"{cause} {safe_text(feed_state.server, limit=200)}"
    return safe_text(feed_state.problem, limit=200).removeprefix("not allowed by the server: ")


@dataclass(frozen=True, slots=True)
class Tab:
    """A screen one can switch to; `count` only when it is news."""

    id: str
    name: str
    number: int
    count: int = 0
    role: str = "warn"


def tabs(all_tabs: Sequence[Tab], active: str, cells: int) -> Line:
    """The screens with their keys. Where there is little room names are short, then the last ones are digits only, and
    at last all but the active one's. Two cells between them at least: a count must not look like the next one's key.
    """
    some, all_ = range(len(all_tabs) - 1, len(all_tabs) // 2, -1), len(all_tabs)
    ways = [(3, {}, all_), (2, {}, all_), (2, _SHORT_NAMES, all_)]
    ways += [(2, _SHORTEST_NAMES, named) for named in (all_, *some)]
    lines = [_tabs(all_tabs, active, cells, *way) for way in (ways if cells >= 80 else ())]
    return next((line for line in lines if fmt.length(line) <= cells), _tabs(all_tabs, active, cells, 2, {}, 0))


_SHORT_NAMES: Final[Mapping[str, str]] = {"schedules": "Sched", "workers": "Work", "activity": "Act"}
_SHORTEST_NAMES: Final[Mapping[str, str]] = {**_SHORT_NAMES, "queues": "Qs"}


def _tabs(all_tabs: Sequence[Tab], active: str, cells: int, gap: int, names: Mapping[str, str], named: int) -> Line:
    line: list[Piece] = [(" ", "text")]
    for at, tab in enumerate(all_tabs):
        here = tab.id == active
        line.append((str(tab.number), "accent bold" if here else "faint"))
        if here or at < named:
            line += [(" ", "text"), (names.get(tab.id, tab.name), "strong bold under" if here else "muted")]
        if tab.count:
            text = f"{tab.count:,}" if cells >= 100 else fmt.short_count(tab.count)
            line += [(" ", "text"), (text, f"{tab.role} bold")]
        line.append((" " * gap, "text"))
    return tuple(line[:-1])


def filter_error(error: InvalidFilter, text: str, cells: int) -> Line:
    """A sign under the place of a mistake in a filter, in cells as the field shows it, and what is wrong."""
    at = 1 + width(text[: error.position])
    words = safe_text(str(error) + (f". {error.hint}" if error.hint else ""), limit=300)
    if at + 2 + min(width(words), 40) > cells:
        return (("^ ", "bad bold"), (cut_end(words, cells - 2), "bad"))
    return ((" " * at, "text"), ("^ ", "bad bold"), (cut_end(words, cells - at - 2), "bad"))


@dataclass(frozen=True, slots=True)
class Offer:
    """An action in the footer: its verb now, and why it cannot act, if it cannot."""

    action: Action
    verb: str
    why_not: str = ""


def footer(offers: Sequence[Offer], note: Sequence[Piece], cells: int, *, hides: bool = False) -> Line:
    """The keys that work here, the others faint and with the reason if there is room; help is pinned at the right with
    the last outcome. `hides`: disabled ones are left out, where faint looks like the rest.
    """
    right: list[Piece] = [("? ", "accent bold"), ("help ", "muted")]
    if note:
        if len(note) == 2 and cells - fmt.length(note) < _KEYS_AT_LEAST:
            note = note[:1]  # when it was is the first to go: the keys are needed more
        shown_note: list[Piece] = [*note, (" ", "text")]
        right = [*right, ("  ", "text"), *shown_note] if fmt.length([*right, *shown_note]) + 2 < cells else shown_note
    room = cells - fmt.length(right) - 1
    shown: list[Offer] = []
    taken = 1
    for offer in offers:
        wide = width(offer.action.key_name) + 1 + width(offer.verb) + 2
        if hides and offer.why_not:
            continue
        if taken + wide > room:
            break
        shown.append(offer)
        taken += wide
    reasons = _reasons_with_room(shown, room - taken)
    line: list[Piece] = [(" ", "text")]
    for offer in shown:
        if offer.why_not:
            why = f": {offer.why_not}" if offer in reasons else ""
            line.append((f"{offer.action.key_name} {offer.verb}{why}", "faint"))
        else:
            line += [(offer.action.key_name, "accent bold"), (f" {offer.verb}", "muted")]
        line.append(("  ", "text"))
    return (*fmt.fit(line, cells - fmt.length(right)), *right)


def filter_footer(note: Sequence[Piece], cells: int) -> Line:
    """Return the keys of the filter while it is typed, and the last outcome."""
    keys: list[Piece] = [
        (" enter", "accent bold"),
        (" keep the filter  ", "muted"),
        ("esc", "accent bold"),
        (" clear it  ", "muted"),
        ("tab", "accent bold"),
        (" complete  ", "muted"),
        ("↑", "accent bold"),
        (" earlier filters", "muted"),
    ]
    right: list[Piece] = [*note, (" ", "text")] if note else []
    return (*fmt.fit(keys, cells - fmt.length(right)), *right)


_KEYS_AT_LEAST: Final = 46  # cells of a footer that a message leaves to the keys, if it can


def _reasons_with_room(shown: Sequence[Offer], room: int) -> list[Offer]:
    """Return the keys whose reason is shown: of the screen's operations, each reason once."""
    out: list[Offer] = []
    told: set[str] = set()
    for offer in shown:
        action, why = offer.action, offer.why_not
        is_act = action.group.startswith("act") or action.group == "purge"
        if not why or why in told or not is_act or action.id == "undo" or why in (READ_ONLY, LOCKED):
            continue
        told.add(why)
        if width(why) + 2 <= room:
            room -= width(why) + 2
            out.append(offer)
    return out
