"""What can be counted of the structure: `python tests/project/measures.py` prints it beside the first record and the
last one; with `--record` it becomes the last one.

Lower is better for each figure. What is counted is the code of the working tree, and the titles of the commits since
the first record (or since `--since COMMIT`).
"""

from __future__ import annotations

import argparse
import ast
import collections
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).parents[2]
RECORD: Final = Path(__file__).parent / "measures.json"
PACKAGES: Final = {"core": ("core", "qdeck"), "console": ("console", "qdeck_console")}
ADAPTERS: Final = ("_adapters", "adapters")  # the package of the adapters, before and after it gets its public name
LEFT_OUT: Final = ("testing", "demo")
FOREIGN: Final = ("vmpooler", "ifdb", "scheduler", "lists", "streams", "rq", "celery", "bullmq", "sidekiq")
NAMES: Final = frozenset({"native", *FOREIGN})
TITLE: Final = 72

Trees = dict[str, ast.Module]


class Worse(UserWarning):
    """A measure is worse than the recorded one."""


def trees(folder: Path, package: str) -> Trees:
    """The modules of a package, by their dotted names."""
    found = {}
    for path in sorted((folder / package).rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text("utf-8"))
    return found


def is_counted(module: str) -> bool:
    """Whether a module counts in lines and statements: not the adapters of further systems, `testing` and `demo`.

    An adapter is what has its system's name in the package of the adapters; what all of them share counts.
    """
    _, part, adapter, *_ = [*module.split("."), "", ""]
    return part not in LEFT_OUT and not (part in ADAPTERS and adapter.startswith(FOREIGN))


def statements(tree: ast.Module) -> int:
    """The statements without docstrings."""
    nodes = list(ast.walk(tree))
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docstrings = sum(isinstance(node, documented) and ast.get_docstring(node) is not None for node in nodes)
    return sum(isinstance(node, ast.stmt) for node in nodes) - docstrings


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each imported module with the name taken from it, wherever it is: for types only and in functions, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)


def imported(tree: ast.Module, modules: Iterable[str]) -> set[str]:
    """Those of some modules that a module imports."""
    named = {f"{module}.{name}" if f"{module}.{name}" in modules else module for module, name in imports(tree)}
    return named & set(modules)


def cycles(package: Trees) -> list[list[str]]:
    """Modules that import each other, directly or through others; the largest set first."""
    ahead = {name: imported(tree, package) - {name} for name, tree in package.items()}
    behind: dict[str, set[str]] = collections.defaultdict(set)
    for name, others in ahead.items():
        for other in others:
            behind[other].add(name)
    found, left = [], set(package)
    while left:
        start = min(left)
        ring = _reached(start, ahead, left) & _reached(start, behind, left)
        left -= ring
        if len(ring) > 1:
            found.append(sorted(ring))
    return sorted(found, key=lambda ring: (-len(ring), ring))


def _reached(start: str, ways: Mapping[str, set[str]], among: set[str]) -> set[str]:
    seen, next_ones = {start}, [start]
    while next_ones:
        more = (ways.get(next_ones.pop(), set()) & among) - seen
        seen |= more
        next_ones += more
    return seen


def is_private(module: str, name: str = "") -> bool:
    """Whether this is a private module of the core, or taken from one."""
    parts = module.split(".")
    return parts[0] == "qdeck" and any(part.startswith("_") and part != "__version__" for part in [*parts[1:], name])


def private_modules(package: Trees, core: Trees) -> tuple[int, int]:
    """How many private modules of the core a package imports, and in how many files."""
    private = {name for name in core if is_private(name)}
    by_file = [imported(tree, private) for tree in package.values()]
    return len(set().union(*by_file)), sum(map(bool, by_file))


def adapter_comparisons(package: Trees) -> int:
    """Comparisons with the name of an adapter, as text or as a constant, outside the adapters themselves."""
    outside = (tree for name, tree in package.items() if name.split(".")[1:2] not in [[part] for part in ADAPTERS])
    nodes = (node for tree in outside for node in ast.walk(tree))
    return sum(
        any(_is_adapter(part) for side in (node.left, *node.comparators) for part in _parts(side))
        if isinstance(node, ast.Compare)
        else isinstance(node, ast.MatchValue) and _is_adapter(node.value)
        for node in nodes
    )


def _parts(side: ast.expr) -> Iterable[ast.expr]:
    return side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]


def _is_adapter(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value in NAMES
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.isupper() and name.lower() in NAMES


def repeated_classes(packages: Iterable[Trees]) -> list[str]:
    """Names that several classes have."""
    nodes = (node for package in packages for tree in package.values() for node in ast.walk(tree))
    counts = collections.Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    return sorted(name for name, count in counts.items() if count > 1)


def super_chain(package: Trees) -> list[str]:
    """The longest chain of classes whose methods of one name each ask `super()` for the same."""
    classes = {
        node.name: node for tree in package.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }

    def ancestors(name: str) -> Iterator[str]:
        for base in classes[name].bases:
            above = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(above, ast.Name) and above.id in classes and above.id != name:
                yield above.id
                yield from ancestors(above.id)

    def chain(name: str, method: str) -> list[str]:
        asks = method in _asking_super(classes[name])
        above = (up for up in ancestors(name) if asks and method in _methods(classes[up]))
        return [name, *next((chain(up, method) for up in above), [])]

    found = [
        [*chain(name, method), method]
        for name, node in classes.items()
        for method in _asking_super(node)
        if not method.startswith("__")
    ]
    return max(found, key=len, default=[])


def _methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    return {part.name: part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)}


