"""Writes single settings into a `qdeck.toml`: the lines that set them change, every other one stays as it is."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from qdeck._errors import InvalidOption
from qdeck._settings import trust
from qdeck._settings.load import read_text, with_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._settings.configuration import Configuration

Value = int | float | bool | list[str]


def save(file: Path, changes: Mapping[tuple[str, str], Value]) -> Configuration:
    """Sets these keys, given as table and key, in a file; gives the configuration as it is then.

    The text is checked before it takes the place of the old one, in one step: nobody ever reads half of it.
    """
    try:
        before = file.read_bytes()
        text = before.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOption(f"{file} cannot be read: {error}") from error
    state = trust.state_of(file, before)
    if state is trust.State.CHANGED:  # what is saved is read at once: servers of others would come with it
        raise InvalidOption(f"{file} changed since it was trusted", hint="read it, then run: qdeck config trust")
    for (table, key), value in changes.items():
        text = with_setting(text, table, key, value)
    found = read_text(text, file)
    for (table, key), value in changes.items():
        now = msgspec.to_builtins(getattr(getattr(found.settings, table), key))
        if (list(now) if isinstance(now, list | tuple) else now) != value:
            hint = f"set {key} = {_written(value)} in [{table}] by hand"
            raise InvalidOption(f"{file}: {table}.{key} is written in a way that cannot be changed here", hint=hint)
    try:
        _replace(file, text)
    except OSError as error:
        raise InvalidOption(f"{file} cannot be written: {error.strerror or error}") from error
    if state is trust.State.TRUSTED:  # what changed since is our own doing
        trust.add(file, text.encode("utf-8"))
    return with_own(found)


def with_setting(text: str, table: str, key: str, value: Value) -> str:
    """The text of a configuration with one setting changed, or added to its table, which is added where it lacks."""
    lines = text.splitlines()
    header = re.compile(rf"\s*\[\s*{re.escape(table)}\s*\]\s*(#.*)?$")
    setting = re.compile(rf"(\s*{re.escape(key)}\s*=\s*)(.*?)(\s*(?:#[^\"'\]]*)?)$")
    begins = next((at for at, line in enumerate(lines) if header.match(line)), None)
    if begins is None:
        gap = [""] if lines and lines[-1].strip() else []
        return "\n".join([*lines, *gap, f"[{table}]", f"{key} = {_written(value)}"]) + "\n"
    ends = next((at for at in range(begins + 1, len(lines)) if lines[at].lstrip().startswith("[")), len(lines))
    for at in range(begins + 1, ends):
        found = setting.match(lines[at])
        if found:
            lines[at] = f"{found[1]}{_written(value)}{found[3]}"
            break
    else:
        while ends > begins + 1 and not lines[ends - 1].strip():
            ends -= 1
        lines.insert(ends, f"{key} = {_written(value)}")
    return "\n".join(lines) + "\n"


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(msgspec.json.encode(item).decode() for item in value)}]"
    return f"{value:g}" if isinstance(value, float) and value < 1e15 else str(value)


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
