"""The scripts of a queue: each is preceded by the shared pieces that it names, and gets the keys that it declares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from qdeck._engine.keys import LAYOUT, key, undo_key
from qdeck._redis import scripts
from qdeck._redis.commands import Script
from qdeck._redis.scripts import ask_rights, commands_of, digest_of

NAMES: Final = (
    "init", "enqueue", "enqueue_linked", "poll", "heartbeat", "reap", "dependents", "trim", "configure", "apply",
    "undo", "accept", "quarantine",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueueScript(Script):
    """A script on the keys of one queue."""

    parts: tuple[str, ...] = ()

    def keys(self, queue: str, batch: str = "") -> tuple[bytes, ...]:
        """Return the keys of this script for one queue, in its order; `batch` is the batch whose undo it writes
        or reads."""
        return _keys(self.parts, queue, batch)


@lru_cache(maxsize=8192)
def _keys(parts: tuple[str, ...], queue: str, batch: str) -> tuple[bytes, ...]:
    return tuple(undo_key(queue, batch) if part == "undo" else key(queue, part) for part in parts)


def read_source(name: str) -> str:
    """Return the text of a script of the engine; a name with a slash is of another package, as in `compat/urge`."""
    return scripts.read_source(name if "/" in name else f"_engine/{name}")


def _pieces(common: str) -> dict[str, str]:
    parts = re.split(r"^--- (\w+)$\n", common, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def compose(text: str, common: str) -> tuple[str, tuple[str, ...]]:
    """Return the whole source of a script and the parts of a queue whose keys it takes."""
    shebang, _, body = text.partition("\n")
    keys = _words(body, "keys")
    names = ", ".join(part.upper() for part in keys)
    values = ", ".join(f"KEYS[{i + 1}]" for i in range(len(keys)))
    pieces = _pieces(common)
    wanted = set(_words(body, "uses"))
    shared = "".join(piece for name, piece in pieces.items() if name in wanted)
    layout = f"local LAYOUT = '{LAYOUT}'\n" if "LAYOUT" in shared + body else ""
    whole = f"{shebang}\nlocal {names} = {values}\n{layout}{shared}{body}"
    return ask_rights(whole) if "rights" in wanted else whole, tuple(keys)


def _words(body: str, label: str) -> list[str]:
    found = re.search(rf"^-- {label}:(.*)$", body, flags=re.MULTILINE)
    if found is None:
        raise ValueError(f"the script has no line `-- {label}:`")
    return found.group(1).split()


def make(name: str, text: str, common: str) -> QueueScript:
    """Build a script from its text; tests pass a changed one."""
    source, parts = compose(text, common)
    asks_itself = "rights" in _words(text, "uses")
    raw = source.encode()
    return QueueScript(name, raw, digest_of(raw), () if asks_itself else commands_of(source), parts)


@cache
def load(name: str) -> QueueScript:
    """Return a script of the engine, or of another package, as in `compat/urge`."""
    return make(name, read_source(name), read_source("common"))
