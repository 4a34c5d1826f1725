"""Messages that the page on troubleshooting quotes are those of the programs."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "core" / "docs" / "how-to" / "troubleshooting.md"
# What stands for a value, between the words of a message.
_VALUE: Final = re.compile(r"…|[\w.]+\.toml|\d+%?|\b[A-Z]+\b")


@cache
def strings() -> str:
    """Return the texts of both packages, a line each; what an f-string fills in is a gap."""
    found = []
    for path in [*ROOT.glob("core/qdeck/**/*.py"), *ROOT.glob("console/qdeck_console/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.append(
                    "".join(str(one.value) if isinstance(one, ast.Constant) else " \0 " for one in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def quoted() -> list[str]:
    """Return the messages in the first columns of the page's tables, and before the colons of its lists."""
    text = PAGE.read_text("utf-8")
    cells = re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE) + re.findall(r"^- (`[^`]*`):", text, re.MULTILINE)
    return [message for cell in cells for message in re.findall(r"`([^`]* [^`]*)`", cell)]


@pytest.mark.parametrize("message", quoted())
def test_a_quoted_message_is_there(message: str) -> None:
    parts = [part.strip(" ?'") for part in _VALUE.split(message)]
    assert [part for part in parts if part and part not in strings()] == []


def test_messages_are_quoted() -> None:
    assert len(quoted()) > 12
