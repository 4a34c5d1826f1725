"""The doctor: checks a server and qdeck's own setup, and what this user may do. It writes nothing."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import keys, scripts
from qdeck._errors import NotAllowed, QdeckError, ServerUnreachable
from qdeck._formatting import counted, duration
from qdeck._model import verdict
from qdeck._model.values import NATIVE, SNAPSHOTS, Code, Status
from qdeck._model.words import HINTS
from qdeck._private_files import state_dir
from qdeck._redis import reads
from qdeck._redis.commands import NO_SCRIPT, Command, with_errors
from qdeck._redis.errors import LOST, is_error
from qdeck._rules import role_rights, unreadable_values
from qdeck._server import native_queues, workers
from qdeck._server.server_info import READ_SAVES, read_server

if TYPE_CHECKING:
    from qdeck._model.values import Check, ServerInfo, Snapshot
    from qdeck._redis.commands import Program
    from qdeck._settings import Configuration, Target
    from qdeck._settings.thresholds import Thresholds
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.all import Adapters

SKEW_MS: Final = 2_000  # more than that between two clocks, and times on screens mislead
_QUEUE: Final = "qdeck:doctor"  # a queue that does not exist
_QUEUES_CHECKED: Final = 1000
_CALL: Final = re.compile(r"redis\.p?call\('(\w+)'")
_MOST_UNREADABLE: Final = 20  # that are named one by one
_OLDEST: Final = {"redis": (7, 0), "valkey": (7, 2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorCheck:
    """One check. `ok` is None when it cannot be known; `code` is that of its finding."""

    name: str
    ok: bool | None
    detail: str
    hint: str = ""  # what to do
    code: Code | None = None
    severity: Status | None = None  # of its finding
    command: str = ""  # that repairs it


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All checks; `error` is why the server could not be checked."""

    checks: tuple[DoctorCheck, ...]
    error: QdeckError | None = None

    @property
    def is_well(self) -> bool:
        """Return whether there is nothing to repair."""
        return all(check.ok is not False for check in self.checks)


def diagnose(
    address: str,
    adapters: Adapters,
    thresholds: Thresholds,
    configuration: Configuration,
    target: Target,
    *,
    read_only: bool,
) -> Program[Diagnosis]:
    """Check the setup, then the server."""
    found = setup(configuration, target)
    try:
        server = _server(address, adapters, thresholds, found_read_only=read_only)
        found += yield from server
    except (ServerUnreachable, NotAllowed) as error:
        found.append(DoctorCheck(name="connection", ok=False, detail=str(error), hint=error.hint))
        return Diagnosis(checks=tuple(found), error=error)
    return Diagnosis(checks=tuple(sorted(found, key=_urgency)))


def _urgency(check: DoctorCheck) -> int:
    """Return the place of a check, as in every list of findings: what fails first, the worst of it before the rest."""
    if check.ok is False:
        return int(check.severity is Status.DEGRADED)
    return 2 if check.ok is None else 3


def setup(configuration: Configuration, target: Target) -> list[DoctorCheck]:
    """Return the checks of the configuration."""
    if configuration.file is None:
        where = "there is no qdeck.toml: defaults apply, and the agent neither purges nor checks health"
    else:
        contexts = ", ".join(configuration.settings.contexts) or "none"
        where = f"{configuration.file} is valid; contexts: {contexts}"
    found = [DoctorCheck(name="config", ok=True, detail=where)]
    if configuration.ignored:
        hint = "Read it, then run: qdeck config trust"
        found.append(DoctorCheck(name="config_trust", ok=None, detail=configuration.ignored, hint=hint))
    for warning in configuration.warnings():
        hint = f"Run chmod 600 {configuration.file}, and write ${{VAR}} instead of the secret"
        found.append(DoctorCheck(name="config_secrets", ok=False, detail=warning, hint=hint))
    try:
        state_dir()
    except OSError as error:
        hint = getattr(error, "hint", "") or "Set XDG_STATE_HOME to a directory of your own."
        found.append(DoctorCheck(name="state_directory", ok=False, detail=str(error), hint=hint))
    if target.name is not None:
        words = [target.environment or "no environment named"]
        if target.read_only:
            words.append("read_only = true")
        elif target.is_production:
            words.append(f"writing commands need --confirm {shlex.quote(str(target.name))}")
        found.append(DoctorCheck(name="context", ok=True, detail=f"{target.name}: {', '.join(words)}"))
    return found


