"""A qdeck without one of its adapters: the package is removed, no other file is touched, and all else goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qdeck.admin import ADAPTERS, NATIVE

ROOT = Path(__file__).parents[3]
IMPORT_ALL = """
import importlib, pkgutil, qdeck, qdeck_console
from qdeck.adapters import NAMES
for package in (qdeck, qdeck_console):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print(qdeck.__file__, *NAMES)
"""
REST = (
    "tests/core/_operations",
    "tests/core/_agent/test_agent.py",
    "tests/core/adapters/test_sources.py",
    "tests/core/adapters/test_cells.py",
)


@pytest.fixture(params=[name for name in ADAPTERS if name != NATIVE])
def without(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """The name of an adapter, and an environment in which qdeck lacks it."""
    for folder in ("core", "console"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(tmp_path / "core" / "qdeck" / "adapters" / request.param)
    path = os.pathsep.join(str(tmp_path / folder) for folder in ("core", "console"))
    return request.param, {**os.environ, "PYTHONPATH": path}


def test_every_module_is_imported_without_it(without: tuple[str, dict[str, str]]) -> None:
    name, environment = without
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    file, *names = done.stdout.split()
    assert not file.startswith(str(ROOT))
    assert set(names) == set(ADAPTERS) - {NATIVE, name}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_other_tests_pass_without_it(without: tuple[str, dict[str, str]]) -> None:
    name, environment = without
    options = ("-q", "-x", "-n", "2", "-p", "no:cacheprovider", "-m", "not slow", "-k", f"not {name}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *REST],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
