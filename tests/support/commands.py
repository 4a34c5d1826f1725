"""A command run in this process, as a script would see it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from qdeck._settings import trusted_files
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


class Ran(NamedTuple):
    """The result of a command: its exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.out)


def runner(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Return a function that runs `qdeck` with given arguments."""

    def run(*args: str) -> Ran:
        code = main(args)
        shown = capsys.readouterr()
        return Ran(code, shown.out, shown.err)

    return run


def write_trusted(file: Path, text: str) -> None:
    """Write a configuration and trust it, so that it is read in its directory."""
    file.write_text(text, "utf-8")
    trusted_files.add(file, file.read_bytes())
