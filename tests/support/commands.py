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
    """What a command left: its exit code and what it wrote to both streams."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its one document."""
        return json.loads(self.out)


def runner(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """A function that runs `qdeck` with these arguments."""

    def run(*args: str) -> Ran:
        code = main(args)
        shown = capsys.readouterr()
        return Ran(code, shown.out, shown.err)

    return run


def write_trusted(file: Path, text: str) -> None:
    """Writes a configuration that is read in its directory, because its user trusts it."""
    file.write_text(text, "utf-8")
    trusted_files.add(file, file.read_bytes())
