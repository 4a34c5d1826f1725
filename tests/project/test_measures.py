"""The measures of the structure count what they say, and none of them has got worse unnoticed."""

from __future__ import annotations

import ast
import warnings
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from project import measures

if TYPE_CHECKING:
    from pathlib import Path


def tree(text: str) -> ast.Module:
    return ast.parse(dedent(text))


@pytest.mark.filterwarnings("default::project.measures.Worse")
def test_no_measure_is_worse() -> None:
    kept = measures.record()
    now, _ = measures.measure(kept["commit"])
    assert now.keys() <= kept["recorded"].keys() == kept["before"].keys()
    if worse := measures.worse(now, kept["recorded"]):
        told = "; ".join(worse)
        warnings.warn(f"worse than recorded (make measures RECORD=1 accepts it): {told}", measures.Worse, stacklevel=1)


def test_what_is_higher_is_worse() -> None:
    assert measures.worse({"one": 5, "two": 1, "new": 9}, {"one": 4, "two": 2}) == ["one: 4 → 5"]


def test_lines_are_those_of_the_package_itself() -> None:
    counted = [
        "qdeck",
        "qdeck.adapters.adapter",
        "qdeck.adapters.native",
        "qdeck.adapters.paging",
        "qdeck_console.app",
    ]
    others = ["qdeck.adapters.vmpooler.read", "qdeck.adapters.ifdb.read", "qdeck.testing", "qdeck_console.demo.run"]
    assert [name for name in (*counted, *others) if measures.is_counted(name)] == counted


def test_statements_are_counted_without_docstrings() -> None:
    assert measures.statements(tree('"""Says."""\nx = 1; y = 2\ndef f():\n    """Does."""\n    return x')) == 4


def test_a_cycle_counts_imports_for_types_and_inside_functions() -> None:
    package = {
        "p": tree(""),
        "p.a": tree("if TYPE_CHECKING:\n    from p.b import B"),
        "p.b": tree("def f():\n    from p import c"),
        "p.c": tree("import p.a"),
        "p.d": tree("import p.a"),
        "p.e": tree("from p import f"),
        "p.f": tree("from p.e import E"),
    }
    assert measures.cycles(package) == [["p.a", "p.b", "p.c"], ["p.e", "p.f"]]


@pytest.mark.parametrize(("folder", "package"), measures.PACKAGES.values())
def test_no_module_is_in_an_import_cycle(folder: str, package: str) -> None:
    assert measures.cycles(measures.trees(measures.ROOT / folder, package)) == []


def test_private_modules_that_are_imported() -> None:
    core = {
        name: tree("") for name in ("qdeck", "qdeck._model", "qdeck._model.values", "qdeck.admin", "qdeck._queue_names")
    }
    console = {
        "qdeck_console.a": tree("from qdeck._model import values\nfrom qdeck import _queue_names"),
        "qdeck_console.b": tree("if TYPE_CHECKING:\n    from qdeck._model.values import Row"),
        "qdeck_console.c": tree("from qdeck.admin import Reader\nfrom qdeck import __version__"),
    }
    assert measures.private_modules(console, core) == (2, 2)


def test_comparisons_with_the_name_of_an_adapter() -> None:
    asked = """
        a = row.adapter == "native"
        b = row.adapter in ("lists", "other")
        c = row.adapter != words.VMPOOLER
        d = row.name == "mail"
        e = NATIVE
        match row.adapter:
            case "ifdb": pass
            case "other": pass
    """
    outside, inside = {"qdeck._rules.health": tree(asked)}, {"qdeck.adapters.ifdb.adapter": tree(asked)}
    assert measures.adapter_comparisons(outside | inside) == 4


def test_class_names_that_are_repeated() -> None:
    assert measures.repeated_classes([{"a": tree("class A: pass\nclass B: pass")}, {"b": tree("class A: pass")}]) == [
        "A"
    ]


def test_the_longest_chain_of_super() -> None:
    package = {
        "a": tree("class A:\n    def f(self): return 1\n    def g(self): return 1"),
        "b": tree("class B(A):\n    def f(self): return super().f()\nclass C(B): pass"),
        "c": tree("class D(C):\n    def f(self): return super().f()\n    def g(self): return super().f()"),
    }
    assert measures.super_chain(package) == ["D", "B", "A", "f"]


def test_private_imports_in_tests(tmp_path: Path) -> None:
    for name, text in {
        "core/_engine/test_a.py": "from qdeck._engine import transitions\nfrom qdeck._model.deck import Deck",
        "console/test_b.py": "from qdeck import _queue_names\nimport qdeck._private_files",
        "core/test_queue_names.py": "from qdeck import _queue_names, __version__",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert measures.private_imports(tmp_path) == (3, 2)
