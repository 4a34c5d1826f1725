"""Payloads as they are shown: decoded late, and with secrets masked."""

from __future__ import annotations

import base64
import re
from typing import Any, Final

import msgspec

from qdeck._engine import codec
from qdeck._model.masking import mask_label, mask_text, may_hold_secrets
from qdeck._model.secret_names import MASK, is_secret, is_secret_field, is_secret_flag

__all__ = (
    "MASK",
    "decode",
    "is_secret",
    "mask",
    "mask_label",
    "mask_text",
    "may_hold_secrets",
    "read",
    "show_bytes",
    "shown_text",
    "text",
    "whole_text",
)
_DEEPEST: Final = 100
_LONGEST_NAME: Final = 100
# What holds the name of a value, and what the value, in lower case and without what separates words.
_NAMES: Final = frozenset((
    "name", "key", "field", "header", "variable", "param", "parameter", "env", "k", "id", "label", "property",
    "attribute", "type", "parameterkey", "parametername",
))  # fmt: skip
_VALUES: Final = frozenset(("value", "val", "content", "default", "data", "values", "v", "parametervalue"))
_BASE64: Final = re.compile(r"(?:ey[A-P]|W[wyz0-9])[A-Za-z0-9+/_-]{8,}={0,2}")  # of a table, or of a list
_HEADER: Final = re.compile(
    r"(?:proxy-)?authorization|(?:set-)?cookie|x-[a-z-]{0,30}(?:token|key)|[\w.-]{0,40}password",
    re.IGNORECASE | re.ASCII,
)


def whole_text(text: str) -> str:
    """Return a text with halves of characters, which JSON can contain, written as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def shown_text(value: Any) -> str | None:
    """Return a stored text for display, with secrets masked; None for an empty one and for other values."""
    return mask_text(whole_text(value)) if isinstance(value, str) and value else None


def mask(value: Any, depth: int = 0) -> Any:
    """Return a JSON value with its secrets masked."""
    if isinstance(value, str):
        return MASK if value[:1] in {"e", "W"} and _hides_secrets(value, depth) else mask_text(value)
    if depth >= _DEEPEST:
        return "…"
    if isinstance(value, dict):
        shown = {key: MASK if is_secret_field(key, item) else mask(item, depth + 1) for key, item in value.items()}
        _mask_named(value, shown)
        keys = shown_keys(value)
        return shown if keys is None else {keys[key]: item for key, item in shown.items()}
    return _mask_list(value, depth + 1) if isinstance(value, list) else value


def _hides_secrets(text: str, depth: int) -> bool:
    """Return whether a text is JSON as base64, as some systems write payloads, and has secrets."""
    if _BASE64.fullmatch(text) is None or depth >= _DEEPEST:
        return False
    try:
        value = codec.decode_json(
            base64.b64decode(text + "=" * (-len(text) % 4), b"-_" if "-" in text or "_" in text else None)
        )
        return bool(mask(value, depth + 1) != value)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False


# A name in two parts, such as VMPooler's `token:user` and `token:token`: what follows the colon is no value.
_FIELD: Final = re.compile(r"[a-z]{1,20}:(?:token|user|name|id)")


def shown_keys(value: dict[str, Any]) -> dict[str, str] | None:
    """Return how the keys of a table are shown where one has a secret; each stays a key of its own."""
    shown = {key: key if _FIELD.fullmatch(key) else mask_label(key) for key in value}
    if all(key is text for key, text in shown.items()):
        return None
    taken: set[str] = set()
    for key, text in shown.items():
        found, number = text, 1
        while found in taken or (found != key and found in value):
            number += 1
            found = f"{text} ({number})"
        taken.add(found)
        shown[key] = found
    return shown


def _mask_named(value: dict[str, Any], shown: dict[str, Any]) -> None:
    """Mask a table that names its value: `{"name": "password", "value": …}`."""
    # Most tables have none of these, and only a short text can be the name of something.
    names = [item for key, item in value.items() if type(item) is str and _bare(key) in _NAMES]
    if any(is_secret(name) for name in names if len(name) <= _LONGEST_NAME):
        for key, item in value.items():
            if item is not None and _bare(key) in _VALUES:
                shown[key] = MASK


def _bare(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


def _mask_list(items: list[Any], depth: int) -> list[Any]:
    """Mask a list, which may be a command line: `["--password", "…"]`."""
    found = [mask(item, depth) for item in items]
    for at, item in enumerate(items[:-1], 1):
        if isinstance(item, str) and isinstance(items[at], str) and is_secret_flag(item):
            found[at] = MASK
    if len(items) == 2 and type(items[0]) is str and type(items[1]) is str and _HEADER.fullmatch(items[0]):
        found[1] = MASK
    if len(items) > 1 and type(items[0]) is str:
        from qdeck._model.masked_commands import mask_words  # its patterns take long to make

        for at, word in mask_words(items).items():
            found[at] = word
    if items and all(type(item) is list and len(item) == 2 and type(item[0]) is str for item in items):
        # Pairs of names and values: how some write a table.
        found = [
            [one[0], MASK if is_secret_field(item[0], item[1]) else one[1]]
            for one, item in zip(found, items, strict=True)
        ]
    return found


def show_bytes(raw: bytes) -> Any:
    """Return bytes that are not JSON: as text, or other bytes as `{"base64": …}`."""
    try:
        return mask_text(raw.decode())
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def decode(raw: bytes) -> Any:
    """Return a JSON value with its secrets masked, or the bytes as they can be shown."""
    try:
        return mask(codec.decode_json(raw))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return show_bytes(raw)


def read(body: bytes | None, *, is_handler: bool = False) -> Any:
    """Return a job's payload; that of a failure handler is the record of the failed job."""
    if body is None:
        return None
    if not is_handler:
        return decode(body)
    try:
        job_id, head, attempts, error, original = codec.read_netstrings(body)
        return {
            "id": job_id.decode("utf-8", "replace"),
            "task": codec.read_head(head).task,
            "attempts": codec.read_attempts(attempts).failed,
            "history": [{"at_ms": e.at_ms, "kind": e.kind, **mask(e.data)} for e in codec.read_events(error)],
            "payload": decode(original),
        }
    except (ValueError, IndexError):
        return decode(body)


def text(value: Any) -> str:
    """Return a payload as text in which words are searched."""
    if value is None:
        return ""
    return value if isinstance(value, str) else codec.encode_json(value).decode()
