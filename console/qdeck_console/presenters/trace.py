"""A traceback: a line for each frame, its code below it, libraries folded, the failing line marked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from qdeck_console import format as fmt
from qdeck_console.text import cut_end, width, wrap

if TYPE_CHECKING:
    from qdeck_console.format import Line, Piece

Keyed = tuple[str, "Line"]  # a line and its identity: the cursor moves over those that have one
_FRAME: Final = re.compile(r'^\s*File "(.+)", line (\d+)(?:, in (.+))?$')
_CHAINED: Final = ("During handling of the above exception", "The above exception was the direct cause")
_BEGIN: Final = "Traceback (most recent call last):"
_PACKAGES: Final = (
    re.compile(r"(?:site-packages|dist-packages)/([^/.]+)"),
    re.compile(r"/lib/python3[^/]*/([^/.]+)"),
    re.compile(r"(qdeck)/_worker/"),
)
_LIBRARY: Final = ("site-packages/", "dist-packages/", "/lib/python3", "qdeck/_worker/", "<frozen ")
_MOST_NAMES: Final = 3


@dataclass(slots=True)
class _Part:
    """A frame with its code; or, without a place, text between frames."""

    place: tuple[str, str, str] | None
    code: list[str] = field(default_factory=list)

    @property
    def is_library(self) -> bool:
        return self.place is not None and any(mark in self.place[0] for mark in _LIBRARY)


def _parts(text: str) -> list[_Part]:
    parts: list[_Part] = []
    for row in text.splitlines():
        found = _FRAME.match(row)
        if found:
            parts.append(_Part((found[1], found[2], found[3] or "")))
        elif parts and (parts[-1].place is None or row.startswith("    ")):
            parts[-1].code.append(row)
        else:
            parts.append(_Part(None, [row]))
    return parts


def lines(text: str, cells: int, *, unfolded: bool, told: str = "") -> list[Keyed]:
    """Return the traceback, without its last line where that repeats the error `told` above it."""
    parts = _parts(text)
    frames = [part for part in parts if part.place is not None]
    if not frames:
        return [(f"tb/{at}", ((part, "text"),)) for at, part in enumerate(wrap(text, cells, most=200))]
    own = [part for part in frames if not part.is_library]
    failing = own[-1] if own else frames[-1]
    folds = bool(own) and len(own) < len(frames)
    words = f"Traceback, {fmt.counted(len(frames), 'frame')}"
    if folds and not unfolded:
        words += f", {fmt.counted(len(frames) - len(own), 'library frame')} folded"
    hint: list[Piece] = [("  enter", "accent bold"), (" folds" if unfolded else " unfolds", "muted")] if folds else []
    found: list[Keyed] = [("traceback", ((words, "muted"), *hint)), ("", ())]
    hidden: list[_Part] = []
    for at, part in enumerate(parts):
        if folds and not unfolded and part.is_library:
            hidden.append(part)
            continue
        if hidden:
            found.append((f"tb/fold{at}", (("  " + _folded(hidden, cells - 2), "faint"),)))
            hidden = []
        found += _frame(part, f"tb/{at}", cells, failing=part is failing) if part.place else _words(part, at, cells)
    if hidden:
        found.append(("tb/fold", (("  " + _folded(hidden, cells - 2), "faint"),)))
    return _without_end(found, told)


def _folded(hidden: list[_Part], cells: int) -> str:
    names: list[str] = []
    for part in hidden:
        path = part.place[0] if part.place else ""
        name = next((package[1] for pattern in _PACKAGES if (package := pattern.search(path))), "")
        if name and name not in names:
            names.append(name)
    told = ", ".join(names[:_MOST_NAMES]) + (" …" if len(names) > _MOST_NAMES else "")
    words = f"… {fmt.counted(len(hidden), 'frame')}" + (f" in {told}" if told else " of libraries")
    return cut_end(words, cells)


def _frame(part: _Part, key: str, cells: int, *, failing: bool) -> list[Keyed]:
    assert part.place is not None  # noqa: S101 - the caller asked
    path, number, function = part.place
    room = cells - width(number) - 4 - (width(function) + 5 if function else 0)
    shown = path if width(path) <= room else "…" + path[-max(11, room - 1) :]  # its end says more than its beginning
    head: list[Piece] = [(shown, "strong bold"), (f":{number}", "muted")]
    if function:
        head += [("  in ", "muted"), (function, "text")]
    found: list[Keyed] = [(key, (("  ", "text"), *fmt.fit(head, cells - 2)))]
    indent = min((len(row) - len(row.lstrip()) for row in part.code if row.strip()), default=0)
    for at, row in enumerate(part.code):
        code = row[indent:]
        if code.strip() and not code.strip(" ~^"):
            marks = (cut_end(code, cells - 8), "bad" if failing else "faint")
            found.append((f"{key}.{at}", ((" " * 8, "text"), marks)))
        elif failing:
            label = number if at == 0 else ""
            line = [("▌", "bad on-bad_dim"), (f"{label:>5}  ", "bad on-bad_dim"), (code, "strong bold on-bad_dim")]
            left = cells - fmt.length(line)
            line = [*line, (" " * left, "text on-bad_dim")] if left > 0 else fmt.fit(line, cells)
            found.append((f"{key}.{at}", tuple(line)))
        else:
            label = number if at == 0 else ""
            found.append((f"{key}.{at}", ((f" {label:>5}  ", "faint"), (cut_end(code, cells - 8), "muted"))))
    return found


def _words(part: _Part, at: int, cells: int) -> list[Keyed]:
    """Return the text between frames: the error, or how one error caused another."""
    rows = [row for row in part.code if row.strip() and row.strip() != _BEGIN]
    found: list[Keyed] = []
    for number, row in enumerate(rows):
        chained = row.startswith(_CHAINED)
        told: list[Keyed] = [
            (f"tb/{at}.{number}.{line}", ((piece, "muted" if chained else "text"),))
            for line, piece in enumerate(wrap(row, cells, most=12))
        ]
        found += [("", ()), *told, ("", ())] if chained else told
    return found


def _without_end(found: list[Keyed], told: str) -> list[Keyed]:
    """Return the lines without the last ones where they only repeat the error above."""
    last: list[str] = []
    at = len(found)
    while at and found[at - 1][0].count(".") == 2:
        at -= 1
        last.insert(0, "".join(text for text, _ in found[at][1]))
    said, known = "".join("".join(last).split()), "".join(told.split())
    return found[:at] if said and (said in known or said.endswith(known)) else found
