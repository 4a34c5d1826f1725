"""The safeguards, each with the change that switches it off and the tests that have to notice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Safeguard:
    """One line or two of the source on which a promise rests."""

    name: str
    prevents: str
    file: str
    text: str
    without: str
    tests: tuple[str, ...]


_LUA: Final = "core/qdeck/_engine/lua"

SAFEGUARDS: Final = (
    Safeguard(
        name="token of a lease, for jobs that end well",
        prevents="a worker that lost its lease completes the job of another",
        file=f"{_LUA}/poll.lua",
        text="    if held and string.sub(held, 1, #mine) == mine then\n      finished[",
        without="    if held then\n      finished[",
        tests=("tests/core/_engine/test_leases.py",),
    ),
    Safeguard(
        name="token of a lease, for all other ends",
        prevents="a worker that lost its lease fails, cancels or returns the job of another",
        file=f"{_LUA}/poll.lua",
        text="  if held and string.sub(held, 1, #mine) == mine then\n    close(",
        without="  if held then\n    close(",
        tests=("tests/core/_engine/test_leases.py",),
    ),
    Safeguard(
        name="answer to a poll that is sent again",
        prevents="no worker holds the jobs of a claim whose reply was lost until their leases end",
        file=f"{_LUA}/poll.lua",
        text="  if done == number then",
        without="  if false then",
        tests=("tests/core/_engine/test_leases.py",),
    ),
    Safeguard(
        name="number of a poll that arrives late",
        prevents="a delayed request claims jobs that no worker holds",
        file=f"{_LUA}/poll.lua",
        text="  if tonumber(done) > tonumber(number) then return answer(0, false) end",
        without="",
        tests=("tests/core/_engine/test_leases.py", "tests/core/_engine/test_machine.py"),
    ),
    Safeguard(
        name="warning before a lease is taken",
        prevents="a fleet that was suspended as a whole loses jobs that it still runs",
        file=f"{_LUA}/reap.lua",
        text="  if not string.find(flags, '?', 1, true) then",
        without="  if false then",
        tests=("tests/core/_engine/test_leases.py",),
    ),
    Safeguard(
        name="outages are no crashes",
        prevents="a fleet that dies at once has its jobs buried as poison pills",
        file=f"{_LUA}/reap.lua",
        text="if #ids > 0 and not outage and is_outage() then",
        without="if false then",
        tests=("tests/core/_engine/test_leases.py",),
    ),
    Safeguard(
        name="ids of jobs that are there",
        prevents="an enqueue that is sent again makes a second job",
        file=f"{_LUA}/enqueue.lua",
        text="or redis.call('HSETNX', HEAD, id, head) == 0 then",
        without="or redis.call('HSET', HEAD, id, head) == 2 then",
        tests=("tests/core/_engine/test_order.py", "tests/core/_engine/test_machine.py"),
    ),
    Safeguard(
        name="ids of jobs that are done",
        prevents="an enqueue that is sent again runs a job again that is done",
        file=f"{_LUA}/enqueue.lua",
        text="  if redis.call('ZSCORE', DONE, id) or ",
        without="  if ",
        tests=("tests/core/_engine/test_trim.py", "tests/core/_engine/test_machine.py"),
    ),
    Safeguard(
        name="ids of jobs that were removed",
        prevents="an enqueue that is sent again brings back what an operator discarded",
        file=f"{_LUA}/enqueue.lua",
        text="was_removed(id) or redis.call",
        without="redis.call",
        tests=("tests/core/_engine/test_removed.py",),
    ),
    Safeguard(
        name="place in the outbox, for jobs that arrive",
        prevents="an entry that is delivered twice makes a job again that has ended meanwhile",
        file=f"{_LUA}/accept.lua",
        text="if redis.call('ZSCORE', REMOVED, place) then return 0 end",
        without="",
        tests=("tests/core/_engine/test_across_queues.py",),
    ),
    Safeguard(
        name="ids that are taken in the queue a job is moved to",
        prevents="a job that is moved is lost, since another has its id there",
        file=f"{_LUA}/accept.lua",
        text="if is_taken and state ~= '' then",
        without="if false then",
        tests=("tests/core/_engine/test_acts.py",),
    ),
    Safeguard(
        name="age of an entry of the outbox",
        prevents="a deliverer that stood still delivers what was delivered and forgotten",
        file=f"{_LUA}/accept.lua",
        text="if is_too_old(ARGV[2]) then return redis.error_reply('QDECK LATE') end",
        without="",
        tests=("tests/core/_engine/test_across_queues.py",),
    ),
    Safeguard(
        name="entries of the outbox are deleted last",
        prevents="an effect on another queue is lost when its deliverer dies",
        file="core/qdeck/_engine/programs.py",
        text="        try:\n            is_refused = yield from self._effect(entry_id, entry, self._read_ms)\n",
        without=(
            '        yield (b"XDEL", self._key, entry_id)\n'
            "        try:\n            is_refused = yield from self._effect(entry_id, entry, self._read_ms)\n"
        ),
        tests=("tests/core/_engine/test_outbox.py", "tests/core/_engine/test_across_queues.py"),
    ),
    Safeguard(
        name="place of a slice in its batch",
        prevents="a slice that is sent again is done twice, or counted as skipped",
        file=f"{_LUA}/apply.lua",
        text="  local kept = redis.call('HGET', UNDO, offset)\n  if kept then",
        without="  local kept = redis.call('HGET', UNDO, offset)\n  if false then",
        tests=("tests/core/_operations/test_apply.py",),
    ),
    Safeguard(
        name="version of a waiting job",
        prevents="a plan acts on a job that was edited after the plan saw it",
        file=f"{_LUA}/apply.lua",
        text="  if j.versions and verb ~= 'edit' then",
        without="  if false then",
        tests=("tests/core/_operations/test_versions.py", "tests/core/_operations/test_apply.py"),
    ),
    Safeguard(
        name="score of a job in a plan",
        prevents="a plan acts on a job that died, waited or was retried again since",
        file=f"{_LUA}/apply.lua",
        text="    same = scores[i] and (scores[i] == planned or tonumber(scores[i]) == tonumber(planned))",
        without="    same = scores[i]",
        tests=("tests/core/_operations/test_apply.py",),
    ),
    Safeguard(
        name="undo of a job only as the batch left it",
        prevents="undo takes a job back that ran since",
        file=f"{_LUA}/undo.lua",
        text="    return not fits(tonumber(scores[n]), n) and 'changed' or nil",
        without="    return nil",
        tests=("tests/core/_engine/test_acts.py", "tests/core/_operations/test_undo.py"),
    ),
    Safeguard(
        name="undo of a slice once",
        prevents="an undo that is sent again restores a second time",
        file=f"{_LUA}/undo.lua",
        text="if slice.u and not slice.c then return answer(slice.u) end",
        without="",
        tests=("tests/core/_engine/test_edges.py", "tests/core/_engine/test_machine.py"),
    ),
    Safeguard(
        name="last run of a schedule, kept by its queue",
        prevents="a ticker that was frozen makes a run again",
        file="core/qdeck/_schedules/lua/tick.lua",
        text="  if run > handled_until and ",
        without="  if ",
        tests=("tests/core/_schedules/test_ticker.py",),
    ),
    Safeguard(
        name="token of a run of the agent",
        prevents="an agent that was frozen overwrites what the next one wrote",
        file="core/qdeck/_agent/lua/maintenance.lua",
        text="if state[1] ~= ARGV[3] then return 0 end",
        without="",
        tests=("tests/core/_agent/test_maintenance_runs.py",),
    ),
    Safeguard(
        name="exact bytes of entries of other systems",
        prevents="an operation changes an entry that its own system changed meanwhile",
        file="core/qdeck/adapters/lua/change.lua",
        text="      if seen ~= cell.before then ",
        without="      if false then ",
        tests=(
            "tests/core/adapters/test_conformance.py",
            "tests/core/adapters/test_verbs.py",
            "tests/core/adapters/test_cells.py",
        ),
    ),
    Safeguard(
        name="renewal of leases that came late",
        prevents="jobs run whose leases ended while their claim was on its way",
        file="core/qdeck/_worker/claim_loop.py",
        text="            while jobs and time.monotonic() - sent_at > self._lease_ms / 5000:",
        without="            while False:",
        tests=("tests/core/_worker/test_leases.py",),
    ),
    Safeguard(
        name="jobs that are told of a lost lease",
        prevents="a handler goes on beside the one that has its job now",
        file="core/qdeck/_worker/heartbeat.py",
        text="            if job_id in lost:",
        without="            if False:",
        tests=("tests/core/_worker/test_leases.py",),
    ),
    Safeguard(
        name="suspects run alone",
        prevents="jobs that ran beside a poison pill are buried with it",
        file="core/qdeck/_worker/executor.py",
        text="        if any(_is_suspect(attempt) for attempt in attempts):",
        without="        if False:",
        tests=("tests/core/_worker", "tests/chaos/test_kill.py"),
    ),
    Safeguard(
        name="reads that may not write",
        prevents="a refresh of the console changes data",
        file="core/qdeck/admin/_client.py",
        text="        if not request.reads:",
        without="        if False:",
        tests=("tests/core/admin/test_reader.py",),
    ),
    Safeguard(
        name="read-only connections",
        prevents="a console on production writes without being asked to",
        file="core/qdeck/admin/_client.py",
        text='        raise NotAllowed("a reader sent a request that writes",',
        without='        NotAllowed("a reader sent a request that writes",',
        tests=("tests/core/admin/test_reader.py",),
    ),
    Safeguard(
        name="checksum of a plan",
        prevents="a plan file that was changed is applied",
        file="core/qdeck/_operations/planfile.py",
        text="    if left or digest.hexdigest() != plan.tail.digest:",
        without="    if left:",
        tests=("tests/core/_operations/test_planfiles.py", "tests/core/_operations/test_apply.py"),
    ),
)
