"""All that a server holds as lines, and in which of them two moments differ."""

from __future__ import annotations

import difflib
import re
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import redis

    from characterisation.normal import Normal

# What an operation keeps about itself: only that it is there, and until when, is of interest here.
_OWN: Final = re.compile(rb"qdeck:(activity|undo)\b|.*:undo:")
# What depends on which entries fell into one millisecond: the number in the id of an entry of a stream, and the sample
# of a group whose letters all died just now.
_BY_CHANCE: Final = (
    (re.compile(r"(?<=<now>)-\d+\b"), "-<n>"),
    (re.compile(r"(?<=<now> <now> )\S+(?=\n)"), "<sample>"),
)
_FREED: Final = re.compile(r"^(freed .* = )\d+$")  # bytes that the server's allocator took
_OWN_SIGN: Final = "kept for undo: "


def contents(raw: redis.Redis, normal: Normal) -> list[str]:
    """A line for each key with its type and whether it ends, and one for each thing in it, in the order of the server.

    Hashes and sets are in the order of their names, because theirs means nothing.
    """
    keys = sorted(raw.scan_iter(count=1000))
    pipe = raw.pipeline(transaction=False)
    for key in keys:
        pipe.type(key)
        pipe.pttl(key)
    told = pipe.execute()
    kinds = told[::2]
    for key, kind in zip(keys, kinds, strict=True):
        _read(pipe, key, kind)
    lines: list[str] = []
    for key, kind, ttl, value in zip(keys, kinds, told[1::2], pipe.execute(), strict=True):
        name = _text(key, normal)
        ends = "" if ttl < 0 else f", ends in {-(-ttl // 60_000)} min"
        is_own = _OWN.match(key) is not None
        lines.append(f"{_OWN_SIGN if is_own else ''}{name}: {kind.decode()}{ends}")
        if not is_own:
            lines += [f"{name}  {line}" for line in _things(kind, value, normal)]
    return lines


def without_own(lines: list[str]) -> list[str]:
    """What there is besides what an operation keeps about itself."""
    return [line for line in lines if not line.startswith(_OWN_SIGN)]


def difference(before: list[str], after: list[str]) -> str:
    """The lines that went and came."""
    found = difflib.unified_diff(before, after, lineterm="", n=0)
    return "\n".join(line for line in found if not line.startswith(("--- ", "+++ ", "@@ "))) or "no difference"


def _read(pipe: Any, key: bytes, kind: bytes) -> None:
    if kind == b"hash":
        pipe.hgetall(key)
    elif kind == b"zset":
        pipe.zrange(key, 0, -1, withscores=True)
    elif kind == b"list":
        pipe.lrange(key, 0, -1)
    elif kind == b"set":
        pipe.smembers(key)
    elif kind == b"stream":
        pipe.xrange(key)
    else:
        pipe.get(key)


def _things(kind: bytes, value: Any, normal: Normal) -> list[str]:
    if kind == b"hash":
        lines = (f"{_text(name, normal)} = {_text(one, normal)}" for name, one in value.items())
        return sorted(_FREED.sub(r"\1<bytes>", line) for line in lines)
    if kind == b"zset":
        scored = [(normal.number(score) or f"{score:.17g}", _text(member, normal)) for member, score in value]
        # What was written in the same minute may have been written in the same millisecond, or not.
        return [f"{at}  {one}" for at, same in groupby(scored, lambda pair: pair[0]) for _, one in sorted(same)]
    if kind == b"list":
        return [_text(one, normal) for one in value]
    if kind == b"set":
        return sorted(_text(one, normal) for one in value)
    if kind == b"stream":
        return [f"{_text(at, normal)}  {_text(repr(fields).encode(), normal)}" for at, fields in value]
    return [_text(value, normal)]


def _text(raw: bytes, normal: Normal) -> str:
    text = normal.sentence(raw.decode("utf-8", "backslashreplace"))
    for told, name in _BY_CHANCE:
        text = told.sub(name, text)
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
