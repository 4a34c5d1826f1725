"""The worked example of the adapter author's page, as it stands there, in the conformance suite."""

from __future__ import annotations

import ast
import json
import re
import types
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qdeck import UsageError, adapters
from qdeck.adapters import Adapter, cells, make_all
from qdeck.admin import ADAPTERS, Writer, load_configuration
from qdeck.testing.adapters import Conformance, contents
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    import redis

PAGE = Path(__file__).parents[3] / "core" / "docs" / "how-to" / "write-an-adapter.md"
MOST_LINES = 100


def examples() -> list[str]:
    """Return the blocks of Python on the page."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def example() -> str:
    """Return the first of them."""
    return examples()[0]


def test_the_page_names_what_is_there() -> None:
    """Methods and kinds of cells in the first columns of its tables, and members of enumerations."""
    text = PAGE.read_text("utf-8")
    methods, made = (
        re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| ([^|]*) \|", part.partition("\n\n## ")[0], re.MULTILINE)))
        for part in (text.partition("| method | returns |")[2], text.partition("| function | the value ")[2])
    )
    assert [name for name in methods if not hasattr(Adapter, name)] == []
    assert [name for name in made if not hasattr(cells, name)] == []
    assert len(methods) > 9 < len(made)
    members = re.findall(r"\b(Verb|State|Kind|Part|Feature|CapabilityCode|UnreadableCode)\.([A-Z_]+)", text)
    assert [(kind, name) for kind, name in members if not hasattr(getattr(adapters, kind), name)] == []


def test_it_needs_public_names_only() -> None:
    text = "".join(examples()[:2])
    imports = {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    assert imports == {"qdeck.adapters"}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example in a distribution of its own."""
    (tmp_path / "jobs_example.py").write_text(example())
    told = tmp_path / "jobs_example-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: jobs-example\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[qdeck.adapters]\njobs = jobs_example:Jobs\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_an_adapter_of_another_distribution_is_used_where_it_is_named(url: str, raw: redis.Redis) -> None:
    raw.zadd("jobs:due", {"one": 1_795_000_000_000, "two": 1_795_000_000_000})
    before = contents(raw)
    with Writer(url) as writer:
        assert writer.snapshot().queues == ()
    with Writer(url, adapters=("native", "jobs")) as writer:
        assert [(str(row.ref), row.delayed) for row in writer.snapshot().queues] == [("jobs/jobs", 2)]
        result = writer.apply(writer.plan("discard", "jobs", ids=["one"]))
        assert (result.applied, raw.zrange("jobs:due", 0, -1)) == (1, [b"two"])
        assert writer.undo().restored == 1
    assert contents(raw) == before


@pytest.mark.usefixtures("installed")
def test_commands_and_configuration_take_it(
    url: str, raw: redis.Redis, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw.zadd("jobs:due", {"one": 1_795_000_000_000})
    assert main(["status", "--json", "--adapter", "jobs", "--url", url]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["queues"]] == ["jobs"]
    assert main(["status", "--adapter", "nothing", "--url", url]) == 64
    file = tmp_path / "qdeck.toml"
    for name, good in (("jobs", True), ("nothing", False)):
        file.write_text(f'[contexts.here]\nurl = "{url}"\nadapters = ["{name}"]\n')
        with nullcontext() if good else pytest.raises(UsageError, match="no adapter 'nothing'"):
            load_configuration(file)


def test_it_is_short() -> None:
    assert len(example().splitlines()) < MOST_LINES


def made(name: str) -> Adapter:
    """Return an adapter of the examples."""
    module = types.ModuleType("jobs_example")
    for block in examples()[:2]:
        exec(compile(block, str(PAGE), "exec"), module.__dict__)  # noqa: S102 - it is our own page
    adapter = getattr(module, name)()
    assert isinstance(adapter, Adapter)
    return adapter


class TestJobs(Conformance):
    """The example, plugged in as the page says."""

    adapter = "jobs"

    def make(self) -> Adapter:
        return made("Jobs")

    def populate(self, raw: redis.Redis) -> None:
        raw.zadd("jobs:due", {"one": 1_795_000_000_000, "two": 1_795_000_000_000, "old": 5})
        raw.zadd("jobs:due", {b"\xff\x00": 7})


class TestNamedJobs(Conformance):
    """The example of queues with any name."""

    adapter = "named_jobs"

    def make(self) -> Adapter:
        return made("NamedJobs")

    def populate(self, raw: redis.Redis) -> None:
        raw.zadd("jobs:mail:due", {"one": 1_795_000_000_000, "two": 1_795_000_000_000, "old": 5})
        raw.zadd("jobs:bills:due", {b"\xff\x00": 7})
        raw.zadd(b"jobs:\xfe:due", {"three": 8})
        raw.rpush("jobs:other:due", "no sorted set")


def test_an_adapter_is_a_package_that_is_found_by_itself() -> None:
    first = ("native", "lists", "vmpooler", "ifdb", "scheduler")
    assert (*first, "bullmq", "celery", "rq", "sidekiq", "streams") == ADAPTERS
    for made in make_all():
        assert type(made).__module__ == f"qdeck.adapters.{made.name}.adapter"
