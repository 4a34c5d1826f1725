"""What a process pays for before it can look at a server."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from qdeck import __version__
from qdeck.admin import Writer
from qdeck_console.demo.others import seed_others

if TYPE_CHECKING:
    import redis

LATE = (
    "qdeck._filter.compiler",
    "qdeck._operations.new_jobs",
    "qdeck.adapters.changes",
    "qdeck.adapters.native.job",
    "qdeck.adapters.plans",
    "qdeck._model.masked_commands",
    "qdeck._model.masked_text",
    "qdeck._operations",
    "croniter",
    "zoneinfo",
)


def test_a_deck_that_looks_loads_only_what_looking_needs(url: str) -> None:
    seed_others(url, 1)
    code = f"""
import sys
from qdeck.admin import Reader
with Reader({url!r}, adapters=("native", "lists", "vmpooler", "ifdb", "scheduler")) as deck:
    deck.snapshot()
print([name for name in {LATE!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_server_lists_us_by_name(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        writer.snapshot()
        shown = {client.get("lib-name") for client in raw.client_list()}
    assert f"redis-py(qdeck_v{__version__})" in shown
