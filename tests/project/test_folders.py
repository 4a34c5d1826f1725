"""The tests of a package are in the folder of its name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
SEVERAL = {"interleavings"}  # what is about several packages at once
PACKAGES = {"core": ROOT / "core" / "qdeck", "console": ROOT / "console" / "qdeck_console"}


def folders(parent: Path) -> list[str]:
    return sorted({path.relative_to(parent).parts[0] for path in parent.glob("*/**/*.py")})


@pytest.mark.parametrize("root", PACKAGES)
def test_each_folder_has_its_package(root: str) -> None:
    found = folders(TESTS / root)
    assert found
    rest = [name for name in found if name not in SEVERAL]
    assert [name for name in rest if not (PACKAGES[root] / name).is_dir() and not _is_module(root, name)] == []


def _is_module(root: str, name: str) -> bool:
    return (PACKAGES[root] / name).with_suffix(".py").exists()


def test_the_readme_names_each_folder() -> None:
    table = (TESTS / "README.md").read_text("utf-8").partition("## What each folder proves")[2].partition("\n## ")[0]
    named = [name for line in table.splitlines() for name in re.findall(r"`([\w/]+)`", line.split(" | ")[0])]
    assert [name for name in named if not (TESTS / name).is_dir()] == []
    assert sorted({name.split("/")[0] for name in named}) == folders(TESTS)
