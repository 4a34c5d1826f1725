"""The tests that every adapter must pass: a class with one subclass per adapter, which fills a server.

It needs pytest and two fixtures: `url` of a server that is empty and may be written to, `raw` is a redis client on it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from qdeck._model.payload import whole_text
from qdeck.adapters import changes, discovery
from qdeck.adapters.entry_plans import build_changes
from qdeck.adapters.model import NO_QUEUE, Outcome, Retried, Skipped
from qdeck.adapters.paging import every
from qdeck.adapters.plans import Context, Search
from qdeck.admin import Entry, Limits, Seen, State, Verb, Writer, make_adapter, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import redis

    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.cells import Change, ScriptChange
    from qdeck.adapters.plans import Pages, Rule, StuckJob


def contents(raw: redis.Redis, *, without: Iterable[str] = ()) -> dict[bytes, tuple[object, bool]]:
    """Return the value of each key of a server, and whether it has no time to live.

    Not as DUMP, which changes with a rehash. Keys whose names end with one of `without` are left out.
    """
    return {key: (value, raw.ttl(key) == -1) for key, value in values(raw, without=without).items()}


def values(raw: redis.Redis, *, without: Iterable[str] = ()) -> dict[bytes, object]:
    """Return the values of all keys, whatever their encoding; of streams with what is pending in their groups."""
    found: dict[bytes, object] = {}
    ends = tuple(end.encode() for end in without)
    for key in raw.scan_iter():
        if key.startswith((b"qdeck:", b"{")) or key.endswith(ends):
            continue
        kind = raw.type(key)
        if kind == b"hash":
            found[key] = raw.hgetall(key)
        elif kind == b"zset":
            found[key] = raw.zrange(key, 0, -1, withscores=True)
        elif kind == b"set":
            found[key] = raw.smembers(key)
        elif kind == b"list":
            found[key] = raw.lrange(key, 0, -1)
        elif kind == b"stream":
            groups = [group["name"] for group in raw.xinfo_groups(key)]
            found[key] = (raw.xrange(key), {name: _pending(raw, key, name) for name in groups})
        else:
            found[key] = raw.get(key)
    return found


def _pending(raw: redis.Redis, key: bytes, group: bytes) -> list[tuple[object, ...]]:
    """Return the pending entries of a group: the id, the consumer and the delivery count of each."""
    rows: Any = raw.xpending_range(key, group, "-", "+", 10_000)
    return [(row["message_id"], row["consumer"], row["times_delivered"]) for row in rows]


class Conformance:
    """The tests of an adapter: a subclass gives `adapter` and `populate`."""

    adapter: ClassVar[str]
    priorities: ClassVar[Mapping[Verb, int | str]] = {}
    """The priority with which a verb is tried."""

    emitted: ClassVar[tuple[str, ...]] = ()
    """How the names of keys end that only have what was emitted or counted, which an undo leaves."""

    def contents(self, raw: redis.Redis) -> dict[bytes, tuple[object, bool]]:
        """Return the contents of a server, without what was emitted."""
        return contents(raw, without=self.emitted)

    def values(self, raw: redis.Redis) -> dict[bytes, object]:
        """Return the values of all keys, without what was emitted."""
        return values(raw, without=self.emitted)

    def populate(self, raw: redis.Redis) -> None:
        """Fill the server with entries of every state, broken ones too."""
        raise NotImplementedError

    def take(self, raw: redis.Redis, entry: Entry) -> None:
        """Verb as a worker of that system that takes this retried entry; by default there is none."""
        pytest.skip("nothing can be retried here")

    def end(self, raw: redis.Redis, entry: Entry, *, well: bool) -> Outcome:
        """End it as that system would; return what an operator can see of that."""
        raise NotImplementedError

    def make(self) -> Adapter:
        """Return a new instance; a subclass for an adapter outside of the package overrides this."""
        return make_adapter(self.adapter)

    @pytest.fixture
    def writer(self, url: str, raw: redis.Redis) -> Iterator[Writer]:
        self.populate(raw)
        with Writer(url) as writer:
            yield writer

    def context(self, writer: Writer, act: Verb) -> Context:
        return Context(now=_now(writer), limits=Limits(), priority=self.priorities.get(act))

    def built(
        self, writer: Writer, adapter: Adapter, act: Verb, entry: Entry, context: Context | None = None
    ) -> Change | ScriptChange | None:
        """Return what a verb changes, None if it skips the entry."""
        [found] = writer.run(build_changes(adapter, act, [entry], context or self.context(writer, act)))
        return None if isinstance(found, Skipped) else found

    def discovered(self, writer: Writer) -> Adapter:
        made = self.make()
        writer.run(discovery.look([made], discovery.Remembered(passes={})))
        return made

    def entries(self, writer: Writer, adapter: Adapter) -> list[Entry]:
        now = int(_now(writer))
        rows = writer.run(adapter.rows(now)).rows
        assert rows
        return [e for row in rows for e in writer.run(every(adapter, row.name, tuple(State), most=10_000))]

    def stuck(self, writer: Writer, adapter: Adapter) -> list[StuckJob]:
        """Return the stuck entries of all queues."""
        now = _now(writer)
        names = [row.name for row in writer.run(adapter.rows(now)).rows]
        return [
            job
            for _, pages in writer.run(adapter.stuck_pages(names, None, now))
            for entry in _all(writer, pages)
            if (job := pages.stuck(entry)) is not None
        ]

    def test_discovery_finds_it_and_writes_nothing(self, writer: Writer, raw: redis.Redis) -> None:
        before = self.contents(raw)
        adapter = self.discovered(writer)
        assert adapter.discovered is not None
        assert adapter.discovered.is_there
        self.entries(writer, adapter)
        self.stuck(writer, adapter)
        assert self.contents(raw) == before

    def test_an_empty_server_has_nothing_of_it(self, url: str) -> None:
        with Writer(url) as writer:
            adapter = self.discovered(writer)
            assert adapter.discovered is not None
            assert not adapter.discovered.is_there

    def test_rows_count_what_lists_show(self, writer: Writer) -> None:
        adapter = self.discovered(writer)
        for row in writer.run(adapter.rows(_now(writer))).rows:
            for state in State:
                count = getattr(row, state.value)
                if count is not None:
                    shown = writer.run(every(adapter, row.name, (state,), most=10_000))
                    assert len(shown) == count, (row.name, state, [e.key for e in shown])

    def test_rows_count_what_is_stuck(self, writer: Writer) -> None:
        adapter = self.discovered(writer)
        now = _now(writer)
        shown = Counter(job.queue for job in self.stuck(writer, adapter))
        for row in writer.run(adapter.rows(now)).rows:
            if row.stuck is not None:
                assert row.stuck == shown[row.name], row.name

    def test_keys_are_identities_and_records_are_whole(self, writer: Writer) -> None:
        adapter = self.discovered(writer)
        found = self.entries(writer, adapter)
        assert len({entry.key for entry in found}) == len(found)
        for entry in found:
            assert entry.adapter == self.adapter
            assert entry.state in list(State)
            assert entry.native_state
            assert entry.age_s is None or entry.age_s >= 0
            assert Seen.parse(str(entry.seen)) == entry.seen
            entry.payload()
            entry.text()
            detail = writer.run(adapter.job(entry.queue, entry.key))
            assert (detail.key, detail.state) == (entry.key, entry.state)

    def test_small_pages_show_the_same(self, writer: Writer) -> None:
        adapter = self.discovered(writer)
        for row in writer.run(adapter.rows(_now(writer))).rows:
            # Entries with equal bytes are distinguished within one page only.
            whole = {e.key.partition("#")[0] for e in writer.run(every(adapter, row.name, tuple(State), most=10_000))}
            cursor, shown = None, set()
            for _ in range(1000):
                page = writer.run(adapter.page(row.name, tuple(State), cursor=cursor, most=1))
                shown |= {entry.key.partition("#")[0] for entry in page.jobs}
                cursor = page.cursor
                if cursor is None:
                    break
            assert cursor is None
            assert shown == whole

    def test_what_a_plan_keeps_is_found_again(self, writer: Writer) -> None:
        adapter = self.discovered(writer)
        for entry in self.entries(writer, adapter):
            seen = entry.seen
            kept = Seen.parse(str(seen.shortened(member=adapter.short_plans and seen.at is not None)))
            assert (kept.mark, kept.at) == (seen.mark, seen.at)
            [found] = writer.run(adapter.recall(entry.queue, entry.state, [kept], _now(writer)))
            assert found is not None, entry.key
            assert found.seen == seen
            assert found.id == entry.id

    def test_a_pause_is_shown_and_its_end_restores_everything(self, writer: Writer, raw: redis.Redis) -> None:
        adapter = self.discovered(writer)
        if adapter.why_not_pause():
            pytest.skip(adapter.why_not_pause())
        before, rows = self.contents(raw), writer.run(adapter.rows(_now(writer))).rows
        switched = 0
        for row in rows:
            if row.problem is not None:
                continue
            change = writer.run(adapter.pause_change(row.name, paused=not row.paused))
            assert change is not None
            if not writer.write(changes.apply_once(change)).done:
                assert self.contents(raw) == before
                continue
            switched += 1
            shown = {one.name: one.paused for one in writer.run(adapter.rows(_now(writer))).rows}
            assert shown[row.name] is not row.paused
            assert writer.run(adapter.pause_change(row.name, paused=not row.paused)) is None
            back = writer.run(adapter.pause_change(row.name, paused=row.paused))
            assert back is not None
            assert writer.write(changes.apply_once(back)).done
            assert self.contents(raw) == before
        assert switched

    def test_a_filter_keeps_what_matches(self, writer: Writer) -> None:
        adapter = self.discovered(writer)
        for entry in self.entries(writer, adapter):
            if '"' in entry.id or "\\" in entry.id or "*" in entry.id or not entry.id.isprintable():
                continue
            wanted = parse(f'id:"{entry.id}" state:{entry.state}')
            page = writer.run(adapter.page(entry.queue, tuple(State), wanted=wanted))
            assert entry.key in {found.key for found in page.jobs}

    def test_secrets_are_masked(self, writer: Writer) -> None:
        adapter = self.discovered(writer)
        for entry in self.entries(writer, adapter):
            detail = writer.run(adapter.job(entry.queue, entry.key))
            shown = (entry.text(), entry.payload(), entry.message, entry.key, detail.payload(), detail.failure)
            assert "tok123" not in str((*shown, detail.log))

    def test_every_act_is_told_and_each_is_taken_back(self, writer: Writer, raw: redis.Redis) -> None:
        adapter = self.discovered(writer)
        before, tried, told = self.contents(raw), set(), set()
        for number, entry in enumerate(self.entries(writer, adapter)):
            for act, capability in adapter.capabilities().items():
                assert capability.can or adapter.why_not(act)
                change = self.built(writer, adapter, act, entry)
                if change is None:
                    continue
                told.add(act)
                batch = f"b{number}-{act}"
                [done] = writer.write(changes.apply(self.adapter, batch, [change]))
                if not done.done:  # an entry may block itself, such as one that is both dead and ready
                    assert done.why, (act, entry.key)
                    assert self.contents(raw) == before, (act, entry.key)
                    continue
                tried.add(act)
                changed = self.values(raw)
                [again] = writer.write(changes.apply(self.adapter, batch, [change]))
                assert again.done  # sent twice is done once
                assert self.values(raw) == changed
                [back] = writer.write(changes.undo(self.adapter, batch))
                assert back.done, (act, entry.key, back.why)
                assert writer.write(changes.undo(self.adapter, batch)) == []
                assert self.contents(raw) == before, (act, entry.key)
        assert tried
        assert tried == told

    @pytest.mark.parametrize("well", [True, False])
    def test_what_becomes_of_a_retried_entry_is_told_or_unknown(
        self, writer: Writer, raw: redis.Redis, *, well: bool
    ) -> None:
        adapter = self.discovered(writer)
        tried: set[str] = set()
        for number, entry in enumerate(self.entries(writer, adapter)):
            now = _now(writer)
            if entry.native_state in tried:
                continue
            change = self.built(writer, adapter, Verb.RETRY, entry)
            if change is None:
                continue
            one = Retried(id=whole_text(entry.id), seen=entry.seen.shortened(member=adapter.short_plans), since_ms=now)
            [done] = writer.write(changes.apply(self.adapter, f"r{number}", [change]))
            if not done.done:
                continue
            if not adapter.outcome_evidence:
                assert writer.run(adapter.outcomes([one], _now(writer))) == [Outcome.UNKNOWN], entry.key
                pytest.skip("it does not report what becomes of entries")
            assert writer.run(adapter.outcomes([one], _now(writer))) == [Outcome.WAITING], entry.key
            self.take(raw, entry)
            assert writer.run(adapter.outcomes([one], _now(writer)))[0] in (Outcome.RUNNING, Outcome.UNKNOWN), entry.key
            wanted = self.end(raw, entry, well=well)
            before = self.contents(raw)
            assert writer.run(adapter.outcomes([one], _now(writer))) == [wanted], entry.key
            assert self.contents(raw) == before
            assert well or wanted in (Outcome.DEAD, Outcome.FAILED)
            tried.add(entry.native_state)
        if not tried:
            pytest.skip("nothing can be retried here")

    def test_what_is_stale_is_told_and_can_go_and_come_back(self, writer: Writer, raw: redis.Redis) -> None:
        adapter = self.discovered(writer)
        before, now = self.contents(raw), _now(writer)
        limits = Limits(
            max_pending_age=0, max_ready_age=0, max_ready_age_pool=0, max_completed_age=0, max_orphaned_age=0,
            max_request_age=0, max_task_age=0, dlq_ttl=0, dlq_max_entries=0, dlq_enabled=True,
        )  # fmt: skip
        queues = [row.name for row in writer.run(adapter.rows(now)).rows]
        found = [
            (rule, entry)
            for queue in (*queues, NO_QUEUE)
            for rule in adapter.rules(queue)
            for entry in _taken(writer, adapter, queue, rule, limits, now)
        ]
        assert self.contents(raw) == before
        for number, (rule, entry) in enumerate(found):
            reason, act = rule.reason_for(limits, entry, now), Verb(rule.verb_for(limits))
            assert reason
            change = self.built(writer, adapter, act, entry, Context(now=now, limits=limits, reason=reason))
            assert change is not None, (entry.key, act)
            [done] = writer.write(changes.apply(self.adapter, f"s{number}", [change]))
            assert done.done, (rule.name, entry.key, done.why)
            [back] = writer.write(changes.undo(self.adapter, f"s{number}"))
            assert back.done, (rule.name, entry.key, back.why)
            assert self.contents(raw) == before

    def test_an_entry_that_changed_is_left_alone(self, writer: Writer, raw: redis.Redis) -> None:
        adapter = self.discovered(writer)
        found = self.entries(writer, adapter)
        twins = {entry.key.partition("#")[0] for entry in found if "#" in entry.key}
        for number, entry in enumerate(found):
            if entry.key.partition("#")[0] in twins:
                continue  # an equal entry would be removed
            change = self.built(writer, adapter, Verb.DISCARD, entry)
            if change is None:
                continue
            writer.write(changes.apply(self.adapter, f"first{number}", [change]))
            before = self.values(raw)
            [left] = writer.write(changes.apply(self.adapter, f"second{number}", [change]))
            assert not left.done
            assert left.why
            assert self.values(raw) == before
            writer.write(changes.undo(self.adapter, f"first{number}"))

    def test_keys_of_another_type_do_not_stop_the_rest(self, writer: Writer, raw: redis.Redis) -> None:
        for key, kind in self.make().fixed_keys().items():
            if kind is not None and not raw.exists(key):
                raw.set(key, "something else")
        adapter = self.discovered(writer)
        assert self.entries(writer, adapter)
        self.stuck(writer, adapter)


def _taken(writer: Writer, adapter: Adapter, queue: str, rule: Rule, limits: Limits, now: int) -> list[Entry]:
    text = rule.where_for(limits)
    prepared = writer.run(adapter.prepare(rule.verb_for(limits), now))
    search = Search(
        states=rule.states, now=now, limits=limits, wanted=parse(text) if text else None, rule=rule, prepared=prepared
    )
    return [entry for pages in writer.run(adapter.pages(queue, search)) for entry in _all(writer, pages)]


def _all(writer: Writer, pages: Pages) -> list[Entry]:
    found: list[Entry] = []
    while (page := writer.run(pages.page())) is not None:
        found += page
    return found


def _now(writer: Writer) -> int:
    from qdeck._redis import reads

    return writer.run(reads.clock())
