"""Scripts that are not the engine's: those of schedules, and of the facades. Called by digest, loaded when missing."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from qdeck._engine import programs, scripts

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
def plain_script(package: str, folder: str, name: str) -> Script:
    """A script, which asks for its rights first."""
    return scripts.plain(package, folder, name, asks_itself=True)


def on_queue(script: Script, queue: str, args: Sequence[Arg], more_keys: Sequence[bytes] = ()) -> Program[Any]:
    """Runs a script on a queue, which is made when it is not there yet."""
    keys = [*script.keys(queue), *more_keys]
    made = False
    while True:
        reply = yield from programs.evaluate(script, keys, args)
        if isinstance(reply, ResponseError):
            if str(reply).startswith("QDECK FRESH") and not made:
                made = True
                yield from programs.make_queue(queue)
                continue
            raise programs.explain(reply, queue)
        return reply


def plain(script: Script, keys: Sequence[bytes], args: Sequence[Arg]) -> Program[Any]:
    """Runs a script on keys of its own."""
    reply = yield from programs.evaluate(script, keys, args)
    if isinstance(reply, ResponseError):
        raise programs.explain(reply)
    return reply
