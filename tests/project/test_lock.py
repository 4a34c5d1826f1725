"""`requirements.lock` holds every dependency once for each system, with hashes, and names no place to get it from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")


def locked() -> dict[str, list[Requirement]]:
    found: dict[str, list[Requirement]] = {}
    for entry in re.split(r"^(?=\S)", LOCK, flags=re.MULTILINE):
        if entry.strip():
            made = Requirement(entry.partition(" \\\n")[0])
            assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), f"{made.name} has no hash"
            found.setdefault(canonicalize_name(made.name), []).append(made)
    return found


def test_every_dependency_is_locked_to_one_version() -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"]
    words = [
        *project["project"]["dependencies"],
        *project["dependency-groups"]["dev"],
        *(word for extra in extras.values() for word in extra),
    ]
    found = locked()
    for wanted in map(Requirement, words):
        if wanted.name == "qdeck":
            continue
        for made in found[canonicalize_name(wanted.name)]:
            [exact] = made.specifier
            assert exact.operator == "=="
            assert wanted.specifier.contains(exact.version), f"{made}: pyproject.toml asks for {wanted}; run make lock"


def test_it_names_no_registry() -> None:
    assert "://" not in LOCK
    assert "index" not in LOCK
    assert "file:" not in LOCK
