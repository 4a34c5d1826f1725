"""The drawings in core/README.md: every file that they name is there, and no way is longer than it may be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE, CONSOLE = ROOT / "core" / "qdeck", ROOT / "console" / "qdeck_console"
MOST_FILES = 12
HOP = re.compile(r"^ *\d+ (?P<package>console: )?(?P<file>[\w*/.]+)  ", re.MULTILINE)
WAYS = ("The way of a retry", "The way of a refresh")


@pytest.mark.parametrize("way", WAYS)
def test_each_hop_of_a_way_is_a_file(way: str) -> None:
    text = (ROOT / "core" / "README.md").read_text("utf-8")
    drawing = text.partition(f"### {way}")[2].partition("```\n")[2].partition("```")[0]
    hops = [(CONSOLE if hop["package"] else CORE, hop["file"]) for hop in HOP.finditer(drawing)]
    assert 5 < len(hops) <= MOST_FILES
    assert [file for package, file in hops if not list(package.glob(file))] == []
