"""Payloads as they are shown: decoded late, and with secrets masked. This is the one place that masks."""

from __future__ import annotations

import base64
import re
from typing import Any, Final

import msgspec

from qdeck._engine import codec

MASK: Final = "***"
_DEEPEST: Final = 100
# The end of a field's name, in lower case and without what separates words: `userPassword`, `x-api-key`, `DB_TOKEN`.
_SECRET: Final = re.compile(
    r"(passwords?|passwd|pwd|passphrase|secrets?|secretkey|tokens?|authorization|apikeys?|accesskeys?|privatekeys?"
    r"|credentials?|cookies?|sessionid|signature)$"
)
_SEPARATORS: Final = re.compile(r"[\s_.-]+")
_IN_URL: Final = re.compile(r"(?<=://)([^\s/@:]*):[^\s/@]+(?=@)")


def is_secret(name: str) -> bool:
    """Whether a field of this name holds something that nobody should read off a screen."""
    return _SECRET.search(_SEPARATORS.sub("", name).lower()) is not None


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
    return [mask(item, depth + 1) for item in value] if isinstance(value, list) else value


def mask_text(text: str) -> str:
    """A text with the passwords of the URLs in it replaced."""
    return _IN_URL.sub(rf"\1:{MASK}", text) if "://" in text else text


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
