"""What differs from run to run, replaced: moments by how far they are from the seed's, ids by their order."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_MINUTE: Final = 60
_FAR_S: Final = 400 * 86_400
_ID: Final = re.compile(r"\b[0-9a-f]{13}[0-9a-z]{7}\b")
_DIGEST: Final = re.compile(r"(?<![\w-])(?!reprioritisation)[a-z2-7]{16}(?![\w-])")  # of an entry that names no id
_MOMENT: Final = re.compile(r"\b(20\d\d-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)?(?:Z| ?\+00:?00| UTC)?")
_NUMBER: Final = re.compile(r"(?<![\w.])(\d{10,16})(?:\.\d+)?(?![\w.])")
_SECONDS: Final = re.compile(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)? s\b")
_RANGE: Final = re.compile(r"(?<![\w.])([\d,]+) to (?=[\d,]+ s\b)")
_SHORT: Final = re.compile(r"\b(\d+m )?\d{1,2}s\b")
_CUT_MOMENT: Final = re.compile(r"\b20\d\d-\d\d-\d\d…")  # in a text that is cut at its end
_SHA: Final = re.compile(r"\b[0-9a-f]{40,64}\b")
_VERSION: Final = re.compile(r"\b(valkey|redis) \d+\.\d+\.\d+")
_MEMORY: Final = re.compile(r"(?m)^(memory\s.*?)[\d.]+ [kMG]?B\b")
_WEIGHT: Final = re.compile(r"(?<![\w,])[\d,.]+ (?:bytes|[kMG]?B)\b")
_WEIGHED: Final = frozenset(
    {"idle_s", "in_use", "orphaned"}
)  # what stands beside bytes that the server's allocator took
_GAP: Final = re.compile(r" {2,}")
_PRIORITIES: Final = 1_000_000  # what a priority adds to a score of ifdb, in seconds
_PRIORITIES_THERE: Final = 1000
_BAND: Final = 10**13  # what a priority adds to a score of the native adapter, in ms
_AGES: Final = frozenset({"age_s", "oldest_s", "stuck_s", "idle_s", "late_s", "heartbeat_s", "oldest_age", "avg_age"})
PLANNED: Final = "version of a planned job"
_OF_MACHINE: Final = frozenset({"memory_bytes", "version", "run_id", "digest", "uptime_s", "clients", "commands_per_s"})


class Normal:
    """Replaces what differs; one of these gives the same name to the same id everywhere."""

    def __init__(self, now_ms: int, words: Mapping[str, str]) -> None:
        self.now_ms = now_ms
        self.words = dict(words)  # text → what stands for it
        self.ids: dict[str, str] = {}

    def text(self, text: str) -> str:
        """Any text of a command or of a server."""
        for found, name in self.words.items():
            text = text.replace(found, name)
        text = _ID.sub(lambda m: self.ids.setdefault(m[0], f"<id{len(self.ids) + 1}>"), text)
        text = _DIGEST.sub(lambda m: self.ids.setdefault(m[0], f"<digest{len(self.ids) + 1}>"), text)
        text = _MOMENT.sub(lambda m: self._moment(f"{m[1]}T{m[2]}{m[3] or ''}", m[0]), text)
        text = _NUMBER.sub(lambda m: self.number(int(m[1])) or m[0], text)
        text = _CUT_MOMENT.sub("<date>…", _SHA.sub("<sha>", text))
        return _VERSION.sub(r"\1 <version>", text)

    def lines(self, text: str, *, weighed: bool = False) -> str:
        """What people read: besides, no column is wider than two spaces, and no seconds pass.

        `weighed`: bytes are what the server's allocator took.
        """
        text = _WEIGHT.sub("<bytes> bytes", text) if weighed else text
        text = self.sentence(text)
        text = _MEMORY.sub(r"\1<bytes>", text)
        return "\n".join(_GAP.sub("  ", line).rstrip() for line in text.splitlines())

    def document(self, value: Any, name: str = "") -> Any:
        """A document of JSON."""
        if isinstance(value, dict):
            planned = "verb" in value  # its version is that of a job, not of a program
            kept = {
                self.sentence(key): self.document(item, PLANNED if planned and key == "version" else key)
                for key, item in value.items()
            }
            hidden = "value" if kept.get("name") == "memory" else "bytes" if _WEIGHED & kept.keys() else ""
            return kept | {hidden: "<bytes>"} if hidden in kept else kept
        if isinstance(value, list):
            return [self.document(item, name) for item in value]
        if name in _OF_MACHINE and value is not None:
            return f"<{name}>"
        if name == PLANNED and isinstance(value, str):
            value = _decoded(value)
        if isinstance(value, str):
            return self.sentence(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _minutes(value) if name in _AGES else self.number(value) or value
        return value

    def sentence(self, text: str) -> str:
        """A text that may have ages in it."""
        text = _RANGE.sub(lambda m: f"{_whole_minutes(m[1])} to ", self.text(text))
        text = _SECONDS.sub(lambda m: f"{_whole_minutes(m[1])} s", text)
        return _SHORT.sub(lambda m: f"{m[1] or ''}<s>", text)

    def number(self, value: float) -> str | None:
        """A number as the moment that it means, alone or above a priority; None for one that means none."""
        for unit, band in ((1, _PRIORITIES), (1000, _BAND)):
            apart = value - self.now_ms * unit / 1000
            if abs(apart) < _FAR_S * unit:
                return self._apart(apart / unit)
            priority = round(apart / band)
            rest = apart - priority * band
            if 0 < priority < _PRIORITIES_THERE and abs(rest) < min(_FAR_S * unit, band / 3):
                return f"{priority}|{self._apart(rest / unit)}"
        return None

    def _moment(self, text: str, given: str) -> str:
        at = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
        apart = at - self.now_ms / 1000
        return self._apart(apart) if abs(apart) < _FAR_S else given

    def _apart(self, seconds: float) -> str:
        if -_MINUTE <= seconds < 3 * _MINUTE:
            return "<now>"
        minutes = int(abs(seconds) // _MINUTE)
        days, hours = divmod(minutes // 60, 24)
        span = f"{f'{days}d' if days else ''}{hours:02d}h{minutes % 60:02d}m"
        return f"<{span} ago>" if seconds < 0 else f"<in {span}>"


def _decoded(version: str) -> str:
    """What a plan compares of an entry of another system: key, member, score and value, each as base64 or a digest.

    Of an entry of a list, its place, too.
    """
    parts = version.split(".")
    if len(parts) not in (4, 5):
        return version
    return " . ".join(map(_part, parts))


def _part(part: str) -> str:
    if part.startswith("~"):
        return "<digest>"
    return "-" if part == "-" else base64.urlsafe_b64decode(part).decode("utf-8", "backslashreplace")


def _whole_minutes(seconds: str) -> str:
    return f"{_minutes(int(seconds.replace(',', ''))):,}"


def _minutes(seconds: float) -> int:
    return int(seconds // _MINUTE) * _MINUTE


def shown(value: Any) -> str:
    """A document of JSON, a line for each part of it that is worth a line of a difference."""
    if isinstance(value, list):
        return "\n".join(f"- {_compact(item)}" for item in value) or "[]"
    if not isinstance(value, dict):
        return _compact(value)
    lines: list[str] = []
    for name, item in value.items():
        if isinstance(item, list) and item:
            lines += [f"{name}:", *(f"- {_compact(one)}" for one in item)]
        elif isinstance(item, dict) and any(isinstance(one, dict) for one in item.values()):
            lines += [f"{name}:", *(f"  {key}: {_compact(one)}" for key, one in item.items())]
        else:
            lines.append(f"{name}: {_compact(item)}")
    return "\n".join(lines)


def _compact(value: Any) -> str:
    return json.dumps(value)
