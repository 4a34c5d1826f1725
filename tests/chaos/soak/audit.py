"""The audit after a soak: every confirmed job is accounted for, and no key holds what belongs to nothing."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from chaos.ledger import read_notes
from chaos.soak.app import ATTEMPTED, CONFIRMED, QUEUES
from core._engine.picture import LIVE, Picture, check_rules, take_picture
from qdeck._engine import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.commands import Ran

_OWN_KEYS: Final = re.compile(r"qdeck:[a-z]+|qdeck:agent:\{.*\}|\{qdeck:[a-z]+\}:.*")
_HISTORY: Final = re.compile(r"history:[sm]\d+|undo:.+")
_MADE_BY_QDECK: Final = re.compile(r"cron:.+|.+-f\d+")  # jobs of schedules, and failure handlers


def pictures(raw: redis.Redis) -> dict[str, Picture]:
    """Return all that is stored of both queues."""
    return {queue: take_picture(raw, queue) for queue in QUEUES}


def is_drained(raw: redis.Redis) -> bool:
    """Return whether nothing waits, runs or is on its way from one queue to the other."""
    return not any(any(picture.zsets[state] for state in LIVE) or picture.outbox for picture in pictures(raw).values())


def are_only_blocked(raw: redis.Redis) -> bool:
    """Return whether jobs wait for others, and none is left that they could wait for."""
    found = list(pictures(raw).values())
    live = [state for state in LIVE if state != "blocked"]
    is_still = not any(any(picture.zsets[state] for state in live) or picture.outbox for picture in found)
    return is_still and any(picture.zsets["blocked"] for picture in found)


def dependencies(run_command: Callable[..., Ran], url: str) -> set[str]:
    """Return the ids of the jobs that blocked jobs wait for."""
    found: set[str] = set()
    for queue in QUEUES:
        for blocked in json.loads(run_command("jobs", queue, "--state", "blocked", "--json", "--url", url).out):
            job = json.loads(run_command("job", queue, blocked["id"], "--json", "--url", url).out)
            found |= set(job["depends_on"])
    return found


def open_discards(lines: str) -> list[str]:
    """Return the batches that removed jobs, newest first, out of the JSON lines of `qdeck activity`."""
    entries = [json.loads(line) for line in lines.splitlines()]
    found = [entry["batch"] for entry in entries if entry["batch"] and entry["verb"] in ("discard", "purge")]
    return list(dict.fromkeys(reversed(found)))


def check(raw: redis.Redis, notebook: redis.Redis) -> dict[str, Any]:
    """Fail unless everything is accounted for; return the figures."""
    seen = pictures(raw)
    check_rules(seen)
    places = Counter(job_id for picture in seen.values() for job_id in picture.states())
    double = [job_id for job_id, count in places.items() if count > 1]
    assert not double, f"{len(double)} jobs are in both queues: {double[:5]}"
    confirmed, attempted = _ids(notebook, CONFIRMED), _ids(notebook, ATTEMPTED)
    lost = confirmed - set(places)
    assert not lost, f"{len(lost)} of {len(confirmed)} confirmed jobs are lost: {_history(notebook, lost)}"
    unknown = {job_id for job_id in set(places) - attempted if not _MADE_BY_QDECK.fullmatch(job_id)}
    assert not unknown, f"{len(unknown)} jobs that no producer made: {sorted(unknown)[:5]}"
    ran = _check_runs(seen, notebook)
    _check_keys(raw)
    states = Counter(state for picture in seen.values() for found in picture.states().values() for state in found)
    return {"attempted": len(attempted), "confirmed": len(confirmed), "lost": 0, "states": dict(states), **ran}


def _history(notebook: redis.Redis, job_ids: set[str]) -> dict[str, str]:
    """Return what the handlers noted of some jobs, for the message of a failed audit."""
    found = dict.fromkeys(sorted(job_ids)[:50], "")
    for note in read_notes(notebook):
        if note.id in found:
            found[note.id] += f"{note.kind} at {note.at}, "
    return found


def _check_runs(seen: dict[str, Picture], notebook: redis.Redis) -> dict[str, int]:
    """A job that is done has run to its end; a turn of a schedule ran once unless its worker was lost."""
    notes = read_notes(notebook)
    ended = {note.id for note in notes if note.kind == "end"}
    done = {job_id for picture in seen.values() for job_id, _ in picture.zsets["done"]}
    never = done - ended
    assert not never, f"{len(never)} jobs are done and never ran to their end: {sorted(never)[:5]}"
    starts = Counter(note.id for note in notes if note.kind == "start")
    return {"attempts": sum(starts.values()), "jobs that ran": len(starts), "turns": _turns(done)}


def _turns(done: set[str]) -> int:
    return sum(job_id.startswith("cron:") for job_id in done)


def _check_keys(raw: redis.Redis) -> None:
    """Every key is one that the documentation names, and what is kept for undo expires."""
    parts = {name for name, _ in keys.PARTS.values()}
    strange = []
    for key in sorted(raw.scan_iter(count=1000)):
        name = key.decode()
        queue = next((queue for queue in QUEUES if name.startswith(f"{{{queue}}}:")), None)
        part = None if queue is None else name[len(queue) + 3 :]
        known = bool(_OWN_KEYS.fullmatch(name)) if part is None else part in parts or bool(_HISTORY.fullmatch(part))
        if not known or ((part or "").startswith("undo:") and raw.ttl(key) < 0):
            strange.append(name)
    assert not strange, f"keys that belong to nothing, or never expire: {strange[:10]}"


def _ids(notebook: redis.Redis, name: str) -> set[str]:
    return {member.decode() for member in notebook.sscan_iter(name, count=5000)}
