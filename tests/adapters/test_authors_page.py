"""The worked example of the adapter author's page, as it stands there, in the conformance suite."""

from __future__ import annotations

import re
import types
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.conformance import Conformance
from qdeck.adapters import make_all
from qdeck.adapters.adapter import Adapter
from qdeck.admin import ADAPTERS

if TYPE_CHECKING:
    import redis

README = Path(__file__).parents[2] / "core" / "README.md"
MOST_LINES = 100


def example() -> str:
    """The first block of Python in the chapter."""
    chapter = README.read_text().partition("## Writing an adapter")[2].partition("\n## ")[0]
    found = re.search(r"```python\n(.*?)```", chapter, re.DOTALL)
    assert found is not None
    return found[1]


def test_it_is_short() -> None:
    assert len(example().splitlines()) < MOST_LINES


class TestJobs(Conformance):
    """The example, plugged in as the page says."""

    adapter = "jobs"

    def make(self) -> Adapter:
        module = types.ModuleType("jobs_example")
        exec(compile(example(), str(README), "exec"), module.__dict__)  # noqa: S102 - it is our own page
        made = module.Jobs()
        assert isinstance(made, Adapter)
        return made

    def populate(self, raw: redis.Redis) -> None:
        raw.zadd("jobs:due", {"one": 1_795_000_000_000, "two": 1_795_000_000_000, "old": 5})
        raw.zadd("jobs:due", {b"\xff\x00": 7})


def test_an_adapter_is_a_package_that_is_found_by_itself() -> None:
    assert ADAPTERS == ("native", "lists", "vmpooler", "ifdb", "scheduler")
    for made in make_all():
        assert type(made).__module__ == f"qdeck.adapters.{made.name}.adapter"
