"""The drawings in the READMEs of both halves: every file in them exists, and no way is longer than it may be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE, CONSOLE = ROOT / "core" / "qdeck", ROOT / "console" / "qdeck_console"
MOST_FILES = 12
HOP = re.compile(r"^ *\d+ (?P<package>console: )?(?P<file>[\w*/.]+)  ", re.MULTILINE)
WAYS = (
    ("core", "An operator's retry, from the command to Lua"),
    ("core", "A refresh, from the server to `Reader`"),
    ("console", "A key, from the terminal to `Writer`"),
)


@pytest.mark.parametrize(("half", "way"), WAYS)
def test_each_hop_of_a_way_is_a_file(half: str, way: str) -> None:
    text = (ROOT / half / "README.md").read_text("utf-8")
    own = CORE if half == "core" else CONSOLE
    drawing = text.partition(f"## {way}\n")[2].partition("```text\n")[2].partition("```")[0]
    hops = [(CONSOLE if hop["package"] else own, hop["file"]) for hop in HOP.finditer(drawing)]
    assert 5 < len(hops) <= MOST_FILES
    assert [file for package, file in hops if not list(package.glob(file))] == []


@pytest.mark.parametrize(("readme", "most"), [("README.md", 150), ("core/README.md", 120), ("console/README.md", 110)])
def test_a_readme_is_one_page(readme: str, most: int) -> None:
    """What is longer is a page of the documentation."""
    assert len((ROOT / readme).read_text("utf-8").splitlines()) < most
