"""Payloads as they are shown: decoded late, and with secrets masked, as masking.py has it."""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec

from qdeck._deck.masking import MASK, is_secret, is_secret_flag, mask_text, may_hold_secrets
from qdeck._engine import codec

__all__ = ("MASK", "decode", "is_secret", "mask", "mask_text", "may_hold_secrets", "read", "show_bytes", "text")
_DEEPEST: Final = 100


def mask(value: Any, depth: int = 0) -> Any:
    """A JSON value with its secrets replaced."""
    if isinstance(value, str):
        return mask_text(value)
    if depth >= _DEEPEST:
        return "…"
    if isinstance(value, dict):
        return {
            key: MASK if item is not None and is_secret(key) else mask(item, depth + 1) for key, item in value.items()
        }
    return _mask_list(value, depth + 1) if isinstance(value, list) else value


def _mask_list(items: list[Any], depth: int) -> list[Any]:
    """A list, which may be a command line: `["--password", "…"]`."""
    found = [mask(item, depth) for item in items]
    for at, item in enumerate(items[:-1], 1):
        if isinstance(item, str) and isinstance(items[at], str) and is_secret_flag(item):
            found[at] = MASK
    return found


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
