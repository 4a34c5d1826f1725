"""Scripts that are not the engine's: those of schedules, and of the facades. Called by digest, loaded when missing."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from redis.exceptions import NoScriptError, ResponseError

from qdeck._engine import ops, programs, scripts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._engine.ops import Arg, Program
    from qdeck._engine.scripts import Script


@cache
def queue_script(package: str, folder: str, name: str) -> Script:
    """A script on one queue, with the pieces that the engine's own scripts share."""
    text = resources.files(package).joinpath(folder, f"{name}.lua").read_text("utf-8")
    return scripts.make(name, text, scripts.read_source("common"))


@cache
def plain_script(package: str, folder: str, name: str) -> tuple[bytes, bytes]:
    """The source of a script, which asks for its rights first, and its digest."""
    source = scripts.ask_rights(resources.files(package).joinpath(folder, f"{name}.lua").read_text("utf-8")).encode()
    # The server names scripts by SHA-1; it guards nothing.
    return source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()


def on_queue(script: Script, queue: str, args: Sequence[Arg], more_keys: Sequence[bytes] = ()) -> Program[Any]:
    """Runs a script on a queue, which is made when it is not there yet."""
    keys = [*script.keys(queue), *more_keys]
    made = False
    while True:
        reply = yield from _evaluate(script.source, script.digest, keys, args)
        if isinstance(reply, ResponseError):
            if str(reply).startswith("QDECK FRESH") and not made:
                made = True
                yield from programs.make_queue(queue)
                continue
            raise programs.explain(reply, queue)
        return reply


def plain(script: tuple[bytes, bytes], keys: Sequence[bytes], args: Sequence[Arg]) -> Program[Any]:
    """Runs a script on keys of its own."""
    source, digest = script
    reply = yield from _evaluate(source, digest, keys, args)
    if isinstance(reply, ResponseError):
        raise programs.explain(reply)
    return reply


def _evaluate(source: bytes, digest: bytes, keys: Sequence[bytes], args: Sequence[Arg]) -> Program[Any]:
    [reply] = yield ops.commands((b"EVALSHA", digest, len(keys), *keys, *args), key=keys[0])
    if isinstance(reply, NoScriptError):
        [reply] = yield ops.commands((b"EVAL", source, len(keys), *keys, *args), key=keys[0])
    return reply
