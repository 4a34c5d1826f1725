"""Files that qdeck writes: for this user alone, never through a link, and never over another file.

A new file gets its name only when it is complete, so that no program reads half a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from qdeck._errors import NotAllowed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO


def state_dir() -> Path:
    """Return the directory for plans, trust and the log of operations, which is for this user alone."""
    import platformdirs

    return private_folder(platformdirs.user_state_path("qdeck"))


def private_folder(path: Path) -> Path:
    """Return the directory, made where it is missing; raise where another user could have put files into it.

    One that others can only read is closed to them. One that others can write to is not: what is in it may be theirs.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode):
        raise NotAllowed(f"{path} is not a directory", hint="Remove it, or set XDG_STATE_HOME.")
    if found.st_uid != os.getuid():
        raise NotAllowed(
            f"{path} belongs to user {found.st_uid}, not to user {os.getuid()}",
            hint="Set XDG_STATE_HOME to a directory of your own.",
        )
    if mode & 0o022:
        raise NotAllowed(
            f"{path} can be written by others (mode {mode & 0o777:04o})",
            hint=f"Check that all files in it are yours, then run: chmod 700 {path}",
        )
    if mode & 0o077:
        path.chmod(0o700)
    return path


class Dropped(Exception):
    """Raised in the block of `new_file` to discard the file."""


def check_new_file(name: str) -> str:
    """Return why a file cannot be created there; an existing file is never overwritten."""
    if not name.strip():
        return "name a file"
    path = _path(name)
    if os.path.lexists(path):
        return "already exists"
    return "" if path.parent.is_dir() else f"the folder {path.parent} does not exist"


@contextlib.contextmanager
def new_file(name: str) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield the path and a file to write to, which gets its name when the block ends; when that raises, the file is
    removed, because a part would look like the whole.
    """
    path = _path(name)
    if os.path.lexists(path):
        raise _taken(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    beside, file = draft_beside(path)
    try:
        with file:
            yield path, file
        give_name(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def draft_beside(path: Path, *, buffering: int = -1) -> tuple[Path, BinaryIO]:
    """Make an empty file beside a path, under an unpredictable name, for this user alone."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".part", dir=path.parent)
    return Path(name), os.fdopen(handle, "wb", buffering=buffering)


def give_name(draft: Path, path: Path) -> None:
    """Give a whole draft its name; raises `FileExistsError` when something has that name."""
    try:
        path.hardlink_to(draft)  # which, unlike a rename, takes nothing's place
    except FileExistsError:
        raise _taken(path) from None
    except OSError:  # a file system without links
        if os.path.lexists(path):
            raise _taken(path) from None
        draft.rename(path)
    draft.unlink(missing_ok=True)


def _path(name: str) -> Path:
    return Path(name.strip()).expanduser()


def _taken(path: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "already exists: nothing was written", str(path))
