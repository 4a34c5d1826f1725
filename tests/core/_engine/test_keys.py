"""The page of the keys on the server lists every key, with its type."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from qdeck._engine import keys

PAGE: Final = Path(__file__).parents[3] / "core" / "docs" / "reference" / "keys.md"
TYPES: Final = {"sorted set": "zset", "hash": "hash", "list": "list", "stream": "stream", "string": "string"}
_ROW: Final = re.compile(r"^\| (`[^|]*`) \| ([\w ]*) \|", re.MULTILINE)


def listed(heading: str) -> dict[str, str]:
    """Return the keys of a section's table with the type of each."""
    part = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return {
        name: TYPES.get(kind, kind) for names, kind in _ROW.findall(part) for name in re.findall("`([^`]*)`", names)
    }


def test_every_part_of_a_queue_is_listed() -> None:
    made = {name if name != "undo" else "undo:<batch>": kind for name, kind in keys.PARTS.values()}
    samples = {"history:s<n>": "string", "history:m<n>": "string"}
    assert listed("Of one queue") == made | samples


def test_the_keys_of_the_server_are_listed() -> None:
    names = {keys.QUEUES, keys.WORKERS, keys.TASKS, keys.CONTROL, keys.ACTIVITY, keys.UNDO, f"{keys.MESSAGES}:*"}
    assert names <= set(listed("Of the server"))
