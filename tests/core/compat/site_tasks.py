"""Tasks of a site such as IFDB, in a module of their own, as its workers import them."""

from __future__ import annotations

import threading
from os import system  # noqa: F401 - a name that no payload may reach
from typing import Any

CALLS: list[tuple[Any, ...]] = []
MENDED: set[int] = set()
HELD = threading.Event()


def CloneFile(url_id: int, **options: Any) -> None:  # noqa: N802 - the name that callers have
    """Remember the call."""
    CALLS.append(("CloneFile", url_id, options))


def RecodeGame(game_url_id: int) -> None:  # noqa: N802 - the same
    """Remember the call."""
    CALLS.append(("RecodeGame", game_url_id))


def ImportGames(append_urls: bool = False) -> None:  # noqa: N802 - the same
    """Remember the call."""
    CALLS.append(("ImportGames", append_urls))


def FetchFeeds() -> None:  # noqa: N802 - the same
    """Remember the call."""
    CALLS.append(("FetchFeeds",))


def Breaks(url_id: int) -> None:  # noqa: N802 - the same
    """Fail, until it is mended."""
    CALLS.append(("Breaks", url_id))
    print("about to break")  # noqa: T201 - a test looks for it in the log
    if url_id not in MENDED:
        raise ValueError(f"cannot clone {url_id}")


def MarkBroken(task: Any, context: dict[str, Any]) -> None:  # noqa: N802 - the same
    """What IFDB's own does: it reads the arguments of the call that failed."""
    CALLS.append(("MarkBroken", context["argv"][0], context, task.name, task.id, task.fail))


def BrokenHandler(task: Any, context: dict[str, Any]) -> None:  # noqa: N802 - the same
    """Fail as the task did."""
    CALLS.append(("BrokenHandler", task.name))
    raise KeyError("argv")


def Holds(url_id: int) -> None:  # noqa: N802 - the same
    """Run until it is let go."""
    CALLS.append(("Holds", url_id))
    HELD.wait(30)


async def Later(what: str) -> None:  # noqa: N802 - the same
    """An async task, which IFDB did not have."""
    CALLS.append(("Later", what))
