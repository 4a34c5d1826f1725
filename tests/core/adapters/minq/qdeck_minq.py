"""minq for qdeck: `minq:queues`, per queue a list `wait` and a sorted set `failed` of ids, a hash for each job."""

from qdeck.adapters import (
    GUARD, NO_QUEUE, THERE, Verb, Adapter, Capability, CapabilityCode, Change, End, Entry, Feature, Kind,
    Look, Outcome, QueueRow, Rule, Skipped, Source, State, with_errors, try_all, cells, change_each, is_error, raw_of, text_of,
)  # fmt: skip

QUEUES = b"minq:queues"
FIELDS = (b"task", b"args", b"tries", b"error", b"created")
NOT_A_JOB = "minq:job:{} is no hash"
NO_HASH = "minq:job:{} is gone"
NO_TASK = "minq:job:{} has no task"
LOOKED_AT = 100_000


def key_of(queue, part):
    return b"minq:" + raw_of(queue) + b":" + part


def job_key(member):
    return b"minq:job:" + member


def number(value):
    """A number as minq wrote it, or None."""
    try:
        return int(float(value))
    except (TypeError, ValueError, OverflowError):
        return None


class Minq(Adapter):
    name, about = "minq", "minq: `minq:queues`, lists `minq:*:wait`, sorted sets `minq:*:failed`"
    features = frozenset({Feature.ATTEMPTS})
    acl_keys = ("minq:*",)
    outcome_evidence = "a job whose hash is gone was done, or discarded"

    def fixed_keys(self):
        return {QUEUES: Kind.SET}

    def capabilities(self):
        def no(note, code=CapabilityCode.NO_SUCH_VERB):
            return Capability(code=code, note=note)

        return {
            Verb.RETRY: Capability(states=(State.DEAD,)),
            Verb.DISCARD: Capability(states=(State.READY, State.DEAD)),
            Verb.BURY: no("minq does not record which jobs run, so there are none to bury", CapabilityCode.NO_SUCH_STATE),
            Verb.REQUEUE: no("minq does not record which jobs run, so none can be put back", CapabilityCode.NO_SUCH_STATE),
            Verb.RUN: no("minq delays no jobs: what waits runs as soon as it can", CapabilityCode.NO_SUCH_STATE),
            Verb.CANCEL: no("minq keeps no cancelled jobs; discard removes one"),
            Verb.COMPLETE: no("minq keeps no jobs that are done"),
            Verb.EXPIRE: no("minq jobs do not expire"),
            Verb.REPRIORITISE: no("minq has no priorities"),
        }

    def rows(self, now):
        [names] = yield with_errors((b"SMEMBERS", QUEUES))
        if is_error(names):
            return Look(notices=("minq:queues is no set",))
        names = sorted(names)
        calls = []
        for name in names:
            calls += [(b"LLEN", key_of(text_of(name), b"wait")), (b"ZCARD", key_of(text_of(name), b"failed"))]
        sizes = yield from try_all(calls)
        rows, unread = [], []
        for i, name in enumerate(names):
            counts = []
            for (_, key), size in zip(calls[2 * i : 2 * i + 2], sizes[2 * i : 2 * i + 2], strict=True):
                if is_error(size):
                    unread.append(f"{text_of(key)}: {size}")
                counts.append(None if is_error(size) else size)
            rows.append(QueueRow(adapter=self.name, name=text_of(name), ready=counts[0], dead=counts[1]))
        return Look(rows=tuple(rows), unread=tuple(unread))

    def sources(self, queue, states):
        [known] = yield with_errors((b"SISMEMBER", QUEUES, raw_of(queue)))
        if is_error(known) or not known:
            return []
        wait = Source(key=key_of(queue, b"wait"), kind=Kind.LIST, state=State.READY, native_state="wait", down=True)
        failed = Source(key=key_of(queue, b"failed"), kind=Kind.ZSET, state=State.DEAD, native_state="failed", down=True)
        return [source for source in (wait, failed) if source.state in states]

    def fill(self, queue, raws, now, want):
        hashes = yield from try_all([(b"HMGET", job_key(raw.member), *FIELDS) for raw in raws])
        return [self.entry_of(queue, raw, reply, now) for raw, reply in zip(raws, hashes, strict=True)]

    def entry_of(self, queue, raw, reply, now):
        job = text_of(raw.member)
        dead = raw.source.state == State.DEAD
        problem = None
        if is_error(reply):
            problem, reply = NOT_A_JOB.format(job), [None] * len(FIELDS)
        elif all(value is None for value in reply):
            problem = NO_HASH.format(job)
        elif reply[0] is None:
            problem = NO_TASK.format(job)
        task, args, tries, error, created = reply
        kind, _, message = text_of(error or b"").partition(": ")
        failed_ms = number(raw.score) if dead else None
        since_ms = failed_ms if dead else number(created)
        return Entry(
            id=job,
            key=f"{queue}/{raw.source.native_state}/{job}",
            adapter=self.name,
            queue=queue,
            state=raw.source.state,
            native_state=raw.source.native_state,
            task=None if task is None else text_of(task),
            attempts=number(tries),
            enqueued_ms=number(created),
            since_ms=since_ms,
            error=kind or None,
            message=message or None,
            failed_ms=failed_ms,
            body=args,
            problem=problem,
            seen=raw.seen(cells.packed(tuple(b"-" if value is None else b"+" + value for value in reply))),
        )

    def rules(self, queue):
        if queue == NO_QUEUE:
            return []
        return [
            Rule(
                name="dead_too_old",
                states=(State.DEAD,),
                setting="dlq_ttl",
                verb=Verb.DISCARD,
                reason="failed {age} ago (limit {limit})",
            )
        ]

    def outcomes(self, tried, now):
        calls = []
        for one in tried:
            failed, job = one.seen.key, one.seen.member
            wait = failed.removesuffix(b"failed") + b"wait"
            calls += [(b"EXISTS", job_key(job)), (b"LPOS", wait, job, b"MAXLEN", LOOKED_AT), (b"ZSCORE", failed, job)]
        replies = yield from try_all([*calls, *((b"LLEN", wait_of[1]) for wait_of in calls[1::3])])
        found = []
        for i in range(len(tried)):
            there, place, score, size = *replies[3 * i : 3 * i + 3], replies[3 * len(tried) + i]
            if any(map(is_error, (there, place, score, size))):
                found.append(Outcome.UNKNOWN)
            elif score is not None:
                found.append(Outcome.DEAD)
            elif place is not None:
                found.append(Outcome.WAITING)
            elif not there:
                found.append(Outcome.DONE)
            else:
                found.append(Outcome.RUNNING if size <= LOOKED_AT else Outcome.UNKNOWN)
        return found

    def changes(self, act, entries, context):
        yield from ()
        return change_each(lambda entry: self.change(act, entry), entries)

    def change(self, act, entry):
        seen, job = entry.seen, job_key(entry.seen.member)
        was = [None if value == b"-" else value[1:] for value in cells.unpacked(seen.value)]
        if entry.state == State.DEAD:
            out = cells.score(seen.key, seen.member, before=seen.score, after=None)
        else:
            out = cells.take(seen.key, seen.member, End.RIGHT, seen.at)
        if act == Verb.RETRY:
            if was[0] is None:
                raise Skipped.because(f"{entry.problem}: a worker could not run it")
            guards = [cells.field(job, name, value) for name, value in zip(FIELDS, was, strict=True) if name != b"error"]
            error = cells.field(job, b"error", was[3], GUARD if was[3] is None else None)
            back = cells.push(key_of(entry.queue, b"wait"), seen.member, End.LEFT)
            return Change(id=entry.id, cells=(*guards, error, out, back), effect="from failed to the end of wait")
        if entry.problem == NOT_A_JOB.format(entry.id):
            return Change(id=entry.id, cells=(out,), effect=f"removed from {entry.native_state}; its key, no hash, stays")
        if entry.problem == NO_HASH.format(entry.id):
            return Change(id=entry.id, cells=(cells.size(job, 0), out), effect=f"removed from {entry.native_state}")
        guards = [cells.field(job, name, value) for name, value in zip(FIELDS, was, strict=True)]
        record = cells.whole_key(job, THERE)
        return Change(id=entry.id, cells=(*guards, out, record), effect=f"removed from {entry.native_state}, with its hash")
