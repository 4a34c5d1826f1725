"""A file for this user alone, which takes nothing's place and gets its name only when it is whole."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO


class Dropped(Exception):
    """Raised in the block of `new_file`: what was written is not wanted any more."""


def check_new_file(name: str) -> str:
    """Why a file cannot be made there; nothing that is there already is ever written over."""
    if not name.strip():
        return "name a file"
    path = _path(name)
    if os.path.lexists(path):
        return "is there already"
    return "" if path.parent.is_dir() else f"there is no folder {path.parent}"


@contextlib.contextmanager
def new_file(name: str) -> Iterator[tuple[Path, BinaryIO]]:
    """The path and the file to write to. It is beside its place under another name until the block ends; when that
    raises nothing is left of it: a part would look like all.
    """
    path = _path(name)
    if os.path.lexists(path):
        raise _taken(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    handle, beside = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield path, file
        _give_name(Path(beside), path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)  # noqa: PTH108 - a name as the system gave it


def _path(name: str) -> Path:
    return Path(name.strip()).expanduser()


def _give_name(beside: Path, path: Path) -> None:
    try:
        path.hardlink_to(beside)  # which, unlike a rename, takes nothing's place
    except FileExistsError:
        raise _taken(path) from None
    except OSError:  # a file system without links
        if os.path.lexists(path):
            raise _taken(path) from None
        beside.rename(path)


def _taken(path: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "is there already: nothing was written", str(path))
