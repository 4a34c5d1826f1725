"""What every adapter must hold to: a test class that is subclassed for each, and says how to fill a server.

It needs pytest and two fixtures: `url` of a server that is empty and may be written to, `raw` is a redis client on it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import pytest

from qdeck.adapters import changes, discovery
from qdeck.adapters.entry_plans import build_changes
from qdeck.adapters.model import NO_QUEUE, Outcome, Retried, Skipped
from qdeck.adapters.paging import every
from qdeck.adapters.plans import Context, Search, shown
from qdeck.admin import Act, Entry, Limits, Seen, State, Writer, make_adapter, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import redis

    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.cells import Change, ScriptChange
    from qdeck.adapters.plans import Pages, Rule, StuckJob


def contents(raw: redis.Redis) -> dict[bytes, tuple[object, bool]]:
    """Return what a server holds, and of each key whether it stays; not as DUMP, which changes with a rehash."""
    return {key: (value, raw.ttl(key) == -1) for key, value in values(raw).items()}


def values(raw: redis.Redis) -> dict[bytes, object]:
    """Return the values of all keys, whatever their encoding; of streams with what is pending in their groups."""
    found: dict[bytes, object] = {}
    for key in raw.scan_iter():
        if key.startswith((b"qdeck:", b"{")):
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
            found[key] = (raw.xrange(key), {name: raw.xpending(key, name) for name in groups})
        else:
            found[key] = raw.get(key)
    return found


class Conformance:
    """Give `adapter` and `populate`; every test below is then about that adapter."""

    adapter: ClassVar[str]
    priorities: ClassVar[Mapping[Act, int | str]] = {}
    """The priority with which a verb is tried."""

    emitted: ClassVar[tuple[str, ...]] = ()
    """How the names of keys end that only have what was emitted or counted, which an undo leaves."""

    def contents(self, raw: redis.Redis) -> dict[bytes, tuple[object, bool]]:
        """What a server holds, without what was emitted."""
        ends = tuple(end.encode() for end in self.emitted)
        return {key: value for key, value in contents(raw).items() if not ends or not key.endswith(ends)}

    def values(self, raw: redis.Redis) -> dict[bytes, object]:
        """The values of all keys, without what was emitted."""
        return {key: value for key, (value, _) in self.contents(raw).items()}

    def populate(self, raw: redis.Redis) -> None:
        """Fills the server with entries of every state, broken ones too."""
        raise NotImplementedError

    def take(self, raw: redis.Redis, entry: Entry) -> None:
        """Plays a worker of that system that takes this entry, which was just retried; by default there is none."""
        pytest.skip("nothing can be retried here")

    def end(self, raw: redis.Redis, entry: Entry, *, well: bool) -> Outcome:
        """Ends it as that system would; what an operator can see of that is the answer."""
        raise NotImplementedError

    def make(self) -> Adapter:
        """A new one of it; an adapter that is not among those of the package overrides this."""
        return make_adapter(self.adapter)

    @pytest.fixture
    def deck(self, url: str, raw: redis.Redis) -> Iterator[Writer]:
        self.populate(raw)
        with Writer(url) as deck:
            yield deck

    def context(self, deck: Writer, act: Act) -> Context:
        return Context(now=_now(deck), limits=Limits(), priority=self.priorities.get(act))

    def built(
        self, deck: Writer, adapter: Adapter, act: Act, entry: Entry, context: Context | None = None
    ) -> Change | ScriptChange | None:
        """Return what a verb changes, None where it leaves the entry alone."""
        [found] = deck.run(build_changes(adapter, act, [entry], context or self.context(deck, act)))
        return None if isinstance(found, Skipped) else found

    def look(self, deck: Writer) -> Adapter:
        made = self.make()
        deck.run(discovery.look([made], discovery.Remembered(passes={})))
        return made

    def entries(self, deck: Writer, adapter: Adapter) -> list[Entry]:
        now = int(_now(deck))
        rows = deck.run(adapter.rows(now)).rows
        assert rows
        return [e for row in rows for e in deck.run(every(adapter, row.name, tuple(State), most=10_000))]

    def stuck(self, deck: Writer, adapter: Adapter) -> list[StuckJob]:
        """Return what does not move, of all queues."""
        now = _now(deck)
        names = [row.name for row in deck.run(adapter.rows(now)).rows]
        return [
            job
            for _, pages in deck.run(adapter.stuck_pages(names, None, now))
            for entry in _all(deck, pages)
            if (job := pages.stuck(entry)) is not None
        ]

    def test_looking_finds_it_and_writes_nothing(self, deck: Writer, raw: redis.Redis) -> None:
        before = self.contents(raw)
        adapter = self.look(deck)
        assert adapter.sight is not None
        assert adapter.sight.is_there
        self.entries(deck, adapter)
        self.stuck(deck, adapter)
        assert self.contents(raw) == before

    def test_an_empty_server_has_nothing_of_it(self, url: str) -> None:
        with Writer(url) as deck:
            adapter = self.look(deck)
            assert adapter.sight is not None
            assert not adapter.sight.is_there

    def test_rows_count_what_lists_show(self, deck: Writer) -> None:
        adapter = self.look(deck)
        for row in deck.run(adapter.rows(_now(deck))).rows:
            for state in State:
                count = getattr(row, state.value)
                if count is not None:
                    shown = deck.run(every(adapter, row.name, (state,), most=10_000))
                    assert len(shown) == count, (row.name, state, [e.key for e in shown])

    def test_rows_count_what_is_stuck(self, deck: Writer) -> None:
        adapter = self.look(deck)
        now = _now(deck)
        shown = Counter(job.queue for job in self.stuck(deck, adapter))
        for row in deck.run(adapter.rows(now)).rows:
            if row.stuck is not None:
                assert row.stuck == shown[row.name], row.name

    def test_keys_are_identities_and_records_are_whole(self, deck: Writer) -> None:
        adapter = self.look(deck)
        found = self.entries(deck, adapter)
        assert len({entry.key for entry in found}) == len(found)
        for entry in found:
            assert entry.adapter == self.adapter
            assert entry.state in list(State)
            assert entry.native_state
            assert entry.age_s is None or entry.age_s >= 0
            assert Seen.parse(str(entry.seen)) == entry.seen
            entry.payload()
            entry.text()
            detail = deck.run(adapter.job(entry.queue, entry.key))
            assert (detail.key, detail.state) == (entry.key, entry.state)

    def test_small_pages_show_the_same(self, deck: Writer) -> None:
        adapter = self.look(deck)
        for row in deck.run(adapter.rows(_now(deck))).rows:
            # What is equal to the byte is told apart on one page only.
            whole = {e.key.partition("#")[0] for e in deck.run(every(adapter, row.name, tuple(State), most=10_000))}
            cursor, shown = None, set()
            for _ in range(1000):
                page = deck.run(adapter.page(row.name, tuple(State), cursor=cursor, most=1))
                shown |= {entry.key.partition("#")[0] for entry in page.jobs}
                cursor = page.cursor
                if cursor is None:
                    break
            assert cursor is None
            assert shown == whole

    def test_what_a_plan_keeps_is_found_again(self, deck: Writer) -> None:
        adapter = self.look(deck)
        for entry in self.entries(deck, adapter):
            seen = entry.seen
            kept = Seen.parse(str(seen.shortened(member=adapter.short_plans and seen.at is not None)))
            assert (kept.mark, kept.at) == (seen.mark, seen.at)
            [found] = deck.run(adapter.recall(entry.queue, entry.state, [kept], _now(deck)))
            assert found is not None, entry.key
            assert found.seen == seen
            assert found.id == entry.id

    def test_a_filter_keeps_what_matches(self, deck: Writer) -> None:
        adapter = self.look(deck)
        for entry in self.entries(deck, adapter):
            if '"' in entry.id or "\\" in entry.id or "*" in entry.id or not entry.id.isprintable():
                continue
            wanted = parse(f'id:"{entry.id}" state:{entry.state}')
            page = deck.run(adapter.page(entry.queue, tuple(State), wanted=wanted))
            assert entry.key in {found.key for found in page.jobs}

    def test_secrets_are_masked(self, deck: Writer) -> None:
        adapter = self.look(deck)
        for entry in self.entries(deck, adapter):
            detail = deck.run(adapter.job(entry.queue, entry.key))
            shown = (entry.text(), entry.payload(), entry.message, entry.key, detail.payload(), detail.failure)
            assert "tok123" not in str((*shown, detail.log))

    def test_every_act_is_told_and_each_is_taken_back(self, deck: Writer, raw: redis.Redis) -> None:
        adapter = self.look(deck)
        before, tried, told = self.contents(raw), set(), set()
        for number, entry in enumerate(self.entries(deck, adapter)):
            for act, capability in adapter.capabilities().items():
                assert capability.can or adapter.why_not(act)
                change = self.built(deck, adapter, act, entry)
                if change is None:
                    continue
                told.add(act)
                batch = f"b{number}-{act}"
                [done] = deck.write(changes.apply(self.adapter, batch, [change]))
                if not done.done:  # an entry may be in the way of itself, as one that is dead and in line too
                    assert done.why, (act, entry.key)
                    assert self.contents(raw) == before, (act, entry.key)
                    continue
                tried.add(act)
                changed = self.values(raw)
                [again] = deck.write(changes.apply(self.adapter, batch, [change]))
                assert again.done  # sent twice is done once
                assert self.values(raw) == changed
                [back] = deck.write(changes.undo(self.adapter, batch))
                assert back.done, (act, entry.key, back.why)
                assert deck.write(changes.undo(self.adapter, batch)) == []
                assert self.contents(raw) == before, (act, entry.key)
        assert tried
        assert tried == told

    @pytest.mark.parametrize("well", [True, False])
    def test_what_becomes_of_a_retried_entry_is_told_or_unknown(
        self, deck: Writer, raw: redis.Redis, *, well: bool
    ) -> None:
        adapter = self.look(deck)
        tried: set[str] = set()
        for number, entry in enumerate(self.entries(deck, adapter)):
            now = _now(deck)
            if entry.native_state in tried:
                continue
            change = self.built(deck, adapter, Act.RETRY, entry)
            if change is None:
                continue
            one = Retried(id=shown(entry.id), seen=entry.seen.shortened(member=adapter.short_plans), since_ms=now)
            [done] = deck.write(changes.apply(self.adapter, f"r{number}", [change]))
            if not done.done:
                continue
            if not adapter.outcome_evidence:
                assert deck.run(adapter.outcomes([one], _now(deck))) == [Outcome.UNKNOWN], entry.key
                pytest.skip("it does not tell what becomes of entries")
            assert deck.run(adapter.outcomes([one], _now(deck))) == [Outcome.WAITING], entry.key
            self.take(raw, entry)
            assert deck.run(adapter.outcomes([one], _now(deck)))[0] in (Outcome.RUNNING, Outcome.UNKNOWN), entry.key
            wanted = self.end(raw, entry, well=well)
            before = self.contents(raw)
            assert deck.run(adapter.outcomes([one], _now(deck))) == [wanted], entry.key
            assert self.contents(raw) == before
            assert well or wanted in (Outcome.DEAD, Outcome.FAILED)
            tried.add(entry.native_state)
        if not tried:
            pytest.skip("nothing can be retried here")

    def test_what_is_stale_is_told_and_can_go_and_come_back(self, deck: Writer, raw: redis.Redis) -> None:
        adapter = self.look(deck)
        before, now = self.contents(raw), _now(deck)
        limits = Limits(
            max_pending_age=0, max_ready_age=0, max_completed_age=0, max_orphaned_age=0, max_request_age=0,
            max_task_age=0, dlq_ttl=0, dlq_max_entries=0, dlq_enabled=True,
        )  # fmt: skip
        queues = [row.name for row in deck.run(adapter.rows(now)).rows]
        found = [
            (rule, entry)
            for queue in (*queues, NO_QUEUE)
            for rule in adapter.rules(queue)
            for entry in _taken(deck, adapter, queue, rule, limits, now)
        ]
        assert self.contents(raw) == before
        for number, (rule, entry) in enumerate(found):
            reason, act = rule.reason_for(limits, entry, now), Act(rule.verb_for(limits))
            assert reason
            change = self.built(deck, adapter, act, entry, Context(now=now, limits=limits, reason=reason))
            assert change is not None, (entry.key, act)
            [done] = deck.write(changes.apply(self.adapter, f"s{number}", [change]))
            assert done.done, (rule.name, entry.key, done.why)
            [back] = deck.write(changes.undo(self.adapter, f"s{number}"))
            assert back.done, (rule.name, entry.key, back.why)
            assert self.contents(raw) == before

    def test_an_entry_that_changed_is_left_alone(self, deck: Writer, raw: redis.Redis) -> None:
        adapter = self.look(deck)
        found = self.entries(deck, adapter)
        twins = {entry.key.partition("#")[0] for entry in found if "#" in entry.key}
        for number, entry in enumerate(found):
            if entry.key.partition("#")[0] in twins:
                continue  # its twin would go
            change = self.built(deck, adapter, Act.DISCARD, entry)
            if change is None:
                continue
            deck.write(changes.apply(self.adapter, f"first{number}", [change]))
            before = self.values(raw)
            [left] = deck.write(changes.apply(self.adapter, f"second{number}", [change]))
            assert not left.done
            assert left.why
            assert self.values(raw) == before
            deck.write(changes.undo(self.adapter, f"first{number}"))

    def test_keys_of_another_type_do_not_stop_the_rest(self, deck: Writer, raw: redis.Redis) -> None:
        for key, kind in self.make().fixed_keys().items():
            if kind is not None and not raw.exists(key):
                raw.set(key, "something else")
        adapter = self.look(deck)
        assert self.entries(deck, adapter)
        self.stuck(deck, adapter)


def _taken(deck: Writer, adapter: Adapter, queue: str, rule: Rule, limits: Limits, now: int) -> list[Entry]:
    text = rule.where_for(limits)
    prepared = deck.run(adapter.prepare(rule.verb_for(limits), now))
    search = Search(
        states=rule.states, now=now, limits=limits, wanted=parse(text) if text else None, rule=rule, prepared=prepared
    )
    return [entry for pages in deck.run(adapter.pages(queue, search)) for entry in _all(deck, pages)]


def _all(deck: Writer, pages: Pages) -> list[Entry]:
    found: list[Entry] = []
    while (page := deck.run(pages.page())) is not None:
        found += page
    return found


def _now(deck: Writer) -> int:
    from qdeck._redis import reads

    return deck.run(reads.clock())
