"""The `qdeck` command. What is imported here is paid for by every call, so nothing is that can wait."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from qdeck_console import startup

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if arguments is None:
        startup.begin()
    try:
        from qdeck_console.cli.run import run

        return run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
