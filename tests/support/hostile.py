"""Text that attacks a terminal, or imitates other text."""

from __future__ import annotations

import json
import time
import unicodedata
from typing import TYPE_CHECKING

from qdeck._engine.keys import LAYOUT

if TYPE_CHECKING:
    import redis

QUEUE = "demo:dev:evil:actions"
HOSTILE = {
    "title": "\x1b]0;owned\x07",
    "clear": "\x1b[2J\x1b[31mred",
    "c1": "\x9b31m\x9d0;t\x9c",
    "clipboard": "\x1b]52;c;ZXZpbA==\x1b\\",
    "backspaces": "safe\b\b\b\bevil",
    "return": "long line\roverwritten",
    "delete": "a\x7fb",
    "nul": "a\x00b",
    "bidi": "user\u202egnp.exe\u2066x\u2069",
    "marks": "\u200eleft\u200fright",
    "invisible": "pay\u200bload\ufeff\u00ad\u2060",
    "separators": "one\u2028two\u2029three",
    "surrogate": "lone \ud800 half",
    "tags": "a\U000e0041\U000e0042",
    "vowel separator": "pay\u180eload",
    "annotation": "seen\ufff9hidden\ufffashown\ufffb",
    "fillers": "a\u115f\u1160\u3164\uffa0b\u17b4\u034fc",
    "mongolian selectors": "a\u180b\u180c\u180d\u180fb",
    "selectors that spell": "a" + "".join(chr(0xE0100 + ord(one)) for one in "secret") + "\ufe01\ufe02",
    "notes": "\U0001d173\U0001bca0\U00013430",
    "zalgo": "z" + "\u0301" * 500 + "!",
    "only marks": "\u0301\u0301",
    "markup": "[/] [bold [@click=app.quit]x[/] [link=javascript:1]",
    "lines": "first\r\nsecond\nthird\ttab",
}

RAW = {
    "invalid utf-8": b"\xff\xfe\x80 \xc3( \xed\xa0\x80",
    "pickle": b"\x80\x04\x95\x1d\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85\x94R\x94.",
    "a megabyte": b"\x1b[2J" + b"A" * 1_000_000,
    "a megabyte of words": b"word\x07 \n" * 125_000,
    "deep": b"[" * 5_000,
    "empty": b"",
}


def corpus() -> list[bytes]:
    """Return all of it as bytes."""
    return [text.encode("utf-8", "surrogatepass") for text in HOSTILE.values()] + list(RAW.values())


def poison(raw: redis.Redis, queue: str = QUEUE) -> None:
    """Write it to a server: names, every field of jobs in every state, workers, schedules, the log of operations."""
    now = time.time_ns() // 1_000_000
    states = ("ready", "delayed", "blocked", "running", "dead_letter", "done", "cancelled")
    key = b"{" + queue.encode() + b"}:"
    pipe = raw.pipeline(transaction=False)
    for number, evil in enumerate(corpus()):
        text = evil.decode("utf-8", "replace")
        told = json.dumps({"class": text, "message": text, "traceback": text, "worker": text, "attempt": text})
        for state in states:
            job = b"%d%s-" % (number, state.encode()) + evil[:300]
            score = now - 1000 * number + (10**15 if state == "ready" else 0)
            pipe.zadd(key + state.encode(), {job: score})
            pipe.hset(key + b"head", job, b"%d 100 3 %s\nn%s\nt%s" % (now, evil, evil, evil))
            pipe.hset(key + b"body", job, evil if number % 2 else json.dumps([[text], {text: text}]).encode())
            pipe.hset(key + b"error", job, b"%d failed " % now + (told.encode() if number % 3 else evil))
            pipe.hset(key + b"attempts", job, b"4 0 0" if number % 2 else evil)
            pipe.hset(key + b"lease", job, b"%s:1 %d 60000 1" % (evil, now))
            pipe.hset(key + b"result", job, evil)
            pipe.hset(key + b"log", job, evil)
        name = evil[:300]
        said = {
            "host": text,
            "version": text,
            "queues": {text: 1},
            "state": text,
            "heartbeat_ms": now,
            "started_ms": now,
        }
        pipe.hset("qdeck:workers", b"w%d" % number + name, json.dumps(said) if number % 2 else evil)
        pipe.hset("qdeck:control", b"w%d" % number + name, evil)
        pipe.hset("qdeck:schedules", b"s%d" % number + name, evil)
        pipe.hset("{qdeck:schedules}:state", b"s%d" % number + name, evil)
        done: dict[str, object] = {
            "at_ms": now,
            "who": text,
            "host": text,
            "verb": text,
            "queues": [text],
            "filter": text,
            "reason": text,
        }
        done |= {"counts": {"planned": 1, text: 2}, "outcome": text, "batch": text, "plan": text}
        pipe.xadd("qdeck:activity", {"e": json.dumps(done) if number % 2 else evil})
        pipe.hset("qdeck:queues", b"evil%d:" % number + name, 1)
        pipe.hset(b"{evil%d:" % number + name + b"}:meta", mapping={"v": LAYOUT, "ready": "3", "dead_letter": evil})
    pipe.hset(key + b"meta", mapping={"v": LAYOUT, "n:enqueued": "9"})
    for state in states:
        pipe.hset(key + b"meta", state, str(len(corpus())))
    pipe.hset("qdeck:queues", queue, now)
    pipe.execute()


IGNORED = {
    0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, *range(0xFE00, 0xFE10), 0xFFA0,
    *range(0xE0000, 0xE1000),
}  # fmt: skip
"""What Unicode calls ignorable and no category tells: it takes no place and may carry a text."""


def is_clean(text: str) -> bool:
    """Return whether a terminal only shows the text and does not act on it."""
    return all(
        unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"} and ord(char) not in IGNORED
        for char in text
    )
