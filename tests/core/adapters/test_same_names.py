"""Queues of one name in several adapters: each is found, shown, planned, applied and undone by itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from characterisation.seed import fill
from characterisation.seed_native import MAIL
from qdeck import UnknownJob, UsageError
from qdeck.admin import Code, Limits, QueueRef, Thresholds, Writer, load_plan
from qdeck.testing.adapters import values

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

ALL = ("native", "lists", "vmpooler", "ifdb", "scheduler")
OWN, LIST, POOL = (QueueRef(adapter, MAIL) for adapter in ("native", "lists", "vmpooler"))
SHARED = {MAIL, "scheduler"}
CHOICES = f"Write native/{MAIL} or lists/{MAIL} or vmpooler/{MAIL}."


@pytest.fixture
def seeded(raw: redis.Redis) -> redis.Redis:
    fill(raw)
    return raw


@pytest.fixture
def deck(url: str, seeded: redis.Redis) -> Iterator[Writer]:
    with Writer(url, adapters=ALL) as deck:
        yield deck


def test_each_is_a_row_of_its_own_and_the_snapshot_says_which_names_are_shared(deck: Writer) -> None:
    seen = deck.snapshot()
    assert {row.ref for row in seen.queues if row.name == MAIL} == {OWN, LIST, POOL}
    assert seen.shared == SHARED
    assert deck.label(OWN) == f"native/{MAIL}"
    assert deck.label(QueueRef("ifdb", "ifdb")) == "ifdb"


@pytest.mark.parametrize("call", ["page", "jobs", "job", "draft", "resolve"])
def test_a_name_of_several_is_refused_with_the_choices(deck: Writer, call: str) -> None:
    words = (MAIL, "twin") if call in ("job", "draft") else (MAIL,)
    with pytest.raises(UsageError, match=f"^'{MAIL}' is a queue of native and of lists and of vmpooler$") as refused:
        getattr(deck, call)(*words)
    assert refused.value.hint == CHOICES


@pytest.mark.parametrize("ref", [OWN, LIST, POOL])
def test_each_is_read_by_itself(deck: Writer, ref: QueueRef) -> None:
    by_text = list(deck.jobs(str(ref)))
    assert by_text
    assert {job.ref for job in by_text} == {ref}
    assert [job.key for job in deck.jobs(ref)] == [job.key for job in by_text]
    assert deck.job(ref, "twin").ref == ref
    assert deck.resolve(str(ref)) == ref


def test_a_unique_name_stays_bare_and_an_exact_name_wins_over_a_prefix(url: str, raw: redis.Redis) -> None:
    raw.rpush("lists/deep:actions", "x")
    raw.rpush("deep:actions", "y")
    with Writer(url, adapters=ALL, adapter_settings={"lists": {"patterns": ["lists/{service}:actions"]}}) as deck:
        assert deck.resolve("deep:actions") == ("lists", "deep:actions")
        assert deck.resolve("lists/deep:actions") == ("lists", "lists/deep:actions")
        assert deck.resolve("lists/lists/deep:actions") == ("lists", "lists/deep:actions")
        assert deck.label(QueueRef("lists", "deep:actions")) == "deep:actions"


@pytest.mark.parametrize("text", [f"ifdb/{MAIL}", "native/other:x:actions", "lists/nothing", "nowhere", "nobody/x"])
def test_a_queue_that_is_not_there_is_refused(deck: Writer, text: str) -> None:
    with pytest.raises(UsageError, match="there is no queue"):
        deck.resolve(text)


def test_only_the_adapters_that_are_looked_at_count(url: str, seeded: redis.Redis) -> None:
    with Writer(url, adapters=("lists",)) as deck:
        assert deck.resolve(MAIL) == LIST
        assert deck.label(LIST) == MAIL
        with pytest.raises(UsageError, match="the adapter vmpooler"):
            deck.page(POOL)


def test_a_job_of_another_queue_of_the_same_name_is_not_found(deck: Writer) -> None:
    with pytest.raises(UnknownJob):
        deck.job(POOL, "oldest")


def test_a_finding_is_of_one_queue_and_names_its_adapter(url: str, seeded: redis.Redis) -> None:
    strict = Thresholds(dlq_max_warning=1, dlq_max_critical=2)
    with Writer(url, adapters=ALL, thresholds=strict) as deck:
        seen = deck.snapshot()
        of_name = {one.queue: one.text for one in seen.findings if one.code is Code.DEAD and one.queue in (OWN, LIST)}
        assert of_name == {OWN: f"5 dead letters in native/{MAIL}", LIST: f"4 dead letters in lists/{MAIL}"}
        report = deck.health(Limits())
        assert {one.queue for one in report.findings if one.code is Code.DEAD} >= {OWN, LIST}


def test_only_a_native_queue_is_paused(deck: Writer) -> None:
    with pytest.raises(UsageError, match=f"^'{MAIL}' is a queue of"):
        deck.pause(MAIL)
    with pytest.raises(UsageError, match=r"^queues of lists cannot be paused$"):
        deck.pause(LIST)
    assert deck.pause(f"native/{MAIL}").changed
    assert {row.adapter for row in deck.snapshot().queues if row.paused and row.name == MAIL} == {"native"}
    assert deck.activity()[-1].queues == (str(OWN),)


def test_a_filter_takes_the_adapter_too(deck: Writer) -> None:
    both = deck.groups(where=f"queue:{MAIL}").groups
    assert {group.adapter for group in both} == {"native", "lists"}
    assert {group.adapter for group in deck.groups(where=f"queue:lists/{MAIL}").groups} == {"lists"}
    assert {group.adapter for group in deck.groups(where="queue:native/*").groups} == {"native"}
    assert not deck.groups(where="queue:lists/nothing").groups


def test_a_plan_over_all_keeps_them_apart_and_so_does_its_batch(deck: Writer, seeded: redis.Redis) -> None:
    before = values(seeded)
    plan = deck.plan("retry", where=f"queue:{MAIL}")
    assert set(plan.head.queues) == {OWN, LIST, POOL}
    assert plan.by_queue == {OWN: 5, LIST: 4}
    assert [plan.label(queue) for queue in plan.by_queue] == [str(OWN), str(LIST)]
    assert Counter(entry.ref for entry in load_plan(plan.path).entries()) == plan.by_queue
    result = deck.apply(plan)
    assert (result.applied, result.queues) == (8, (OWN, LIST)), "another job holds one unique name"
    assert result.labels == [str(OWN), str(LIST)]
    batch = deck.batches()[result.batch]
    assert (batch.queues, batch.queues_of("native"), batch.all_adapters) == ([OWN, LIST], [MAIL], ["native", "lists"])
    assert deck.activity()[-1].queues == (str(OWN), str(LIST))
    assert deck.undo(result.batch).restored == 8
    assert list_of(values(seeded)) == list_of(before)


def list_of(found: dict[bytes, object]) -> dict[bytes, object]:
    return {key: value for key, value in found.items() if key.startswith(MAIL.encode())}


@pytest.mark.parametrize(("ref", "verb", "count"), [(OWN, "discard", 5), (LIST, "retry", 4), (POOL, "discard", 1)])
def test_a_plan_of_one_touches_no_other(
    deck: Writer, seeded: redis.Redis, ref: QueueRef, verb: str, count: int
) -> None:
    others = {key: value for key, value in values(seeded).items() if not is_of(ref, key)}
    plan = deck.plan(verb, str(ref), where="state:dead" if ref != POOL else "")
    assert (plan.head.queues, plan.by_queue) == ([ref], {ref: count})
    result = deck.apply(plan)
    assert (result.applied, result.queues) == (count, (ref,))
    after = values(seeded)
    assert {key: after.get(key) for key in others} == others
    assert deck.undo(result.batch).restored == count


def is_of(ref: QueueRef, key: bytes) -> bool:
    """Whether a key is one that a change of this queue may write."""
    own = {"native": f"{{{MAIL}}}:", "lists": MAIL, "vmpooler": "vmpooler__"}[ref.adapter]
    return key.startswith((own.encode(), b"qdeck:", b"{qdeck"))


def test_of_the_same_id_in_each_only_the_marked_ones_are_planned(deck: Writer) -> None:
    marked = [job for ref in (OWN, LIST) for job in deck.jobs(ref) if job.id == "twin"]
    plan, left_out = deck.plan_jobs("discard", marked)
    assert ({entry.ref for entry in plan.entries()}, left_out) == ({OWN, LIST}, [])
    [job] = [job for job in deck.jobs(POOL) if job.id == "twin"]
    plan, left_out = deck.plan_jobs("discard", [job])
    assert ([entry.ref for entry in plan.entries()], left_out) == ([POOL], [])


def test_what_is_skipped_says_of_which_queue(deck: Writer) -> None:
    plan = deck.plan("retry", str(LIST), ids=["nowhere"])
    [skip] = plan.tail.skipped
    assert (skip.ref, skip.as_json()["adapter"]) == (LIST, "lists")


@pytest.mark.parametrize(("ref", "found"), [(OWN, {OWN}), (POOL, set()), (LIST, set())])
def test_a_purge_of_one_takes_nothing_of_another(deck: Writer, ref: QueueRef, found: set[QueueRef]) -> None:
    plan = deck.plan_purge(queues=str(ref), limits=Limits(dlq_ttl=0.001))
    assert (plan.head.queues, set(plan.by_queue)) == ([ref], found)
    with pytest.raises(UsageError, match=f"^'{MAIL}' is a queue of"):
        deck.plan_purge(queues=MAIL)


def test_groups_and_stuck_jobs_are_of_one_queue_each(deck: Writer) -> None:
    assert {group.ref for group in deck.groups().groups if group.queue == MAIL} == {OWN, LIST}
    assert {group.ref for group in deck.groups(str(LIST)).groups} == {LIST}
    assert {job.ref for job in deck.stuck() if job.queue in SHARED} == {OWN, QueueRef("scheduler", "scheduler")}
    assert {job.ref for job in deck.stuck("scheduler/scheduler")} == {("scheduler", "scheduler")}


def test_a_native_queue_is_named_with_its_adapter_in_a_filter(deck: Writer) -> None:
    assert {group.ref for group in deck.groups(where=f"queue:native/{MAIL}").groups} == {OWN}
    assert deck.plan("retry", where=f"queue:native/{MAIL}").by_queue == {OWN: 5}


def test_a_queue_that_cannot_be_read_is_named_with_its_adapter(deck: Writer, seeded: redis.Redis) -> None:
    for part in ("dead_letter", "running"):
        seeded.delete(f"{{{MAIL}}}:{part}")
        seeded.set(f"{{{MAIL}}}:{part}", "a text")
    found = deck.groups()
    assert {group.ref for group in found.groups if group.queue == MAIL} == {LIST}
    assert any(why.startswith(f"native/{MAIL} cannot be read") for why in found.unread)
    unread: list[str] = []
    assert OWN not in {job.ref for job in deck.stuck(unread=unread)}
    assert any(why.startswith(f"native/{MAIL} cannot be read") for why in unread)
    skipped = [skip for skip in deck.plan("retry").tail.skipped if skip.ref == OWN]
    assert skipped
    assert f"native/{MAIL} cannot be read" in skipped[0].why