def _server(
    address: str, adapters: Adapters, thresholds: Thresholds, *, found_read_only: bool
) -> Program[list[DoctorCheck]]:
    before = reads.local_ms()
    stamp, hello, info, saves, whoami = yield with_errors(
        (b"TIME",), (b"HELLO",), (b"INFO",), READ_SAVES, (b"ACL", b"WHOAMI")
    )
    after = reads.local_ms()
    server = read_server(hello, info, saves, address)
    user = whoami.decode("utf-8", "replace") if isinstance(whoami, bytes) else None
    name = " ".join(word for word in (server.name, server.version, server.mode, server.role) if word)
    as_user = f" as user {user}" if user else ""
    found = [DoctorCheck(name="connection", ok=True, detail=f"{address}: {name or 'answers'}{as_user}")]
    found.append(_version(server))
    found.append(_clock(reads.stamp(stamp), before, after))
    names = [adapter.name for adapter in (*adapters.non_native, adapters.native)]
    hint = role_rights.line("viewer" if found_read_only else "operator", names, user)
    looking = yield from _may_look(hint)
    found.append(looking)
    if found_read_only:
        changing = DoctorCheck(name="changing", ok=True, detail="not needed: this context is open read-only")
    else:
        changing = yield from _may_change(user, hint)
    found.append(changing)
    if looking.ok:
        found.append((yield from _queue_keys(user, hint, read_only=found_read_only)))
    found += _settings(server, thresholds)
    found.append((yield from _script_cache()))
    if looking.ok:
        found += yield from _adapters(adapters)
    found.append(_abilities(looking, changing, read_only=found_read_only))
    return found


def _version(server: ServerInfo) -> DoctorCheck:
    numbers = re.match(r"(\d+)\.(\d+)", server.version or "")
    oldest = _OLDEST.get(server.name or "redis", _OLDEST["redis"])
    if numbers is None:
        return DoctorCheck(name="version", ok=None, detail="the server does not report its version")
    known = f"{server.name or 'server'} {server.version}"
    if (int(numbers[1]), int(numbers[2])) >= oldest:
        return DoctorCheck(name="version", ok=True, detail=f"{known} has everything that qdeck needs")
    needed = ".".join(map(str, oldest))
    return DoctorCheck(
        name="version", ok=False, detail=f"{known}: its scripts lack flags", hint=f"Upgrade to {needed} or newer."
    )


def _clock(server_ms: int | None, before: int, after: int) -> DoctorCheck:
    if server_ms is None:
        detail = "TIME is not allowed: ages use this machine's clock"
        return DoctorCheck(name="clock", ok=None, detail=detail, hint="Give this user +time.")
    # The server's clock was read somewhere between the two moments.
    skew = server_ms - after if server_ms > after else min(0, server_ms - before)
    if abs(skew) <= SKEW_MS:
        return DoctorCheck(name="clock", ok=True, detail=f"the server's clock is within {SKEW_MS // 1000}s of this one")
    side = "ahead of" if skew > 0 else "behind"
    detail = f"the server's clock is {duration(abs(skew), fine=True)} {side} this one; jobs use the server's"
    return DoctorCheck(
        name="clock", ok=False, detail=detail, hint="Synchronise both machines with a time server (NTP)."
    )