def _asking_super(node: ast.ClassDef) -> set[str]:
    return {
        name
        for name, method in _methods(node).items()
        for part in ast.walk(method)
        if isinstance(part, ast.Attribute)
        and part.attr == name
        and isinstance(part.value, ast.Call)
        and isinstance(part.value.func, ast.Name)
        and part.value.func.id == "super"
    }


def private_imports(tests: Path) -> tuple[int, int]:
    """Imports of private modules of the core in tests, and in how many files.

    `tests/core/_engine` may import `qdeck._engine`, `tests/core/messages` what is private in `qdeck.messages`, and
    `tests/core/test_queue_names.py` `qdeck._queue_names`.
    """
    counts = []
    for path in sorted(tests.rglob("*.py")):
        folder, own, *_ = [*path.relative_to(tests).with_suffix("").parts, ""]
        own = own.replace("test_", "_", 1) if folder == "core" else ""
        named = imports(ast.parse(path.read_text("utf-8")))
        private = (found for found in named if is_private(*found))
        modules = {f"{module}.{name}" if module == "qdeck" else module for module, name in private}
        counts.append(sum(module.split(".")[1] != own for module in modules))
    return sum(counts), sum(map(bool, counts))


def long_titles(since: str) -> int | None:
    """Commits after another one whose title is too long; None where the history is not there."""
    command = ["git", "log", "--format=%s", f"{since}..HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return None if done.returncode else sum(len(title) > TITLE for title in done.stdout.splitlines())


def measure(since: str) -> tuple[dict[str, int], dict[str, str]]:
    """All figures, and of some of them what they count."""
    packages = {name: trees(ROOT / folder, package) for name, (folder, package) in PACKAGES.items()}
    found: dict[str, int] = {}
    told: dict[str, str] = {}
    for name, (folder, package) in PACKAGES.items():
        modules = {module: tree for module, tree in packages[name].items() if is_counted(module)}
        found[f"{name}, lines of Python"] = sum(_lines(ROOT / folder, module) for module in modules)
        found[f"{name}, statements"] = sum(map(statements, modules.values()))
        rings = cycles(packages[name])
        largest = rings[0] if rings else []
        found[f"{name}, modules in the largest import cycle"] = len(largest)
        told[f"{name}, modules in the largest import cycle"] = " ".join(
            module.removeprefix(f"{package}.") for module in largest
        )
        found[f"{name}, modules in import cycles"] = sum(map(len, rings))
        chain = super_chain(packages[name])
        found[f"{name}, longest chain of super()"] = max(0, len(chain) - 1)
        told[f"{name}, longest chain of super()"] = f"{chain[-1]}: {' → '.join(chain[:-1])}" if chain else ""
    private = private_modules(packages["console"], packages["core"])
    found["private core modules that the console imports"], found["files of the console that import one"] = private
    found["comparisons with the name of an adapter"] = sum(map(adapter_comparisons, packages.values()))
    repeated = repeated_classes(packages.values())
    found["names of several classes"] = len(repeated)
    told["names of several classes"] = " ".join(repeated)
    found["private imports in tests"], found["files of tests with one"] = private_imports(ROOT / "tests")
    if (titles := long_titles(since)) is not None:
        found[f"commit titles over {TITLE} characters"] = titles
    return found, told


def _lines(folder: Path, module: str) -> int:
    path = folder / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return len(file.read_text("utf-8").splitlines())


def record() -> dict[str, Any]:
    """The figures of the first and of the last record, and the commit of the first."""
    found: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
    return found


def worse(now: Mapping[str, int], last: Mapping[str, int]) -> list[str]:
    """What got higher since the last record."""
    return [f"{name}: {last[name]:,} → {count:,}" for name, count in now.items() if count > last.get(name, count)]


def table(before: Mapping[str, int], last: Mapping[str, int], now: Mapping[str, int]) -> str:
    """The figures side by side."""
    rows: list[tuple[str, ...]] = [("", "before", "recorded", "now")]
    for name, count in now.items():
        rows.append((name, *(f"{known[name]:,}" if name in known else "-" for known in (before, last)), f"{count:,}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="Counts what can be counted of the structure.")
    parser.add_argument("--record", action="store_true", help="keep these figures as the last record")
    parser.add_argument("--since", help="count titles of commits after this one (default: that of the first record)")
    given = parser.parse_args(arguments)
    kept = record()
    now, told = measure(given.since or kept["commit"])
    print(table(kept["before"], kept["recorded"], now))  # noqa: T201 - the table is what it is for
    for name, what in told.items():
        print(f"\n{name}: {what}")  # noqa: T201 - the same
    if given.record:
        RECORD.write_text(json.dumps({**kept, "recorded": now}, indent=2) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
