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
def writer(url: str, seeded: redis.Redis) -> Iterator[Writer]:
    with Writer(url, adapters=ALL) as writer:
        yield writer


def test_each_is_a_row_of_its_own_and_the_snapshot_says_which_names_are_shared(writer: Writer) -> None:
    seen = writer.snapshot()
    assert {row.ref for row in seen.queues if row.name == MAIL} == {OWN, LIST, POOL}
    assert seen.shared == SHARED
    assert writer.label(OWN) == f"native/{MAIL}"
    assert writer.label(QueueRef("ifdb", "ifdb")) == "ifdb"


@pytest.mark.parametrize("call", ["page", "jobs", "job", "draft", "resolve"])
def test_a_name_of_several_is_refused_with_the_choices(writer: Writer, call: str) -> None:
    words = (MAIL, "twin") if call in ("job", "draft") else (MAIL,)
    with pytest.raises(UsageError, match=f"^'{MAIL}' is a queue of native and of lists and of vmpooler$") as refused:
        getattr(writer, call)(*words)
    assert refused.value.hint == CHOICES


@pytest.mark.parametrize("ref", [OWN, LIST, POOL])
def test_each_is_read_by_itself(writer: Writer, ref: QueueRef) -> None:
    by_text = list(writer.jobs(str(ref)))
    assert by_text
    assert {job.ref for job in by_text} == {ref}
    assert [job.key for job in writer.jobs(ref)] == [job.key for job in by_text]
    assert writer.job(ref, "twin").ref == ref
    assert writer.resolve(str(ref)) == ref


def test_a_unique_name_stays_bare_and_an_exact_name_wins_over_a_prefix(url: str, raw: redis.Redis) -> None:
    raw.rpush("lists/deep:actions", "x")
    raw.rpush("deep:actions", "y")
    with Writer(url, adapters=ALL, adapter_settings={"lists": {"patterns": ["lists/{service}:actions"]}}) as writer:
        assert writer.resolve("deep:actions") == ("lists", "deep:actions")
        assert writer.resolve("lists/deep:actions") == ("lists", "lists/deep:actions")
        assert writer.resolve("lists/lists/deep:actions") == ("lists", "lists/deep:actions")
        assert writer.label(QueueRef("lists", "deep:actions")) == "deep:actions"


@pytest.mark.parametrize("text", [f"ifdb/{MAIL}", "native/other:x:actions", "lists/nothing", "nowhere", "nobody/x"])
def test_a_queue_that_is_not_there_is_refused(writer: Writer, text: str) -> None:
    with pytest.raises(UsageError, match="there is no queue"):
        writer.resolve(text)


def test_only_the_adapters_that_are_looked_at_count(url: str, seeded: redis.Redis) -> None:
    with Writer(url, adapters=("lists",)) as writer:
        assert writer.resolve(MAIL) == LIST
        assert writer.label(LIST) == MAIL
        with pytest.raises(UsageError, match="the adapter vmpooler"):
            writer.page(POOL)


def test_a_job_of_another_queue_of_the_same_name_is_not_found(writer: Writer) -> None:
    with pytest.raises(UnknownJob):
        writer.job(POOL, "oldest")


def test_a_finding_is_of_one_queue_and_names_its_adapter(url: str, seeded: redis.Redis) -> None:
    strict = Thresholds(dlq_max_warning=1, dlq_max_critical=2)
    with Writer(url, adapters=ALL, thresholds=strict) as writer:
        seen = writer.snapshot()
        of_name = {one.queue: one.text for one in seen.findings if one.code is Code.DEAD and one.queue in (OWN, LIST)}
        assert of_name == {OWN: f"5 dead letters in native/{MAIL}", LIST: f"4 dead letters in lists/{MAIL}"}
        report = writer.health(Limits())
        assert {one.queue for one in report.findings if one.code is Code.DEAD} >= {OWN, LIST}


def test_only_a_native_queue_is_paused(writer: Writer) -> None:
    with pytest.raises(UsageError, match=f"^'{MAIL}' is a queue of"):
        writer.pause(MAIL)
    with pytest.raises(UsageError, match=r"^queues of lists cannot be paused$"):
        writer.pause(LIST)
    assert writer.pause(f"native/{MAIL}").changed
    assert {row.adapter for row in writer.snapshot().queues if row.paused and row.name == MAIL} == {"native"}
    assert writer.activity()[-1].queues == (str(OWN),)


def test_a_filter_takes_the_adapter_too(writer: Writer) -> None:
    both = writer.groups(where=f"queue:{MAIL}").groups
    assert {group.adapter for group in both} == {"native", "lists"}
    assert {group.adapter for group in writer.groups(where=f"queue:lists/{MAIL}").groups} == {"lists"}
    assert {group.adapter for group in writer.groups(where="queue:native/*").groups} == {"native"}
    assert not writer.groups(where="queue:lists/nothing").groups


