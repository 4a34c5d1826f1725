"""The output of reading commands about a healthy queue, to compare before and after another key broke."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from qdeck_console.__main__ import main
from support.breaking import HEALTHY

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    Said = tuple[int, Any, str]
    """Return the exit code, the output about the healthy queue, and all output."""

PASSING: Final = (
    "age_s",
    "stuck_s",
    "oldest_s",
    "oldest_age",
    "avg_age",
    "in_per_s",
    "out_per_s",
    "worker_alive",
    "answers",  # of a queue whose schedule may be what is broken
    "exact",
)


AGES: Final = re.compile(r"\b\d+[smhd](?: \d+[smhd])*\b")
"""The ages in a sentence: `lease expired 1s ago`."""


def look(url: str, words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> Said:
    """Run one command with --json."""
    capsys.readouterr()
    code = main([*words, "--json", "--url", url])
    out, told = capsys.readouterr()
    said = healthy(json.loads(out)) if out and words[0] != "activity" and code in (0, 1) else None
    return code, said, out + told


def is_no_crash(told: str) -> bool:
    """Return whether the output has no traceback of qdeck."""
    return "Error: " not in told.replace("TimeoutError: ", "") and "Traceback" not in told.replace("traceback", "")


def healthy(document: Any) -> Any:
    """Return the part of a document about the healthy queue, without ages, rates and sums over all queues."""
    if isinstance(document, list):
        return [healthy(one) for one in document if not isinstance(one, dict) or _is_healthy(one)]
    if isinstance(document, str):
        return AGES.sub("age", document)
    if not isinstance(document, dict):
        return document
    queues = document.get("queues")
    if isinstance(queues, list):
        return healthy(queues)
    if isinstance(queues, dict) and f"native/{HEALTHY}" in queues.get("ready", ()):
        return {state: healthy(rows[f"native/{HEALTHY}"]) for state, rows in queues.items()}
    return {name: healthy(value) for name, value in document.items() if name not in PASSING}


def _is_healthy(one: dict[str, Any]) -> bool:
    return bool(one.get("queue", one.get("name", HEALTHY)) == HEALTHY)
