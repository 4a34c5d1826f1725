"""A process to be killed while it applies or undoes: `python -m core._operations.applier URL apply|undo NAME`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from qdeck.admin import Writer, load_plan

if TYPE_CHECKING:
    from qdeck.admin import Tally


def told(tally: Tally) -> None:
    if tally.done <= 200:
        sys.stdout.write("begun\n")
        sys.stdout.flush()


def main(url: str, what: str, name: str) -> None:
    """Does it, and says when it has begun."""
    with Writer(url) as writer:
        if what == "apply":
            result = writer.apply(load_plan(name), progress=told)
            print(result.applied, len(result.skipped), result.error)  # noqa: T201 - that is how it answers
        else:
            sys.stdout.write("begun\n")
            sys.stdout.flush()
            back = writer.undo(name)
            print(back.restored, len(back.skipped), back.error)  # noqa: T201 - that is how it answers


if __name__ == "__main__":
    main(*sys.argv[1:])
