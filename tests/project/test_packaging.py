"""What ends up in the wheel and in the source distribution."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = (ROOT / "core", ROOT / "console")
PACKAGES = ("qdeck", "qdeck_console")  # beside them lie documents and examples, which no wheel carries


def build(target: str, directory: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (made,) = directory.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def test_wheel_owns_two_top_level_names(wheel_names: set[str]) -> None:
    top_level = {name.split("/")[0] for name in wheel_names}
    assert {name for name in top_level if not name.endswith((".dist-info", ".data"))} == {"qdeck", "qdeck_console"}


def test_wheel_holds_every_source_and_data_file(wheel_names: set[str]) -> None:
    """Scripts, style sheets and type markers are read at run time: one left out breaks an installed copy only."""
    expected = {
        path.relative_to(root).as_posix()
        for root in SOURCE_ROOTS
        for path in root.rglob("*")
        if path.relative_to(root).parts[0] in PACKAGES
        and (path.suffix in {".py", ".lua", ".tcss", ".toml"} or path.name == "py.typed")
    }
    assert {"qdeck/py.typed", "qdeck_console/py.typed"} <= expected
    assert expected <= wheel_names


def test_wheel_holds_the_manual_pages(wheel_names: set[str]) -> None:
    pages = {name.rpartition("/share/man/man1/")[2] for name in wheel_names if "/share/man/man1/" in name}
    assert {"qdeck.1", "qdeck-dead.1", "qdeck-worker.1"} <= pages


def test_the_description_on_an_index_has_no_link_that_leads_nowhere(wheel: Path, wheel_names: set[str]) -> None:
    (metadata,) = (name for name in wheel_names if name.endswith(".dist-info/METADATA"))
    with zipfile.ZipFile(wheel) as opened:
        text = opened.read(metadata).decode()
    assert "Description-Content-Type: text/markdown" in text
    assert "# qdeck" in text
    assert "RQ (`core/docs/systems/rq.md`)" in text
    assert re.findall(r"!?\[[^\]]*\]\((?!https://)[^)]*\)|<!--", text) == []


def test_source_distribution_can_build_and_test_itself(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    assert {"pyproject.toml", "Makefile", "README.md", "LICENSE", "CHANGELOG.md", "hatch_build.py", ".ci/run"} <= names
    assert {"tests/conftest.py", "tests/support/servers.py"} <= names
    assert {"core/qdeck/__init__.py", "console/qdeck_console/__init__.py"} <= names


@pytest.mark.parametrize("root", ["core", "console", "tests"])
def test_source_roots_are_no_packages(root: str) -> None:
    """`import core` must never find ours: many applications have a package of that name."""
    assert not (ROOT / root / "__init__.py").exists()
