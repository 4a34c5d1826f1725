"""Imports the modules of an application; an import that fails is reported with file, line and traceback."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
import traceback
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from qdeck._errors import UsageError

if TYPE_CHECKING:
    from types import ModuleType


class ImportFailed(UsageError):
    """A module of the application failed to import. `trace` is the traceback, from the application's code on."""

    def __init__(self, message: str, *, hint: str, trace: str) -> None:
        super().__init__(message, hint=hint)
        self.trace = trace


def import_module(name: str) -> ModuleType:
    """Import a module by name; modules of the working directory can be named, as with `python -m`."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(
                f"there is no module {name!r}",
                hint=f"Add its directory to sys.path: {here} and sys.path were searched.",
            ) from error
        raise _failed(name, error) from error
    except Exception as error:
        raise _failed(name, error) from error


def _failed(name: str, error: Exception) -> ImportFailed:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "importlib" not in frame.filename and frame.filename != __file__]
    place = f"{own[-1].filename}:{own[-1].lineno}" if own else ""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}"
    lines = [*traceback.format_list(own), *traceback.format_exception_only(error)]
    return ImportFailed(
        f"module {name!r} failed to import: {type(error).__name__}: {error} ({place})",
        hint="Fix the line, or install what it needs.",
        trace="Traceback (most recent call last):\n" + "".join(lines),
    )


def find_modules(pattern: str) -> list[str]:
    """Return the modules that a pattern names: `a.b`, or with `*` for part of a name, `a.*` or `a.*.tasks`."""
    found = [""]
    for part in pattern.split("."):
        if not part:
            raise UsageError(f"module pattern {pattern!r}", hint="Write names with dots, such as shop.tasks or shop.*")
        if not found[0] and "*" in part:
            raise UsageError(f"module pattern {pattern!r} begins with *", hint="Begin with the name of a package.")
        found = [name for parent in found for name in _below(parent, part, "*" in pattern)]
    if not found:
        raise UsageError(f"no module matches {pattern!r}", hint="Name a module or a package that exists.")
    return found


def _below(parent: str, part: str, many: bool) -> list[str]:
    full = f"{parent}.{part}" if parent else part
    if "*" not in part:
        # Below a `*` not every package has a module of that name; a name that was written out is imported as it is.
        is_there = not parent or not many or part in _children(parent)
        return [full] if is_there else []
    return [f"{parent}.{name}" for name in _children(parent) if fnmatchcase(name, part)]


def _children(package: str) -> list[str]:
    path = getattr(import_module(package), "__path__", None)
    return [] if path is None else sorted(one.name for one in pkgutil.iter_modules(path) if one.name != "__main__")
