"""The comparison with recorded figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from characterisation import recorded

if TYPE_CHECKING:
    from pathlib import Path

WAS = {"status": {"commands": 100, "others": ["click"]}}


@pytest.fixture(autouse=True)
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "FOLDER", tmp_path / "golden")
    monkeypatch.setenv("QDECK_GOLDEN", "write")
    recorded.check("costs.json", "commands", WAS)
    monkeypatch.delenv("QDECK_GOLDEN")


def status(commands: float, others: list[str]) -> dict[str, dict[str, Any]]:
    return {"status": {"commands": commands, "others": others}}


def test_what_stays_is_fine() -> None:
    recorded.check("costs.json", "commands", WAS)
    recorded.check("costs.json", "commands", status(104, ["click"]), above=0.05)


@pytest.mark.parametrize("seen", [status(101, ["click"]), status(100, []), {}, {"status": {"commands": 100}}])
def test_what_is_higher_or_else_fails(seen: dict[str, dict[str, Any]]) -> None:
    with pytest.raises(AssertionError):
        recorded.check("costs.json", "commands", seen)


def test_a_lower_number_is_told() -> None:
    with pytest.warns(recorded.Lower, match="status: commands 100 → 90"):
        recorded.check("costs.json", "commands", status(90, ["click"]))
