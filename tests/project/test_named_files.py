"""Files and tests that the documentation names are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted(
    page for folder in ("", "core/**/", "console/**/", "tests/") for page in ROOT.glob(f"{folder}*.md")
)
# Where a path in a page starts.
STARTS: Final = (
    ROOT, *(ROOT / part for part in ("core", "core/qdeck", "console", "console/qdeck_console", "tests")),
)  # fmt: skip
_TEST: Final = re.compile(r"`([\w/]+\.py)::(\w+)`")
_PATH: Final = re.compile(r"`((?:[\w*-]+/)+[\w*-]+\.(?:py|lua|toml|md))`")
# Files of an application, or of another project, that a page is about.
OF_USERS: Final = re.compile(r"^(shop/|ifdb/|core/taskqueue|games/|my_package/|screens/paused|.*\bNAME\b)")


def called(page: Path) -> str:
    """Return the name of a page's test."""
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=called)
def test_each_file_is_there(page: Path) -> None:
    named = {path for path in _PATH.findall(page.read_text("utf-8")) if not OF_USERS.match(path)}
    assert {path for path in named if not any(list(start.glob(path)) for start in STARTS)} == set()


@pytest.mark.parametrize("page", PAGES, ids=called)
def test_each_test_is_there(page: Path) -> None:
    named = _TEST.findall(page.read_text("utf-8"))
    gone = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / "tests" / file).exists() or f"def {name}(" not in (ROOT / "tests" / file).read_text("utf-8")
    ]
    assert gone == []


def test_tests_are_named_at_all() -> None:
    named = {page.name: len(_TEST.findall(page.read_text("utf-8"))) for page in PAGES}
    assert named["architecture.md"] > 40
    assert sum(named.values()) > 90