def _probes() -> list[Command]:
    """Return every read command that a refresh uses, on keys that do not exist."""

    def key(part: str) -> bytes:
        return keys.key(_QUEUE, part)

    return [
        (b"HMGET", key("meta"), b"v"),
        (b"HGET", key("meta"), b"v"),
        (b"HLEN", key("head")),
        (b"HEXISTS", key("head"), b"x"),
        (b"HSTRLEN", key("body"), b"x"),
        (b"HSCAN", key("head"), 0),
        (b"ZCARD", key("ready")),
        (b"ZCOUNT", key("ready"), 0, 1),
        (b"ZRANGE", key("ready"), 0, 0),
        (b"ZREVRANGE", key("dead"), 0, 0),
        (b"ZRANGEBYSCORE", key("ready"), 0, 1),
        (b"ZREVRANGEBYSCORE", key("dead"), 1, 0),
        (b"ZSCORE", key("ready"), b"x"),
        (b"ZMSCORE", key("ready"), b"x"),
        (b"ZRANK", key("ready"), b"x"),
        (b"ZREVRANK", key("dead"), b"x"),
        (b"XLEN", key("outbox")),
        (b"SCAN", 0, b"MATCH", b"{qdeck:doctor}*", b"COUNT", 1),
        (b"HLEN", keys.QUEUES),
        (b"HLEN", keys.WORKERS),
        (b"HLEN", keys.CONTROL),
    ]


def _may_look(hint: str) -> Program[DoctorCheck]:
    probes = _probes()
    replies = yield from reads.try_all(probes)
    denied = [_told(call) for call, reply in zip(probes, replies, strict=True) if isinstance(reply, NotAllowed)]
    if not denied:
        return DoctorCheck(name="looking", ok=True, detail=f"all {len(probes)} commands that read are allowed")
    detail = f"not allowed: {', '.join(dict.fromkeys(denied))}"
    return DoctorCheck(name="looking", ok=False, detail=detail, hint=hint)


def _told(call: Command) -> str:
    name = call[0].decode() if isinstance(call[0], bytes) else str(call[0])
    on = call[1] if len(call) > 1 and isinstance(call[1], str) else None  # keys that all queues share
    return f"{name} {on}" if on else name


def _changes() -> list[Command]:
    """Return every command that the scripts use, and what it takes to run them, each with a key."""
    used = {word for name in scripts.NAMES for word in _CALL.findall(scripts.load(name).source.decode())}
    words = sorted({word.upper() for word in used} | {"BLPOP", "HSETNX", "XDEL"})
    key = keys.key(_QUEUE, "meta")
    calls: list[Command] = [(b"EVALSHA", NO_SCRIPT, 1, key), (b"SCRIPT", b"LOAD", b"return 1")]
    return calls + [(word.encode(), *_ARGUMENTS.get(word, (key, b"1"))) for word in words]


_KEY: Final = keys.key(_QUEUE, "meta")
# The server checks how many arguments there are before it checks rights.
_ARGUMENTS: Final[dict[str, tuple[Any, ...]]] = {
    "TIME": (),
    "EXPIRE": (_KEY, 1), "PEXPIRE": (_KEY, 1), "HSET": (_KEY, b"f", b"1"), "HSETNX": (_KEY, b"f", b"1"),
    "HINCRBY": (_KEY, b"f", 1), "HGETALL": (_KEY,), "HLEN": (_KEY,), "HSCAN": (_KEY, 0), "HKEYS": (_KEY,),
    "LLEN": (_KEY,), "LPUSH": (_KEY, b"1"), "LPOP": (_KEY,), "RPOP": (_KEY,), "XADD": (_KEY, b"*", b"f", b"1"),
    "XLEN": (_KEY,), "XDEL": (_KEY, b"1-1"), "XRANGE": (_KEY, b"-", b"+"), "XTRIM": (_KEY, b"MAXLEN", 1),
    "ZADD": (_KEY, 1, b"m"), "ZCARD": (_KEY,), "ZCOUNT": (_KEY, 0, 1), "ZRANGE": (_KEY, 0, 1),
    "ZREVRANGE": (_KEY, 0, 1), "ZRANGEBYSCORE": (_KEY, 0, 1), "ZREVRANGEBYSCORE": (_KEY, 1, 0),
    "ZREMRANGEBYRANK": (_KEY, 0, 1), "ZREMRANGEBYSCORE": (_KEY, 0, 1), "ZINCRBY": (_KEY, 1, b"m"), "ZPOPMIN": (_KEY,),
    "TYPE": (_KEY,), "EXISTS": (_KEY,), "DEL": (_KEY,), "UNLINK": (_KEY,), "HSTRLEN": (_KEY, b"f"), "GET": (_KEY,),
    "SET": (_KEY, b"1"), "PTTL": (_KEY,), "TTL": (_KEY,), "RENAME": (_KEY, _KEY), "LRANGE": (_KEY, 0, 1),
}  # fmt: skip


