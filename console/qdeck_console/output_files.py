"""Files that the console writes, which visitors of `qdeck serve` write in one folder only."""

from __future__ import annotations

import contextlib
import errno
import re
from typing import TYPE_CHECKING

from qdeck import admin
from qdeck_console.browser_mode import is_served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO


def check_new_file(name: str) -> str:
    """Why a file cannot be made there."""
    return _why_not(name) or admin.check_new_file(name)


@contextlib.contextmanager
def new_file(name: str) -> Iterator[tuple[Path, BinaryIO]]:
    """The path and the file to write to, as `qdeck.admin.new_file` gives them."""
    if why := _why_not(name):
        raise PermissionError(errno.EACCES, why, name)
    with admin.new_file(name) as made:
        yield made


def _why_not(name: str) -> str:
    """Why a visitor of `qdeck serve` may not write there: a file anywhere else could be one that a shell runs."""
    plain = re.fullmatch(r"[\w-][\w.-]*\.jsonl", name.strip())
    return "" if plain or not is_served() else "in a browser: NAME.jsonl only, in the folder of qdeck serve"
