"""Figures of an earlier state, in `golden/`: a number may become lower, which is told, and not higher; all else stays.

`QDECK_GOLDEN=write pytest tests/characterisation` writes what is measured instead.
"""

from __future__ import annotations

import fcntl
import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Figures: TypeAlias = "Mapping[str, Mapping[str, Any]]"
FOLDER: Final = Path(__file__).parent / "golden"


class Lower(UserWarning):
    """A figure is lower than the recorded one."""


def known(name: str, part: str) -> dict[str, Any]:
    """A part of a file of figures."""
    path = FOLDER / name
    found: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found.get(part, {})


def is_writing() -> bool:
    """Whether figures are recorded, not compared."""
    return os.environ.get("QDECK_GOLDEN") == "write"


def compare(name: str, part: str, seen: Figures, above: float = 0.0) -> tuple[list[str], list[str]]:
    """What is higher than recorded, or another text, and what is lower; a number may be higher by the part `above`."""
    before = known(name, part)
    assert before.keys() == seen.keys(), "other things were measured than recorded"
    higher, lower = [], []
    for thing, figures in seen.items():
        assert before[thing].keys() == figures.keys(), f"{thing}: other figures were measured than recorded"
        for figure, now in figures.items():
            was = before[thing][figure]
            told = f"{part}, {thing}: {figure} {was} → {now}"
            if not isinstance(now, int | float):
                higher += [told] * (now != was)
            elif now > was * (1 + above):
                higher.append(told)
            elif now < was * (1 - above):
                lower.append(told)
    return higher, lower


def check(name: str, part: str, seen: Figures, *, above: float = 0.0) -> None:
    """Fails when a figure is higher than recorded, warns when one is lower."""
    if is_writing():
        _write(name, part, seen)
        return
    higher, lower = compare(name, part, seen, above)
    assert not higher, "\n".join(higher)
    if lower:
        told = "lower than in golden/{}; record it with QDECK_GOLDEN=write: {}"
        warnings.warn(told.format(name, "; ".join(lower)), Lower, stacklevel=2)


def _write(name: str, part: str, seen: Figures) -> None:
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / name
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # tests run in several processes
        file.seek(0)
        found = json.loads(file.read() or "{}")
        found[part] = seen
        file.truncate(0)
        file.write(_text(found))


def _text(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Each thing in a line, so that a difference names it."""
    parts = []
    for part, things in sorted(found.items()):
        lines = ",\n".join(f"    {json.dumps(thing)}: {json.dumps(figures)}" for thing, figures in things.items())
        parts.append(f"  {json.dumps(part)}: {{\n{lines}\n  }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