def _may_change(user: str | None, hint: str) -> Program[DoctorCheck]:
    """Ask the server with `ACL DRYRUN`; without the right to that, call a script that does not exist."""
    calls = _changes()
    replies = yield from reads.try_all([(b"ACL", b"DRYRUN", user or "default", *call) for call in calls])
    if user is None or all(is_error(reply) for reply in replies):
        [reply] = yield with_errors(calls[0])
        if isinstance(reply, NotAllowed):
            return DoctorCheck(name="changing", ok=False, detail="not allowed: EVALSHA", hint=hint)
        detail = (
            "scripts may be called; it is unknown whether all their commands are allowed (ACL DRYRUN is not allowed)"
        )
        return DoctorCheck(name="changing", ok=None, detail=detail, hint=f"If it is not: {hint}")
    denied = [
        _told(call) for call, reply in zip(calls, replies, strict=True) if isinstance(reply, bytes) and reply != b"OK"
    ]
    if not denied:
        return DoctorCheck(name="changing", ok=True, detail="this user may run every command that changes jobs")
    detail = f"not allowed: {', '.join(denied)}"
    return DoctorCheck(name="changing", ok=False, detail=detail, hint=hint)


def _queue_keys(user: str | None, hint: str, *, read_only: bool) -> Program[DoctorCheck]:
    """Check whether this user's key patterns match the existing queues: the other checks use keys of their own."""
    try:
        names = (yield from native_queues.names(native_queues.RefreshCache()))[:_QUEUES_CHECKED]
    except LOST:
        raise
    except QdeckError as error:
        return DoctorCheck(name="queue_keys", ok=False, detail=str(error), hint=error.hint)
    metas = [keys.key(name, "meta") for name in names]
    replies = yield from reads.try_all([(b"HGET", key, b"v") for key in metas])
    closed = [name for name, reply in zip(names, replies, strict=True) if isinstance(reply, NotAllowed)]
    if not closed and not read_only:
        asked = [(b"ACL", b"DRYRUN", user or "default", b"HSET", key, b"f", b"1") for key in metas]
        replies = yield from reads.try_all(asked)
        closed = [
            name for name, reply in zip(names, replies, strict=True) if isinstance(reply, bytes) and b"key" in reply
        ]
    if not closed:
        return DoctorCheck(
            name="queue_keys", ok=True, detail=f"this user may access the keys of {counted(len(names), 'queue')}"
        )
    detail = f"the key patterns of this user exclude {counted(len(closed), 'queue')}, such as {closed[0]!r}"
    return DoctorCheck(name="queue_keys", ok=False, detail=detail, hint=hint)


def _settings(server: ServerInfo, thresholds: Thresholds) -> list[DoctorCheck]:
    """Return the checks of the server, by the rules of the verdict, with the remedies of their findings."""
    hints = {
        "role": Code.REPLICA, "saving": Code.SAVE_FAILED, "persistence": Code.NOT_PERSISTED,
        "eviction": Code.EVICTION, "memory": Code.MEMORY, "loading": Code.LOADING,
    }  # fmt: skip
    missing = "+info" if server.persistence is None else "+config|get"
    found = []
    for check in verdict.check_server(server, thresholds):
        if check.name in hints:
            ok = None if check.status is None else not check.findings
            hint = "" if ok and check.value != SNAPSHOTS else HINTS[hints[check.name]]
            hint = hint if ok is not None else f"Give this user {missing if check.name == 'persistence' else '+info'}"
            code = check.findings[0].code if check.findings else None
            command = check.findings[0].command if check.findings else ""
            found.append(
                DoctorCheck(
                    name=check.name,
                    ok=ok,
                    detail=check.detail,
                    hint=hint,
                    code=code,
                    severity=check.status,
                    command=command,
                )
            )
    return found


