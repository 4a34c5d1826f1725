"""Loads every Lua script of the core: puts the shared pieces that it names before it, and knows its keys and digest."""

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
    "accept", "quarantine", "rights",
)  # fmt: skip
# The commands whose next word is a part of their name: a right is given for `memory|usage`.
_CALL: Final = re.compile(r"redis\.p?call\('((?:(?:MEMORY|OBJECT|XGROUP|XINFO)', ')?[A-Z]+)'")


@dataclass(frozen=True, slots=True)
class Script:
    """One script as the server gets it."""

    name: str
    source: bytes
    digest: bytes
    parts: tuple[str, ...]
    commands: tuple[str, ...] = ()
    """What a client asks for before it calls the script the first time; none of a script that asks by itself."""

    def keys(self, queue: str, batch: str = "") -> tuple[bytes, ...]:
        """The keys of this script for one queue, in its order; `batch` is whose undo it writes or reads."""
        return _keys(self.parts, queue, batch)


@lru_cache(maxsize=8192)
def _keys(parts: tuple[str, ...], queue: str, batch: str) -> tuple[bytes, ...]:
    return tuple(undo_key(queue, batch) if part == "undo" else key(queue, part) for part in parts)


def read_source(name: str) -> str:
    """The text of a file in the engine's `lua/`; a name with a slash is of another folder, as in `compat/urge`."""
    folder, _, file = name.rpartition("/")
    return resources.files("qdeck").joinpath(folder or "_engine", "lua", f"{file}.lua").read_text("utf-8")


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


def commands_of(source: str) -> tuple[str, ...]:
    """Return the commands that a script calls, as rules of users name them."""
    return tuple(sorted({name.lower().replace("', '", "|") for name in _CALL.findall(source)}))


def ask_rights(source: str) -> str:
    """Make a script refuse before its first write what its user may not do: a script that is refused half way leaves
    a change without what undoes it. Its keys need no check: the server refuses those that are declared beforehand.

    It takes 0.4 µs for each command: operators' scripts ask in each call, the rights of the others are checked once for
    each connection of a client (`_redis/rights.py`).
    """
    shebang, _, body = source.partition("\n")
    commands = ", ".join(f"'{name}'" for name in commands_of(source))
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
    asks_itself = "rights" in _words(text, "uses")
    return _script(name, source, parts, () if asks_itself else commands_of(source))


@cache
def plain(name: str, *, asks_itself: bool = False) -> Script:
    """Return a script on keys of its own, without the pieces that scripts on a queue share."""
    source = read_source(name)
    return _script(name, ask_rights(source), ()) if asks_itself else _script(name, source, (), commands_of(source))


@cache
def together(first: Script, second: Script) -> Script:
    """Return what stands for two scripts that one request calls, so that a client checks the rights for both."""
    commands = tuple(sorted({*first.commands, *second.commands}))
    return Script(f"{first.name} {second.name}", b"", first.digest + second.digest, (), commands)


def _script(name: str, source: str, parts: tuple[str, ...], commands: tuple[str, ...] = ()) -> Script:
    raw = source.encode()
    # The server names scripts by SHA-1; it guards nothing.
    return Script(name, raw, hashlib.sha1(raw, usedforsecurity=False).hexdigest().encode(), parts, commands)


@cache
def load(name: str) -> Script:
    """Return a script on the keys of one queue."""
    return make(name, read_source(name), read_source("common"))
