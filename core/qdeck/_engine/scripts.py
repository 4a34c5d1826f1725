"""Loads the Lua scripts: puts the shared pieces that a script names before it, and knows its keys and its digest."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Final

from qdeck._engine.keys import key, undo_key

NAMES: Final = (
    "init", "enqueue", "enqueue_linked", "turn", "beat", "reap", "settle", "trim", "configure", "act", "undo",
    "accept", "quarantine",
)  # fmt: skip
_CALL: Final = re.compile(r"redis\.p?call\('([A-Z]+)'")


@dataclass(frozen=True, slots=True)
class Script:
    """One script as the server gets it."""

    name: str
    source: bytes
    digest: bytes
    parts: tuple[str, ...]

    def keys(self, queue: str, batch: str = "") -> tuple[bytes, ...]:
        """The keys of this script for one queue, in its order; `batch` is whose undo it writes or reads."""
        return _keys(self.parts, queue, batch)


@lru_cache(maxsize=8192)
def _keys(parts: tuple[str, ...], queue: str, batch: str) -> tuple[bytes, ...]:
    return tuple(undo_key(queue, batch) if part == "undo" else key(queue, part) for part in parts)


def read_source(name: str) -> str:
    """The text of a file in `lua/`."""
    return resources.files("qdeck").joinpath("_engine", "lua", f"{name}.lua").read_text("utf-8")


def _pieces(common: str) -> dict[str, str]:
    parts = re.split(r"^--- (\w+)$\n", common, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def compose(text: str, common: str) -> tuple[str, tuple[str, ...]]:
    """The whole source of a script and the parts of a queue whose keys it takes."""
    shebang, _, body = text.partition("\n")
    keys = _words(body, "keys")
    names = ", ".join(part.upper() for part in keys)
    values = ", ".join(f"KEYS[{i + 1}]" for i in range(len(keys)))
    pieces = _pieces(common)
    wanted = set(_words(body, "uses"))
    shared = "".join(piece for name, piece in pieces.items() if name in wanted)
    whole = f"{shebang}\nlocal {names} = {values}\n{shared}{body}"
    return ask_rights(whole) if "rights" in wanted else whole, tuple(keys)


def ask_rights(source: str) -> str:
    """Make a script refuse before its first write what its user may not do: a script that is refused half way leaves
    a change without what undoes it. Its keys need no check: the server refuses those that are declared beforehand.

    It takes 0.4 µs for each command: operators' scripts ask, those of the hot path do not.
    """
    shebang, _, body = source.partition("\n")
    commands = ", ".join(f"'{name.lower()}'" for name in sorted(set(_CALL.findall(source))))
    check = (
        f"for _, name in ipairs({{ {commands} }}) do if not redis.acl_check_cmd(name, KEYS[1]) then "
        "return redis.error_reply('NOPERM this user has no permissions to run ' .. name .. ': nothing was done') "
        "end end"
    )
    return f"{shebang}\n{check}\n{body}"


def _words(body: str, label: str) -> list[str]:
    found = re.search(rf"^-- {label}:(.*)$", body, flags=re.MULTILINE)
    if found is None:
        raise ValueError(f"the script has no line `-- {label}:`")
    return found.group(1).split()


def make(name: str, text: str, common: str) -> Script:
    """Builds a script from its text; tests pass a changed one."""
    source, parts = compose(text, common)
    raw = source.encode()
    # The server names scripts by SHA-1; it guards nothing.
    return Script(name, raw, hashlib.sha1(raw, usedforsecurity=False).hexdigest().encode(), parts)


@cache
def load(name: str) -> Script:
    """The script of that name."""
    return make(name, read_source(name), read_source("common"))
