"""Write the parts of the documentation that are made from code: `python tests/project/reference.py`, or `make docs`.

A page has such a part between `<!-- generated: NAME -->` and `<!-- end -->`; GENERATORS has a function for each name.
`--check` writes nothing and fails where a page is not current.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import itertools
import re
import sys
import textwrap
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script

from project.markdown import table
from project.reference_console import PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

ROOT: Final = Path(__file__).parents[2]
_PART: Final = re.compile(r"(<!-- generated: ([\w .]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_PUBLIC: Final = re.compile(r"[a-z]")


def pages() -> list[Path]:
    """Return the pages that have a generated part."""
    found = [*ROOT.glob("core/**/*.md"), *ROOT.glob("console/**/*.md")]
    return sorted(page for page in found if _PART.search(page.read_text("utf-8")))


def current(page: Path) -> str:
    """Return the text of a page with its generated parts made anew."""
    return _PART.sub(lambda part: f"{part[1]}\n{GENERATORS[part[2]]()}\n\n{part[3]}", page.read_text("utf-8"))


def first_sentence(thing: Any) -> str:
    """Return the first sentence of a docstring, for a cell of a table."""
    paragraph = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    return re.split(r"\.(?= [A-Z`])|\.$", paragraph)[0].replace("|", r"\|")


def signature(name: str, function: Callable[..., Any]) -> str:
    """Return a call with the names and defaults of its arguments."""
    found = inspect.signature(function)
    kept = [
        one.replace(annotation=inspect.Parameter.empty, default=_Shown.of(one.default))
        for one in found.parameters.values()
        if one.name != "self"
    ]
    text = str(found.replace(parameters=kept, return_annotation=inspect.Signature.empty))
    return f"`{name}{text}`".replace("|", r"\|")


class _Shown:
    """A default as a reader of the page sees it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    @classmethod
    def of(cls, default: Any) -> Any:
        """Return a default; one that is long, or that has no fixed text, as dots."""
        if isinstance(default, Enum):
            return cls(default.name)
        is_plain = default in ((), inspect.Parameter.empty) or isinstance(default, str | bytes | int | float | None)
        return default if is_plain else cls("…")


def methods(kind: type, *, besides: type = object) -> Iterator[tuple[str, str]]:
    """Yield the public methods and properties of a class in the order of its source, base classes first."""
    names = dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base) if _PUBLIC.match(name))
    for name in names:
        made = inspect.getattr_static(kind, name)
        if hasattr(besides, name) or isinstance(made, property | type) or not callable(getattr(kind, name)):
            continue
        yield signature(f".{name}", getattr(kind, name)), first_sentence(made)


