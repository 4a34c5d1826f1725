"""The tests of the scripts are tested: small changes of all scripts, of which they must notice nearly all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from core._engine.mutants import find_mutants

TOOL = Path(__file__).with_name("mutate.py")
LEAST = 0.98

SOURCE = """#!lua
-- uses: time
--- piece
local n = 1 -- and not this
if not a and b == 'x == y' then
  return n + 2 > 3
end
"""


def test_operators() -> None:
    found = {(one.operator, one.at, one.line): one for one in find_mutants("x", SOURCE)}
    assert Counter(operator for operator, _, _ in found) == {
        "without the line": 3, "other number": 3, "without not": 1, "other connective": 1, "other comparison": 2,
        "always": 1, "never": 1, "other sign": 1,
    }  # fmt: skip
    changed = {
        operator: one.text.split("\n")[one.number - 1]
        for (operator, at, line), one in found.items()
        if line.startswith("if") and at == 1
    }
    assert changed == {
        "without the line": "  return n + 2 > 3",
        "other comparison": "if not a and b ~= 'x == y' then",
        "other connective": "if not a or b == 'x == y' then",
        "without not": "if a and b == 'x == y' then",
        "always": "if true then",
        "never": "if false then",
    }
    assert all(one.piece == "piece" for one in found.values())


def test_names_of_mutants_are_their_own() -> None:
    from core._engine import mutate

    names = [one.name for one in mutate.all_mutants()]
    assert len(set(names)) == len(names) > 1_000
    assert [one.name for one in mutate.sample(50, 7)] == [one.name for one in mutate.sample(50, 7)]


def test_survivors_are_explained_and_still_there() -> None:
    from core._engine import mutate

    known = mutate.known_survivors()
    assert known.keys() - {one.name for one in mutate.all_mutants()} == set(), "explained, and not there any more"
    assert all(known.values()), "each has a reason"


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_sample_of_mutants_is_noticed(tmp_path: Path) -> None:
    """In a process of its own, which forks. The whole sample takes a quarter of an hour, so CI takes its beginning."""
    path, count = tmp_path / "verdicts.json", int(os.environ.get("QDECK_MUTANTS", "20"))
    subprocess.run([sys.executable, str(TOOL), "--sample", str(count), "--json", str(path)], check=True, timeout=7000)
    counts = Counter(one["verdict"] for one in json.loads(path.read_text("utf-8")))
    survived = [one["name"] for one in json.loads(path.read_text("utf-8")) if one["verdict"] == "survived"]
    assert counts.total() == count
    assert counts["killed"] >= LEAST * (counts["killed"] + counts["survived"]), survived
