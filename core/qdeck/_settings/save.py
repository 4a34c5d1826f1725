"""Writes single settings into a `qdeck.toml`; all other text stays as it is."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qdeck._errors import InvalidOption
from qdeck._settings import trusted_files
from qdeck._settings.load import read_text, with_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._settings.configuration import Configuration

Value = int | float | bool | list[str]


def save(file: Path, changes: Mapping[tuple[str, str], Value]) -> Configuration:
    """Set these keys, given as table and key, in a file; return its new configuration.

    The text is checked before it replaces the old one, in one step: no program ever reads half of it.
    """
    try:
        before = file.read_bytes()
        text = before.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOption(f"{file} cannot be read: {error}") from error
    state = trusted_files.state_of(file, before)
    if state is trusted_files.TrustState.CHANGED:  # what is saved is read at once: servers of others would come with it
        raise InvalidOption(f"{file} changed since it was trusted", hint="Read it, then run: qdeck config trust")
    read_text(text, file)  # an error that was there before is reported as everywhere
    for (table, key), value in changes.items():
        text = with_setting(text, table, key, value)
    found = read_text(text, file)
    try:
        _replace(file, text)
    except OSError as error:
        raise InvalidOption(f"{file} cannot be written: {error.strerror or error}") from error
    if state is trusted_files.TrustState.TRUSTED:  # the change since then is this one
        trusted_files.add(file, text.encode("utf-8"))
    return with_own(found)


def with_setting(text: str, table: str, key: str, value: Value) -> str:
    """Return the text of a configuration with one setting changed, or added to its table."""
    import tomlkit

    document: Any = tomlkit.parse(text)
    document.setdefault(table, tomlkit.table())[key] = value
    return tomlkit.dumps(document)


def _replace(file: Path, text: str) -> None:
    target = file.resolve()  # a link stays one
    handle, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        Path(draft).chmod(target.stat().st_mode & 0o777)
        Path(draft).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(draft).unlink()
        raise
