"""The core is entered by its public doors, and the contract that says so names every private module."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "core" / "qdeck"
DOORS = ("qdeck", "qdeck.adapters", "qdeck.admin", "qdeck.messages", "qdeck.runtime", "qdeck.testing")


def private_modules() -> set[str]:
    """The topmost private modules and packages of the core."""
    found = set()
    for path in CORE.rglob("_*"):
        parts = path.relative_to(CORE.parent).with_suffix("").parts
        is_module = path.suffix == ".py" or (path / "__init__.py").exists()
        if is_module and not parts[-1].startswith("__") and not any(part.startswith("_") for part in parts[:-1]):
            found.add(".".join(parts))
    return found


def test_the_contract_names_every_private_module() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    assert settings["exclude_type_checking_imports"] is False
    [doors] = [one for one in settings["contracts"] if "public doors" in one["name"]]
    assert sorted(doors["forbidden_modules"]) == sorted(private_modules())


@pytest.mark.parametrize("name", DOORS)
def test_every_public_name_is_there(name: str) -> None:
    door = importlib.import_module(name)
    assert len(door.__all__) == len(set(door.__all__))
    assert [public for public in door.__all__ if getattr(door, public, None) is None] == []
    assert set(door.__all__) <= set(dir(door))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = door.no_such_name


def test_no_public_name_is_that_of_a_module_beside_it() -> None:
    """Whoever imports the module later would put it in place of the name. `cells` is the module."""
    modules = {path.stem for path in (CORE / "adapters").iterdir()}
    assert modules.intersection(importlib.import_module("qdeck.adapters").__all__) == {"cells"}
