"""Which configuration files of directories are trusted: their path and the digest of what was in them.

A file that comes with a directory, such as a cloned repository, may come from any author. It could send the
variables of this user to a server of its choice, so its settings have no effect until this user trusts it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from qdeck._errors import NotAllowed
from qdeck._private_files import draft_beside, state_dir

if TYPE_CHECKING:
    from pathlib import Path


class TrustState(Enum):
    """Whether a file is trusted; the value says why not."""

    TRUSTED = "it is trusted"
    CHANGED = "it changed since it was trusted"
    UNKNOWN = "it is not trusted"


def state_of(file: Path, data: bytes) -> TrustState:
    """Return whether a file with this content is trusted; it is not where the store cannot be read."""
    try:
        digest = _read().get(str(path_of(file)))
    except OSError:
        return TrustState.UNKNOWN
    if digest is None:
        return TrustState.UNKNOWN
    return TrustState.TRUSTED if digest == _digest(data) else TrustState.CHANGED


def add(file: Path, data: bytes) -> None:
    """Trust a file with this content."""
    _write(_read() | {str(path_of(file)): _digest(data)})


def remove(file: Path) -> None:
    """Trust a file no longer."""
    known = _read()
    known.pop(str(path_of(file)), None)
    _write(known)


def path_of(file: Path) -> Path:
    """Return the path under which a file is trusted.

    A link is trusted by its own path: otherwise a directory could choose among the trusted files of its reader.
    """
    return file.parent.resolve() / file.name


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _store() -> Path:
    return state_dir() / "trusted.json"


def _read() -> dict[str, str]:
    path = _store()
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise NotAllowed(f"{path} cannot be read: {error.strerror}", hint="Remove it.") from error
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if found.st_uid != os.getuid() or found.st_mode & 0o022 or not stat.S_ISREG(found.st_mode):
            raise NotAllowed(f"{path} can be written by others", hint="Remove it, then trust your files again.")
        try:
            return msgspec.json.decode(file.read(), type=dict[str, str])
        except msgspec.MsgspecError:
            return {}  # trusts nothing


def _write(known: dict[str, str]) -> None:
    path = _store()
    draft, file = draft_beside(path)
    try:
        with file:
            file.write(msgspec.json.format(msgspec.json.encode(known), indent=2) + b"\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