def _script_cache() -> Program[DoctorCheck]:
    names = scripts.NAMES
    [reply] = yield with_errors((b"SCRIPT", b"EXISTS", *(scripts.load(name).digest for name in names)))
    if is_error(reply):
        return DoctorCheck(
            name="scripts", ok=None, detail="SCRIPT EXISTS is not allowed: it is unknown which scripts are loaded"
        )
    loaded = sum(map(int, reply))
    detail = f"{loaded} of {len(names)} scripts are loaded; the others load at their first use"
    return DoctorCheck(name="scripts", ok=True, detail=detail if loaded < len(names) else "all scripts are loaded")


def _adapters(adapters: Adapters) -> Program[list[DoctorCheck]]:
    """Return which adapters have queues, and what other adapters can do."""
    try:
        seen = yield from adapters.look(())
        rows = yield from workers.list_workers()
        notices = list(seen.notices)
        broken = yield from unreadable_values.check(seen, adapters, notices)
    except LOST:
        raise
    except QdeckError as error:
        return [DoctorCheck(name="adapters", ok=False, detail=str(error), hint=error.hint)]
    counts = Counter(row.adapter for row in seen.queues)
    own = counts.pop(NATIVE, 0)
    texts = [
        f"native: {counted(own, 'queue')}",
        *(f"{name}: {counted(count, 'queue')}" for name, count in counts.items()),
    ]
    found = [DoctorCheck(name="adapters", ok=True, detail="; ".join(texts))]
    found += [DoctorCheck(name="adapters", ok=None, detail=notice) for notice in notices]
    found += [_adapter(adapter) for adapter in adapters.non_native if adapter.name in counts]
    found += _of_findings(seen)
    found += _unreadable(seen, broken)
    alive = sum(row.alive for row in rows)
    found.append(DoctorCheck(name="workers", ok=True, detail=f"{alive:,} of {len(rows):,} workers are alive"))
    return found


_FOUND: Final = (Code.UNKNOWN_SYSTEM, Code.SCHEDULE_LATE)


def _of_findings(seen: Snapshot) -> list[DoctorCheck]:
    return [
        DoctorCheck(
            name=one.code.value,
            ok=False,
            detail=one.text,
            hint=one.hint,
            code=one.code,
            severity=one.severity,
            command=one.command,
        )
        for one in seen.findings
        if one.code in _FOUND
    ]


def _unreadable(seen: Snapshot, broken: Check) -> list[DoctorCheck]:
    """Return the queues and the stored values that cannot be read, the first of them one by one."""
    texts = [one.text for one in (*seen.findings, *broken.findings) if one.code is Code.UNREADABLE]
    hint = (
        "Upgrade qdeck where a queue is of a newer version; otherwise find out which other program writes these keys."
    )
    name, code = "unreadable", Code.UNREADABLE
    found = [DoctorCheck(name=name, ok=False, detail=text, hint=hint, code=code) for text in texts[:_MOST_UNREADABLE]]
    if len(texts) > _MOST_UNREADABLE:
        more = f"{len(texts) - _MOST_UNREADABLE:,} more queues or keys cannot be read (qdeck health names them)"
        found.append(DoctorCheck(name=name, ok=False, detail=more, code=code))
    return found


def _adapter(adapter: Adapter) -> DoctorCheck:
    abilities = adapter.verbs().items()
    can = ", ".join(act.value for act, ability in abilities if ability.can)
    cannot = "; ".join(f"cannot {act.value}: {ability.note}" for act, ability in abilities if not ability.can)
    detail = f"can {can}" + (f"; {cannot}" if cannot else "")
    return DoctorCheck(name=f"adapter_{adapter.name}", ok=True, detail=detail)


def _abilities(looking: DoctorCheck, changing: DoctorCheck, *, read_only: bool) -> DoctorCheck:
    can = ["read queues, jobs and dead letters"] if looking.ok else []
    cannot = [] if looking.ok else ["read everything"]
    if read_only:
        cannot.append("change anything: this context is open read-only")
    elif changing.ok is False:
        cannot.append("change jobs")
    elif changing.ok:
        can.append("change jobs")
    texts = [f"can {' and '.join(can)}"] if can else []
    texts += [f"cannot {'; nor '.join(cannot)}"] if cannot else []
    if changing.ok is None and not read_only:
        texts.append("it is unknown whether it can change jobs")
    return DoctorCheck(name="abilities", ok=bool(looking.ok), detail="; ".join(texts), hint=looking.hint)
