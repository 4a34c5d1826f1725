"""Links between the pages of the documentation lead to files that are there, and to headings in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted([*ROOT.glob("*.md"), *ROOT.glob("core/**/*.md"), *ROOT.glob("console/**/*.md")])
_LINK: Final = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
_HEADING: Final = re.compile(r"^#+ (.*)$", re.MULTILINE)
_CODE: Final = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get: small letters, spaces as dashes, no other signs."""
    words = [heading.strip().lower() for heading in _HEADING.findall(page.read_text("utf-8"))]
    return {re.sub(r"[^\w\- ]", "", word).replace(" ", "-") for word in words}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in _LINK.findall(_CODE.sub("", page.read_text("utf-8"))):
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{target} is not there"
        assert not anchor or anchor in anchors(found), f"{target}#{anchor} is no heading"


@pytest.mark.parametrize("half", ["core", "console"])
def test_the_index_has_every_page(half: str) -> None:
    folder = ROOT / half / "docs"
    index = folder / "README.md"
    linked = {(folder / target).resolve() for target, _ in _LINK.findall(index.read_text("utf-8"))}
    assert [str(page) for page in folder.rglob("*.md") if page != index and page not in linked] == []
