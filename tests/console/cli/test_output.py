"""Hostile text with a secret in every field of every adapter, through every command: out comes text, and no secret."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from core.adapters.test_conformance import FILL
from qdeck._engine import keys
from qdeck.admin import Writer
from support.hostile import is_clean
from support.scene import QUEUE, WORKER, Scene, make_scene

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.commands import Ran

SECRET: Final = "S3cr3tQ9xZ"
OBEYED: Final = "\x1b]52;c;ZQ==\x07\x1b]8;;http://e\x1b\\\x9b2J\u202e\u200b\U000e0041\ufe01\ufe02\r\x00[link=x][/]"
NAMES: Final = re.compile(r".*id|.*_id|.*Id|vm|pool|name|queue.*|worker|tz", re.IGNORECASE)
EVIL: Final = f"{OBEYED} password={SECRET} redis://u:{SECRET}@h [('api_key', '{SECRET}')] "


def spoil(value: Any) -> Any:
    """A JSON value with every text and number-free leaf made hostile."""
    if isinstance(value, dict):
        # What commands take as the name of something is shown as it is, so no secret belongs there.
        kept = {key: spoil(item) for key, item in value.items() if not NAMES.fullmatch(key)}
        named = {key: f"{item}{OBEYED}" if isinstance(item, str) else item for key, item in value.items()}
        return named | kept | {"more": EVIL, f"a {EVIL}": 1, "password": SECRET}
    if isinstance(value, list):
        return [spoil(item) for item in value]
    return f"{value} {EVIL}" if isinstance(value, str) and not value[:1].isdigit() else value


def hostile(raw: bytes) -> bytes:
    """Bytes of a server, made hostile; JSON stays JSON."""
    try:
        value = json.loads(raw)
    except ValueError:
        return raw + EVIL.encode()
    return json.dumps(spoil(value)).encode() if isinstance(value, dict | list) else raw


def spoil_others(raw: Any) -> None:
    """Every hash and every list of the server, made hostile."""
    for key in list(raw.scan_iter()):
        if key.startswith((b"qdeck:", b"{")):
            continue
        kind = raw.type(key)
        if kind == b"hash":
            for field, value in raw.hgetall(key).items():
                raw.hset(key, field, hostile(value))
            raw.hset(key, b"x" + OBEYED.encode(), EVIL.encode())
        elif kind == b"list":
            for at, value in enumerate(raw.lrange(key, 0, -1)):
                # Ids are shown as they are, so that they can be given to a command: hostile, but without a secret.
                is_id = key.startswith((b"rq:", b"bull:"))
                raw.lset(key, at, value + OBEYED.encode() if is_id else hostile(value))
        elif kind == b"string" and raw.get(key).startswith(b'{"status"'):
            value = json.loads(raw.get(key))
            raw.set(key, json.dumps(spoil(value) | {"status": value["status"]}), keepttl=True)
        elif kind == b"zset":
            for member, score in raw.zrange(key, 0, -1, withscores=True):
                if b"{" in member:
                    head, _, rest = member.partition(b"{")
                    raw.zrem(key, member)
                    raw.zadd(key, {head + hostile(b"{" + rest): score})
            raw.zadd(key, {b"x" + OBEYED.encode(): 5})
        elif kind == b"set":
            raw.sadd(key, b"x" + OBEYED.encode())
        elif kind == b"stream":
            spoil_stream(raw, key)


def spoil_stream(raw: Any, key: bytes) -> None:
    """Entries cannot be changed: a hostile copy of each, in the hands of the same consumers."""
    for entry, fields in raw.xrange(key):
        made = raw.xadd(key, {field: hostile(value) for field, value in fields.items()})
        for group in raw.xinfo_groups(key):
            for held in raw.xpending_range(key, group["name"], entry, entry, 1):
                idle, times = held["time_since_delivered"], held["times_delivered"]
                raw.xclaim(
                    key,
                    group["name"],
                    held["consumer"],
                    0,
                    [made],
                    idle=idle,
                    retrycount=times,
                    force=True,
                    justid=True,
                )


def spoil_native(raw: Any, scene: Scene, url: str) -> None:
    """Jobs, events, results, logs, workers, schedules and what operators did, made hostile."""
    with Writer(url) as writer:
        writer.enqueue(QUEUE, "send", [EVIL], kwargs={"note": EVIL, f"k {EVIL}": 1, "token": SECRET},
                     tags=["token:" + SECRET])  # fmt: skip
    for part in ("body", "error", "result", "log"):
        key = keys.key(QUEUE, part)
        for job, value in raw.hgetall(key).items():
            if part == "error":
                kind, _, event = value.rpartition(b" {")
                raw.hset(key, job, kind + b" " + hostile(b"{" + event) if event and b"\n" not in event else value)
            elif job:
                raw.hset(key, job, hostile(value))
        if part in {"result", "log"}:
            raw.hset(key, scene.done, EVIL.encode())
            raw.hset(key, scene.dead[0], EVIL.encode())
    now = time.time_ns() // 1_000_000
    told = json.loads(raw.hget(keys.WORKERS, WORKER) or b"{}")
    told |= {"host": EVIL, "version": EVIL, "state": EVIL, "heartbeat_ms": now}
    raw.hset(keys.WORKERS, WORKER, json.dumps(told))
    raw.hset(keys.WORKERS, "w" + OBEYED, json.dumps(told))
    for name, value in raw.hgetall("qdeck:schedules").items():
        raw.hset("qdeck:schedules", name, hostile(value))
    done: dict[str, object] = {
        "at_ms": now,
        "who": EVIL,
        "host": EVIL,
        "verb": "retry",
        "queues": [OBEYED],
        "filter": EVIL,
    }
    done |= {"counts": {"planned": 1}, "outcome": "applied", "batch": OBEYED, "plan": EVIL, "reason": EVIL}
    raw.xadd("qdeck:activity", {"e": json.dumps(done)})
    raw.hset("qdeck:queues", "evil" + OBEYED, now)
    raw.hset("{evil" + OBEYED + "}:meta", mapping={"v": keys.LAYOUT, "ready": "3"})
    raw.hset("qdeck:health", mapping={"report": EVIL, "status": EVIL})


LOOKS: Final = (
    "status", "jobs", "jobs $QUEUE", "jobs $QUEUE --state done", "jobs $QUEUE --state ready", "job $QUEUE $ID",
    "job $QUEUE $DONE", "find $ID", "find evil", "stuck", "dead", "dead --group", "dead export", "activity", "queues",
    "health", "doctor", "workers", "schedule", "purge", "clean --orphans", "dead retry $QUEUE --dry-run",
    "activity --limit 5", "dead groups",
)  # fmt: skip
SCREENS: Final = ("queues", "jobs", "dead", "stuck", "workers", "health", "schedules", "activity", "purge", "tasks")


def check(ran: Ran, what: str) -> None:
    for name, text in (("out", ran.out), ("err", ran.err)):
        assert SECRET not in text, f"{what}: {name}: {text[max(0, text.find(SECRET) - 200) : text.find(SECRET) + 20]!r}"
        bad = [line for line in text.split("\n") if not is_clean(line)]
        assert not bad, f"{what}: {name}: {bad[0][:300]!r}"
    assert "Traceback (most" not in ran.err, what


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("adapter", ["native", *FILL])
def test_no_command_shows_a_secret_or_gives_a_terminal_something_to_obey(
    qdeck: Callable[..., Ran], url: str, raw: redis.Redis, adapter: str
) -> None:
    scene = make_scene(url, raw)
    if adapter == "native":
        spoil_native(raw, scene, url)
    else:
        FILL[adapter]().populate(raw)
        spoil_others(raw)
    known = scene.words()
    faults: list[str] = []
    showing: set[str] = set()
    with Writer(url) as writer:
        rows = [row.name for row in writer.snapshot().queues]
        found = [
            (row, job) for row in rows if row.isprintable() or adapter != "native" for job in [*writer.jobs(row)][:8]
        ]
    lines = [[known.get(word[1:], word) if word[:1] == "$" else word for word in line.split()] for line in LOOKS]
    lines += [["jobs", row] for row in rows] + [["job", row, job.id] for row, job in found]
    lines += [["find", job.id] for _, job in found[:3]]
    for line in lines:
        for extra in ([], ["--json"]):
            try:
                ran = qdeck(*line, *extra)
                showing |= {line[0]} if r"\x1b]52;c" in ran.out else set()
                check(ran, " ".join([*line, *extra])[:60])
            except AssertionError as error:
                faults.append(str(error)[:600])
    for screen in SCREENS:
        for how in ([], ["--svg"]):
            try:
                check(qdeck("snapshot", screen, *how), f"snapshot {screen}")
            except AssertionError as error:
                faults.append(str(error)[:600])
    for wrong in (OBEYED, f"redis://u:{SECRET}@{OBEYED}", f"{SECRET}"):
        for line in (["jobs", wrong], ["find", wrong], ["status", "--url", wrong], ["--config", wrong, "status"],
                     [wrong], ["status", f"--{wrong}"], ["dead", "--where", wrong], ["schedule", "show", wrong],
                     ["undo", wrong], ["status", "--context", wrong], ["snapshot", wrong],
                     ["dead", "retry", "--apply", wrong]):  # fmt: skip
            ran = qdeck(*line)
            bad = [text for text in (ran.out + ran.err).split("\n") if not is_clean(text)]
            if bad or "Traceback" in ran.err or ("@" in wrong and SECRET in ran.out + ran.err):
                faults.append(f"{line[0]!r}: {(bad or [ran.err])[0][-300:]!r} {len(bad)}")
    assert not faults, "\n".join(faults)
    assert {"dead", "job", "jobs"} <= showing
