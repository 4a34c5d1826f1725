"""The error at the end of a traceback that Python wrote."""

from __future__ import annotations

import re
from typing import Final

_LONGEST_CLASS: Final = 200
_ERROR: Final = re.compile(r"([A-Za-z_][\w.]*)(?:: |$)")


def error_of(traceback: str) -> tuple[str | None, str]:
    """Return class and message of the error that ended it; without a traceback, the text as the message."""
    lines = traceback.strip().splitlines()
    frames = [at for at, line in enumerate(lines) if line.startswith('  File "')]
    start = frames[-1] + 1 if frames else 0
    while frames and start < len(lines) and lines[start].startswith("  "):
        start += 1
    text = "\n".join(lines[start:])
    found = _ERROR.match(text)
    if not frames or found is None or len(found[1]) > _LONGEST_CLASS:
        return None, text
    return found[1].rpartition(".")[2], text[found.end() :]
