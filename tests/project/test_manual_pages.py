"""The manual pages: one for each command, which the programs that read them take without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qdeck_console.cli.run import SECTIONS

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["qdeck", *(f"qdeck-{name}" for commands in SECTIONS.values() for name in commands)]
RENDERERS = {
    "man": ["man", "--warnings", "-l"],
    "mandoc": ["mandoc", "-W", "warning"],
    "groff": ["groff", "-ww", "-man", "-Tutf8"],
}
_OVERSTRUCK = re.compile(r".\x08|\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, "hatch_build.py", str(directory)], cwd=ROOT, check=True, timeout=60)
    return directory


def test_each_command_has_a_page(pages: Path) -> None:
    assert sorted(page.name for page in pages.iterdir()) == sorted(f"{name}.1" for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_read_without_a_warning_and_has_the_options(pages: Path, name: str) -> None:
    page = pages / f"{name}.1"
    renderer = next((command for program, command in RENDERERS.items() if shutil.which(program)), None)
    if renderer is None:
        requests = {line.split()[0] for line in page.read_text("utf-8").splitlines() if line.startswith(".")}
        assert requests <= {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".BR", ".nf", ".fi", ".nh", ".ad"}
        return
    done = subprocess.run([*renderer, str(page)], capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == ""
    text = _OVERSTRUCK.sub("", done.stdout)
    assert f"{name} - " in text
    for words in ("--url URL", "EXAMPLES", "69     the server cannot be reached"):
        assert words in text


def test_the_verbs_of_a_group_are_on_its_page(pages: Path) -> None:
    text = (pages / "qdeck-dead.1").read_text("utf-8")
    assert ".SS qdeck dead retry" in text
    assert "\\-\\-sample" in text


def test_they_are_made_with_click_alone(tmp_path: Path) -> None:
    """A build has nothing of qdeck's own dependencies."""
    code = f"""
import sys
from pathlib import Path
import hatch_build
list(hatch_build.write(Path({str(tmp_path)!r})))
print([name for name in ("redis", "msgspec", "croniter", "tomlkit", "textual", "rich") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