def values(door: str, *, without: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the classes of a public package that are no errors, by name."""
    module = importlib.import_module(door)
    for name in sorted(set(module.__all__) - set(without)):
        thing = getattr(module, name)
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            yield f"`{name}`", first_sentence(thing)


def adapter_methods(*, needed: bool) -> str:
    """Return the methods that an adapter has to have, or those that it may override."""
    kind = importlib.import_module("qdeck.adapters").Adapter
    needs = kind.__abstractmethods__
    rows = [row for row in methods(kind) if (row[0][2:].partition("(")[0] in needs) is needed]
    return table(("method", "returns" if needed else "does"), rows)


def documented(kind: type, *, line: Callable[[str], str] = str) -> Iterator[tuple[str, str]]:
    """Yield the fields or members of a class, with the docstring below each."""
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    for one, below in itertools.pairwise([*tree.body, ast.Pass()]):
        name = one.target if isinstance(one, ast.AnnAssign) else one.targets[0] if isinstance(one, ast.Assign) else None
        if not isinstance(name, ast.Name) or name.id.startswith("_"):
            continue
        said = below.value if isinstance(below, ast.Expr) else None
        text = str(said.value) if isinstance(said, ast.Constant) else ""
        yield line(name.id), " ".join(text.split()).rstrip(".").replace("|", r"\|")


def adapter_settings() -> str:
    """Return what an adapter declares beside its methods."""
    kind = importlib.import_module("qdeck.adapters").Adapter
    return table(("attribute", "meaning"), documented(kind, line="`{}`".format))


def codes(*names: str) -> str:
    """Return the members of enumerations that adapters use."""
    module = importlib.import_module("qdeck.adapters")
    found = [(name, getattr(module, name)) for name in names]
    rows = [(f"`{name}`", first_sentence(kind), " ".join(f"`{one.name}`" for one in kind)) for name, kind in found]
    return table(("enumeration", "what it says", "members"), rows)


def fields(*names: str) -> str:
    """Return the fields of values that adapters make or receive."""
    module = importlib.import_module("qdeck.adapters")
    rows = []
    for name in names:
        kind = getattr(module, name)
        known = [f"`{one}`" for one in inspect.signature(kind).parameters]
        rows.append((f"`{name}`", first_sentence(kind), " ".join(known)))
    return table(("value", "what it is", "fields"), rows)


def helpers(door: str) -> str:
    """Return the functions of a public package or module, in their order."""
    module = importlib.import_module(door)
    own = [name for name, one in vars(module).items() if _PUBLIC.match(name) and getattr(one, "__module__", "") == door]
    found = [(name, getattr(module, name)) for name in getattr(module, "__all__", own)]
    rows = [(signature(name, one), first_sentence(one)) for name, one in found if inspect.isfunction(one)]
    return table(("function", "does"), rows)


def errors() -> str:
    """Return the errors of `qdeck`."""
    module = importlib.import_module("qdeck")
    found = [getattr(module, name) for name in module.__all__ if inspect.isclass(getattr(module, name))]
    rows = [
        (f"`{one.__name__}`", " ".join(f"`{base.__name__}`" for base in one.__bases__), first_sentence(one))
        for one in found
        if issubclass(one, Exception)
    ]
    return table(("error", "is also", "raised when"), rows)


def class_of(door: str, name: str, besides: str = "") -> str:
    """Return the methods of a public class, without those of another."""
    module = importlib.import_module(door)
    rows = methods(getattr(module, name), besides=getattr(module, besides) if besides else object)
    return table(("method", "does"), rows)


GENERATORS: Final[Mapping[str, Callable[[], str]]] = {
    "methods of App": lambda: class_of("qdeck", "App"),
    "methods of Task": lambda: class_of("qdeck", "Task"),
    "methods of Job": lambda: class_of("qdeck", "Job"),
    "functions of qdeck": lambda: helpers("qdeck"),
    "errors of qdeck": errors,
    "values of qdeck": lambda: table(("value", "what it is"), values("qdeck", without=("App", "Task", "Job"))),
    "methods that an adapter needs": lambda: adapter_methods(needed=True),
    "methods that an adapter may override": lambda: adapter_methods(needed=False),
    "attributes of an adapter": adapter_settings,
    "functions of qdeck.adapters": lambda: helpers("qdeck.adapters"),
    "cells": lambda: helpers("qdeck.adapters.cells"),
    "values of adapters": lambda: fields(
        "Look",
        "QueueRow",
        "Measure",
        "Source",
        "Raw",
        "Entry",
        "Seen",
        "Stuck",
        "Unreadable",
        "Capability",
        "Context",
        "Change",
        "ScriptChange",
        "Caution",
        "Rule",
        "Retried",
        "StateHealth",
        "AdapterHealth",
    ),
    "codes of adapters": lambda: codes(
        "Verb",
        "State",
        "Kind",
        "Part",
        "Feature",
        "CapabilityCode",
        "SkipCode",
        "CautionCode",
        "StuckCode",
        "UnreadableCode",
        "Outcome",
    ),
    "methods of Reader": lambda: class_of("qdeck.admin", "Reader"),
    "methods of Writer": lambda: class_of("qdeck.admin", "Writer", "Reader"),
    "values of qdeck.admin": lambda: table(
        ("value", "what it is"),
        values("qdeck.admin", without=("Reader", "AsyncReader", "Writer", "AsyncWriter")),
    ),
    **PARTS,
}


def main() -> int:
    """Write the pages that are not current; with `--check` only name them."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a page is not current")
    check = options.parse_args().check
    old = [page for page in pages() if current(page) != page.read_text("utf-8")]
    for page in old:
        sys.stdout.write(f"{page.relative_to(ROOT)}\n")
        if not check:
            page.write_text(current(page), "utf-8")
    return int(check and bool(old))


if __name__ == "__main__":
    sys.exit(main())
