"""The worked example of the layout author's page, as it stands there, in the conformance suite."""

from __future__ import annotations

import re
import types
from pathlib import Path
from typing import TYPE_CHECKING

from layouts.conformance import Conformance
from qdeck._layouts import make_all
from qdeck._layouts.base import Layout
from qdeck.admin import LAYOUTS

if TYPE_CHECKING:
    import redis

README = Path(__file__).parents[2] / "core" / "README.md"
MOST_LINES = 100


def example() -> str:
    """The first block of Python in the chapter."""
    chapter = README.read_text().partition("## Writing a layout")[2].partition("\n## ")[0]
    found = re.search(r"```python\n(.*?)```", chapter, re.DOTALL)
    assert found is not None
    return found[1]


def test_it_is_short() -> None:
    assert len(example().splitlines()) < MOST_LINES


class TestJobs(Conformance):
    """The example, plugged in as the page says."""

    layout = "jobs"

    def make(self) -> Layout:
        module = types.ModuleType("jobs_example")
        exec(compile(example(), str(README), "exec"), module.__dict__)  # noqa: S102 - it is our own page
        made = module.Jobs()
        assert isinstance(made, Layout)
        return made

    def populate(self, raw: redis.Redis) -> None:
        raw.zadd("jobs:due", {"one": 1_795_000_000_000, "two": 1_795_000_000_000, "old": 5})
        raw.zadd("jobs:due", {b"\xff\x00": 7})


def test_a_layout_is_a_module_that_is_found_by_itself() -> None:
    assert LAYOUTS == ("native", "lists", "vmpooler", "ifdb", "scheduler")
    for made in make_all():
        assert type(made).__module__ == f"qdeck._layouts.{made.name}"
