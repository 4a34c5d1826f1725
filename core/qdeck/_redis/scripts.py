"""Lua scripts: files with a header that names their keys; how they are found, sent to the server and run."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from qdeck._redis.commands import Request, Script
from qdeck._redis.errors import UnknownScript, not_allowed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Arg, Command, Program

# The commands whose next word is a part of their name: a right is given for `memory|usage`.
_CALL: Final = re.compile(r"redis\.p?call\('((?:(?:MEMORY|OBJECT|XGROUP|XINFO)', ')?[A-Z]+)'")


def read_source(name: str) -> str:
    """Return the text of a script, named by its package and file, as in `compat/urge`."""
    folder, _, file = name.rpartition("/")
    return resources.files("qdeck").joinpath(folder, "lua", f"{file}.lua").read_text("utf-8")


def commands_of(source: str) -> tuple[str, ...]:
    """Return the commands that a script calls, as rules of users name them."""
    return tuple(sorted({name.lower().replace("', '", "|") for name in _CALL.findall(source)}))


def ask_rights(source: str) -> str:
    """Make a script refuse before its first write what its user may not do: a script that is refused half way leaves
    a change without its undo data. Its keys need no check: the server refuses those that are declared beforehand.

    It takes 0.4 µs for each command: operators' scripts check in each call, the rights of the others are checked
    once for each connection of a client (`_redis/rights.py`).
    """
    shebang, _, body = source.partition("\n")
    commands = ", ".join(f"'{name}'" for name in commands_of(source))
    check = (
        f"for _, name in ipairs({{ {commands} }}) do if not redis.acl_check_cmd(name, KEYS[1]) then "
        "return redis.error_reply('NOPERM this user has no permissions to run ' .. name .. ': nothing was changed') "
        "end end"
    )
    return f"{shebang}\n{check}\n{body}"


@cache
def plain(name: str, *, asks_itself: bool = False) -> Script:
    """Return a script with keys of its own, without the pieces that queue scripts share."""
    source = read_source(name)
    raw = (ask_rights(source) if asks_itself else source).encode()
    return Script(name, raw, digest_of(raw), () if asks_itself else commands_of(source))


@cache
def together(first: Script, second: Script) -> Script:
    """Return a stand-in for two scripts of one request, so that a client checks the rights for both."""
    commands = tuple(sorted({*first.commands, *second.commands}))
    return Script(f"{first.name} {second.name}", b"", first.digest + second.digest, commands)


def digest_of(source: bytes) -> bytes:
    """Return the SHA-1 by which the server names a script; it protects nothing."""
    return hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()


def load(script: Script, key: bytes) -> Request:
    """Build the request that sends the server a script; a failover or a restart empties its cache."""
    return Request(((b"SCRIPT", b"LOAD", script.source),), key)


def run(script: Script, keys: Sequence[bytes], args: Sequence[Arg]) -> Program[Any]:
    """Run a script and return its reply; send the server its source if needed."""
    try:
        [reply] = yield Request((script.call(keys, args),), keys[0], script=script)
    except UnknownScript:
        [reply] = yield Request(((b"EVAL", script.source, len(keys), *keys, *args),), keys[0])
    return reply


def run_each(script: Script, calls: Sequence[Command], key: bytes = b"") -> Program[list[Any]]:
    """Run many calls of one script in one round trip and return their replies; gives the server its source if needed.

    Without a key the servers of a cluster do their parts at the same time.
    """
    replies: list[Any] = yield Request(calls, key, returns_errors=True)
    missing = [at for at, reply in enumerate(replies) if isinstance(reply, UnknownScript)]
    if missing:
        yield load(script, key)
        again = yield Request([calls[at] for at in missing], key, returns_errors=True)
        for at, reply in zip(missing, again, strict=True):
            replies[at] = reply
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


def check_rights(script: Script, key: bytes) -> Program[None]:
    """Raise `NotAllowed` unless this user may run every command of a script, before it is called for many keys."""
    denied = yield from run(plain("_redis/rights"), [key], script.commands)
    if denied:
        raise not_allowed([name.decode() for name in denied])