def test_a_plan_over_all_keeps_them_apart_and_so_does_its_batch(writer: Writer, seeded: redis.Redis) -> None:
    before = values(seeded)
    plan = writer.plan("retry", where=f"queue:{MAIL}")
    assert set(plan.head.queues) == {OWN, LIST, POOL}
    assert plan.by_queue == {OWN: 5, LIST: 4}
    assert [plan.label(queue) for queue in plan.by_queue] == [str(OWN), str(LIST)]
    assert Counter(entry.ref for entry in load_plan(plan.path).entries()) == plan.by_queue
    result = writer.apply(plan)
    assert (result.applied, result.queues) == (8, (OWN, LIST)), "another job holds one unique name"
    assert result.labels == [str(OWN), str(LIST)]
    batch = writer.batches()[result.batch]
    assert (batch.queues, batch.queues_of("native"), batch.all_adapters) == ([OWN, LIST], [MAIL], ["native", "lists"])
    assert writer.activity()[-1].queues == (str(OWN), str(LIST))
    assert writer.undo(result.batch).restored == 8
    assert list_of(values(seeded)) == list_of(before)


def list_of(found: dict[bytes, object]) -> dict[bytes, object]:
    return {key: value for key, value in found.items() if key.startswith(MAIL.encode())}


@pytest.mark.parametrize(("ref", "verb", "count"), [(OWN, "discard", 5), (LIST, "retry", 4), (POOL, "discard", 1)])
def test_a_plan_of_one_touches_no_other(
    writer: Writer, seeded: redis.Redis, ref: QueueRef, verb: str, count: int
) -> None:
    others = {key: value for key, value in values(seeded).items() if not is_of(ref, key)}
    plan = writer.plan(verb, str(ref), where="state:dead" if ref != POOL else "")
    assert (plan.head.queues, plan.by_queue) == ([ref], {ref: count})
    result = writer.apply(plan)
    assert (result.applied, result.queues) == (count, (ref,))
    after = values(seeded)
    assert {key: after.get(key) for key in others} == others
    assert writer.undo(result.batch).restored == count


def is_of(ref: QueueRef, key: bytes) -> bool:
    """Whether a key is one that a change of this queue may write."""
    own = {"native": f"{{{MAIL}}}:", "lists": MAIL, "vmpooler": "vmpooler__"}[ref.adapter]
    return key.startswith((own.encode(), b"qdeck:", b"{qdeck"))


def test_of_the_same_id_in_each_only_the_marked_ones_are_planned(writer: Writer) -> None:
    marked = [job for ref in (OWN, LIST) for job in writer.jobs(ref) if job.id == "twin"]
    plan, left_out = writer.plan_jobs("discard", marked)
    assert ({entry.ref for entry in plan.entries()}, left_out) == ({OWN, LIST}, [])
    [job] = [job for job in writer.jobs(POOL) if job.id == "twin"]
    plan, left_out = writer.plan_jobs("discard", [job])
    assert ([entry.ref for entry in plan.entries()], left_out) == ([POOL], [])


def test_what_is_skipped_says_of_which_queue(writer: Writer) -> None:
    plan = writer.plan("retry", str(LIST), ids=["nowhere"])
    [skip] = plan.tail.skipped
    assert (skip.ref, skip.as_json()["adapter"]) == (LIST, "lists")


@pytest.mark.parametrize(("ref", "found"), [(OWN, {OWN}), (POOL, set()), (LIST, set())])
def test_a_purge_of_one_takes_nothing_of_another(writer: Writer, ref: QueueRef, found: set[QueueRef]) -> None:
    plan = writer.plan_purge(queues=str(ref), limits=Limits(dlq_ttl=0.001))
    assert (plan.head.queues, set(plan.by_queue)) == ([ref], found)
    with pytest.raises(UsageError, match=f"^'{MAIL}' is a queue of"):
        writer.plan_purge(queues=MAIL)


def test_groups_and_stuck_jobs_are_of_one_queue_each(writer: Writer) -> None:
    assert {group.ref for group in writer.groups().groups if group.queue == MAIL} == {OWN, LIST}
    assert {group.ref for group in writer.groups(str(LIST)).groups} == {LIST}
    assert {job.ref for job in writer.stuck() if job.queue in SHARED} == {OWN, QueueRef("scheduler", "scheduler")}
    assert {job.ref for job in writer.stuck("scheduler/scheduler")} == {("scheduler", "scheduler")}


def test_a_native_queue_is_named_with_its_adapter_in_a_filter(writer: Writer) -> None:
    assert {group.ref for group in writer.groups(where=f"queue:native/{MAIL}").groups} == {OWN}
    assert writer.plan("retry", where=f"queue:native/{MAIL}").by_queue == {OWN: 5}


def test_a_queue_that_cannot_be_read_is_named_with_its_adapter(writer: Writer, seeded: redis.Redis) -> None:
    for part in ("dead_letter", "running"):
        seeded.delete(f"{{{MAIL}}}:{part}")
        seeded.set(f"{{{MAIL}}}:{part}", "a text")
    found = writer.groups()
    assert {group.ref for group in found.groups if group.queue == MAIL} == {LIST}
    assert any(why.startswith(f"native/{MAIL} cannot be read") for why in found.unread)
    unread: list[str] = []
    assert OWN not in {job.ref for job in writer.stuck(unread=unread)}
    assert any(why.startswith(f"native/{MAIL} cannot be read") for why in unread)
    skipped = [skip for skip in writer.plan("retry").tail.skipped if skip.ref == OWN]
    assert skipped
    assert f"native/{MAIL} cannot be read" in skipped[0].why
