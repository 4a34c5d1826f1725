"""Payloads as they are shown: decoded late, and with secrets masked, as masking.py has it."""

from __future__ import annotations

import base64
import re
from typing import Any, Final

import msgspec

from qdeck._deck.masking import MASK, is_secret, is_secret_field, is_secret_flag, mask_text, may_hold_secrets
from qdeck._engine import codec

__all__ = ("MASK", "decode", "is_secret", "mask", "mask_text", "may_hold_secrets", "read", "show_bytes", "text")
_DEEPEST: Final = 100
_NAMES: Final = frozenset(
    ("name", "Name", "key", "Key", "field", "header", "variable", "param", "parameter", "env", "k")
)
_VALUES: Final = frozenset(("value", "Value", "val", "content", "default", "data", "values", "v"))
_HEADER: Final = re.compile(
    r"(?:proxy-)?authorization|(?:set-)?cookie|x-[a-z-]{0,30}(?:token|key)|[\w.-]{0,40}password",
    re.IGNORECASE | re.ASCII,
)
_LOGINS: Final = ("--proxy-user", "--user", "-u", "-U")
_MYSQL: Final = frozenset(
    ("mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump")
)  # the next word is a database
_TOOLS: Final = {
    "curl": _LOGINS,
    "sshpass": ("-p",),
    "redis-cli": ("-a",),
    "valkey-cli": ("-a",),
    **dict.fromkeys(_MYSQL, ("-p",)),
}  # fmt: skip


def mask(value: Any, depth: int = 0) -> Any:
    """A JSON value with its secrets replaced."""
    if isinstance(value, str):
        return mask_text(value)
    if depth >= _DEEPEST:
        return "…"
    if isinstance(value, dict):
        found = {key: MASK if is_secret_field(key, item) else mask(item, depth + 1) for key, item in value.items()}
        return _mask_named(value, found)
    return _mask_list(value, depth + 1) if isinstance(value, list) else value


def _mask_named(value: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """A table that says the name of its value: `{"name": "password", "value": …}`."""
    if _NAMES.isdisjoint(value):
        return found
    for key in _NAMES.intersection(value):
        name = value[key]
        if isinstance(name, str) and is_secret(name):
            found.update((one, MASK) for one in _VALUES.intersection(value) if value[one] is not None)
    return found


def _mask_list(items: list[Any], depth: int) -> list[Any]:
    """A list, which may be a command line: `["--password", "…"]`."""
    found = [mask(item, depth) for item in items]
    for at, item in enumerate(items[:-1], 1):
        if isinstance(item, str) and isinstance(items[at], str) and is_secret_flag(item):
            found[at] = MASK
    if len(items) == 2 and type(items[0]) is str and type(items[1]) is str and _HEADER.fullmatch(items[0]):
        found[1] = MASK
    for word in items[:4]:
        if type(word) is str and word.rpartition("/")[2] in _TOOLS:
            _mask_command(word.rpartition("/")[2], items, found)
            break
    return found


def _mask_command(tool: str, items: list[Any], found: list[Any]) -> None:
    """The words of a program that takes a password without a name for it: `["curl", "-u", "user:…"]`."""
    for at, item in enumerate(items[1:], 1):
        if not isinstance(item, str):
            continue
        flag = next((flag for flag in _TOOLS[tool] if item.startswith(flag)), None)
        if flag is None:
            continue
        if item != flag:
            found[at] = flag + _secret_part(flag, item[len(flag) :])
        elif at + 1 < len(items) and isinstance(items[at + 1], str) and tool not in _MYSQL:
            found[at + 1] = _secret_part(flag, items[at + 1])


def _secret_part(flag: str, word: str) -> str:
    login, colon, _ = word.partition(":")
    return f"{login}:{MASK}" if colon and flag in _LOGINS else MASK if flag not in _LOGINS else word


def show_bytes(raw: bytes) -> Any:
    """Bytes that are no JSON: as text, or what is not text as `{"base64": …}`."""
    try:
        return mask_text(raw.decode())
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def decode(raw: bytes) -> Any:
    """A JSON value with its secrets masked, or the bytes as they can be shown."""
    try:
        return mask(codec.decode_json(raw))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return show_bytes(raw)


def read(body: bytes | None, *, is_handler: bool = False) -> Any:
    """A job's payload; that of a failure handler is the record of the job that failed."""
    if body is None:
        return None
    if not is_handler:
        return decode(body)
    try:
        job_id, head, tries, error, original = codec.read_netstrings(body)
        return {
            "id": job_id.decode("utf-8", "replace"),
            "task": codec.read_head(head).task,
            "attempts": codec.read_tries(tries).attempts,
            "history": [{"at_ms": e.at_ms, "kind": e.kind, **mask(e.data)} for e in codec.read_events(error)],
            "payload": decode(original),
        }
    except (ValueError, IndexError):
        return decode(body)


def text(value: Any) -> str:
    """A payload as text to look for words in."""
    if value is None:
        return ""
    return value if isinstance(value, str) else codec.encode_json(value).decode()
