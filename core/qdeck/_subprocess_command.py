"""Commands that run modules of qdeck in another process."""

from __future__ import annotations

import sys


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module.

    Without `-P` Python would look in the working directory first: a `json.py` of a cloned repository would run.
    """
    return [sys.executable, "-P", "-m", module, *arguments]
