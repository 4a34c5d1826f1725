"""IFDB's names: every call of its page, its real outcomes, and the better ones that the migration page lists."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from core.compat import site_tasks
from core.compat.site_tasks import (
    CALLS,
    HELD,
    Breaks,
    BrokenHandler,
    CloneFile,
    FetchFeeds,
    Holds,
    ImportGames,
    Later,
    MarkBroken,
    RecodeGame,
)
from qdeck import Task
from qdeck._engine import codec
from qdeck._schedules import store
from qdeck._task_options import Options
from qdeck.admin import Writer
from qdeck.compat import ifdb
from qdeck.compat.ifdb import Enqueue, EnqueueOrGet, TaskQueue, task_queue
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.beside import Beside

KEY = f"{{{ifdb.QUEUE}}}"
pytestmark = pytest.mark.usefixtures("site")


def head(raw: Any, job_id: str) -> codec.JobHead:
    return codec.read_head(raw.hget(f"{KEY}:head", job_id))


def test_the_usage_patterns_of_the_page(raw: Any, work: Callable[..., Beside]) -> None:
    url_id = 42
    Enqueue(CloneFile, url_id)
    Enqueue(CloneFile, url_id, name=f"CloneUrl({url_id})", onfail=MarkBroken)
    Enqueue(ImportGames, priority=50, retries=5, name="ImportGames")
    task = EnqueueOrGet(RecodeGame, url_id, name=f"RecodeGame({url_id})")
    assert EnqueueOrGet(RecodeGame, url_id, name=f"RecodeGame({url_id})") == task
    assert task.pending
    assert task.name == "RecodeGame(42)"
    work()
    wait_until(lambda: len(CALLS) == 4)
    assert CALLS == [
        ("ImportGames", False),
        ("CloneFile", 42, {}),
        ("CloneFile", 42, {}),
        ("RecodeGame", 42),
    ]
    wait_until(lambda: task.success)


def test_the_periodic_tasks_of_the_page(raw: Any, work: Callable[..., Beside]) -> None:
    """`setup_periodic_tasks`, run by three deployments."""
    half_hour = time.time() // 1800
    for _ in range(3):
        task_queue.enqueue(ImportGames, name="ImportGames", cron="0 */6 * * *", priority=50)
        task_queue.enqueue(FetchFeeds, name="FetchFeeds", cron="*/30 * * * *", priority=75)
    rows = {row.name: row for row in task_queue.app.client.run(store.read())}
    assert {name: (row.cron, row.tz, row.priority) for name, row in rows.items()} == {
        "ImportGames": ("0 */6 * * *", "UTC", 50),
        "FetchFeeds": ("*/30 * * * *", "UTC", 75),
    }
    work()
    wait_until(lambda: [row.last_outcome for row in task_queue.app.client.run(store.read())] == ["done", "done"])
    calls = list(CALLS)
    if time.time() // 1800 == half_hour:  # else a turn has come meanwhile
        assert calls == [("ImportGames", False), ("FetchFeeds",)]


def test_recurring_calls_without_a_name_are_told_apart_by_their_arguments() -> None:
    for _ in range(2):
        for url_id in (1, 2):
            Enqueue(CloneFile, url_id, cron="0 4 * * *")
        Enqueue(FetchFeeds, cron="0 4 * * *")
    rows = task_queue.app.client.run(store.read())
    assert sorted(row.payload for row in rows) == [b"[[1],{}]", b"[[2],{}]", b"[[],{}]"]
    assert {row.task for row in rows} == {"core.compat.site_tasks.CloneFile", "core.compat.site_tasks.FetchFeeds"}


def test_what_is_empty_counts_as_not_given(raw: Any) -> None:
    made = [call(CloneFile, 7, name="", cron="", dependency="") for call in (Enqueue, EnqueueOrGet, EnqueueOrGet)]
    assert len(set(made)) == 3
    assert {(head(raw, job).name, job.state) for job in made} == {(None, "ready")}


def test_a_recurring_task_keeps_its_options_and_goes_on_after_failures(raw: Any, work: Callable[..., Beside]) -> None:
    Enqueue(Breaks, 7, name="b", cron="* * * * * *", priority=5, retries=0, onfail=MarkBroken, retry_minutes=1)
    work()
    wait_until(lambda: len([call for call in CALLS if call[0] == "MarkBroken"]) >= 3)
    dead = raw.zrange(f"{KEY}:dead_letter", 0, -1)
    heads = [head(raw, job) for job in dead]
    assert len(heads) >= 3
    assert {(h.priority, h.retries, h.on_failure, h.name, h.backoff) for h in heads} == {
        (5, 0, "core.compat.site_tasks.MarkBroken", "b", "F 60000 60000")
    }


def test_a_recurring_task_may_start_later(raw: Any) -> None:
    start = datetime.now(UTC) + timedelta(hours=5)
    first = Enqueue(FetchFeeds, cron="* * * * *", scheduled_time=start)
    assert raw.zscore(f"{KEY}:delayed", first) == pytest.approx(start.timestamp() * 1000, abs=1000)
    [row] = task_queue.app.client.run(store.read())
    assert row.name == "core.compat.site_tasks.FetchFeeds"
    assert row.next_ms is not None
    assert row.next_ms > start.timestamp() * 1000
    assert row.late_s is None


def test_runs_are_retries_plus_one_and_the_handler_gets_task_and_call(raw: Any, work: Callable[..., Beside]) -> None:
    Enqueue(Breaks, 7, name="CloneUrl(7)", onfail=MarkBroken, retries=3, retry_minutes=0)
    work()
    wait_until(lambda: any(call[0] == "MarkBroken" for call in CALLS))
    assert [call[0] for call in CALLS] == ["Breaks"] * 4 + ["MarkBroken"]
    _, argument, context, name, _, failed = CALLS[-1]
    assert (argument, name, failed) == (7, "CloneUrl(7)", True)
    assert context == {"module": "core.compat.site_tasks", "name": "Breaks", "argv": [7], "kwarg": {}}


def test_a_retry_waits_for_a_fixed_time(raw: Any, work: Callable[..., Beside]) -> None:
    job = Enqueue(Breaks, 7)
    assert job.retries_left == 3
    work()
    wait_until(lambda: raw.zscore(f"{KEY}:delayed", job))
    assert job.retries_left == 2
    due = raw.zscore(f"{KEY}:delayed", job) / 1000
    assert due - time.time() == pytest.approx(2000 * 60, abs=60)
    assert "about to break" in job.log
    assert job.pending
    assert not job.fail


def test_order_is_priority_then_first_come(work: Callable[..., Beside]) -> None:
    for number, priority in enumerate((200, 100, 1, 100)):
        Enqueue(CloneFile, number, priority=priority)
    work()
    wait_until(lambda: len(CALLS) == 4)
    assert [call[1] for call in CALLS] == [2, 1, 3, 0]


def test_a_task_that_runs_is_pending(work: Callable[..., Beside]) -> None:
    task = Enqueue(Holds, 1)
    work()
    wait_until(lambda: task.state == "running")
    assert task.pending
    HELD.set()
    wait_until(lambda: task.success)
    assert not task.pending


def test_a_failure_handler_runs_once(work: Callable[..., Beside]) -> None:
    """As IFDB's, whose errors were only logged."""
    Enqueue(Breaks, 7, retries=0, onfail=BrokenHandler)
    work()
    with Writer(str(task_queue.app.endpoint.url)) as writer:
        wait_until(lambda: len(list(writer.jobs(ifdb.QUEUE, state="dead"))) == 2)
        assert list(writer.jobs(ifdb.QUEUE, state=["ready", "delayed", "running"])) == []
    assert [call[0] for call in CALLS] == ["Breaks", "BrokenHandler"]


def test_a_name_may_have_255_characters(work: Callable[..., Beside]) -> None:
    long = "CloneUrl(" + 245 * "9" + ")"
    first = EnqueueOrGet(RecodeGame, 1, name=long)
    assert (first.name, EnqueueOrGet(RecodeGame, 1, name=long)) == (long, first)
    assert EnqueueOrGet(RecodeGame, 1, name=long[:-2] + "8)") != first


def test_one_at_a_time(work: Callable[..., Beside]) -> None:
    assert work().worker.concurrency == 1


def test_named_arguments_go_to_the_function(work: Callable[..., Beside]) -> None:
    Enqueue(CloneFile, 1, append=True, deep={"a": [1, None]})
    work()
    wait_until(lambda: CALLS)
    assert CALLS == [("CloneFile", 1, {"append": True, "deep": {"a": [1, None]}})]


def test_a_dependency_releases_only_on_success(raw: Any, work: Callable[..., Beside]) -> None:
    first = Enqueue(CloneFile, 1)
    then = Enqueue(RecodeGame, 2, dependency=first)
    also = Enqueue(RecodeGame, 3, dependency=SimpleNamespace(id=first.id))
    assert then.pending
    bad = Enqueue(Breaks, 9, retries=0)
    never = Enqueue(RecodeGame, 4, dependency=bad, onfail=MarkBroken)
    work()
    wait_until(lambda: never.fail and also.success and then.success)
    wait_until(lambda: any(call[0] == "MarkBroken" for call in CALLS))
    assert [call for call in CALLS if call[0] == "RecodeGame"] == [("RecodeGame", 2), ("RecodeGame", 3)]


def test_a_dependency_that_nobody_knows_is_refused() -> None:
    with pytest.raises(qdeck.UnknownDependency):
        Enqueue(RecodeGame, 2, dependency="0123456789abc")


@pytest.mark.parametrize("aware", [True, False])
def test_a_scheduled_time_is_waited_for(raw: Any, aware: bool) -> None:
    when = datetime.now(UTC) + timedelta(hours=1) if aware else datetime.now() + timedelta(hours=1)  # noqa: DTZ005 - that is the case
    job = Enqueue(CloneFile, 1, scheduled_time=when)
    assert raw.zscore(f"{KEY}:delayed", job) / 1000 == pytest.approx(time.time() + 3600, abs=60)


def test_get_finds_what_enqueue_made_and_makes_it_more_urgent(raw: Any) -> None:
    made = Enqueue(RecodeGame, 1, name="r")
    found = EnqueueOrGet(RecodeGame, 1, name="r", priority=5)
    assert (found, found.created) == (made, False)
    assert head(raw, made).priority == 5
    assert raw.zscore(f"{KEY}:ready", made) < 6 * 10**13
    EnqueueOrGet(RecodeGame, 1, name="r", priority=80)
    assert head(raw, made).priority == 5
    assert raw.zcard(f"{KEY}:ready") == 1


def test_get_gives_the_options_to_what_it_makes(raw: Any) -> None:
    """IFDB lost the priority here: 100, whatever was said."""
    made = EnqueueOrGet(RecodeGame, 1, name="r", priority=5, retries=9, onfail=MarkBroken, retry_minutes=1)
    seen = head(raw, made)
    assert (seen.priority, seen.retries, seen.on_failure) == (5, 9, "core.compat.site_tasks.MarkBroken")


def test_get_makes_a_new_one_when_the_old_one_has_ended(work: Callable[..., Beside]) -> None:
    """IFDB found a task in any state, so a name that had failed or succeeded once was never run again."""
    first = EnqueueOrGet(RecodeGame, 1, name="r")
    work()
    wait_until(lambda: first.success)
    second = EnqueueOrGet(RecodeGame, 1, name="r")
    assert second.created
    wait_until(lambda: len(CALLS) == 2)


def test_get_finds_every_pending_task_of_a_name(work: Callable[..., Beside]) -> None:
    """Also when the one that had the name first has ended: another one made a second task beside it."""
    first = Enqueue(RecodeGame, 1, name="r")
    later = [
        Enqueue(CloneFile, number, name="r", scheduled_time=datetime.now(UTC) + timedelta(hours=number))
        for number in (1, 2)
    ]
    assert EnqueueOrGet(RecodeGame, 1, name="r") == first
    work()
    wait_until(lambda: first.success)
    assert (EnqueueOrGet(RecodeGame, 1, name="r", priority=5), len(CALLS)) == (later[0], 1)
    with Writer(str(task_queue.app.endpoint.url)) as writer:
        writer.apply(writer.plan("discard", ifdb.QUEUE, ids=[later[0]]))
        assert EnqueueOrGet(RecodeGame, 1, name="r") == later[1]
        writer.apply(writer.plan("discard", ifdb.QUEUE, ids=[later[1]]))
    assert EnqueueOrGet(RecodeGame, 1, name="r").created


def test_enqueue_does_not_look_at_names(raw: Any) -> None:
    made = {Enqueue(RecodeGame, 1, name="r"), Enqueue(RecodeGame, 1, name="r")}
    assert raw.zcard(f"{KEY}:ready") == len(made) == 2


def test_get_without_a_name_enqueues(raw: Any) -> None:
    assert EnqueueOrGet(RecodeGame, 1) != EnqueueOrGet(RecodeGame, 1)


def test_async_functions_run_too(work: Callable[..., Beside]) -> None:
    Enqueue(Later, "on")
    work()
    wait_until(lambda: CALLS == [("Later", "on")])


@pytest.mark.parametrize(
    "task",
    ["os.system", "core.compat.site_tasks.system", "core.compat.site_tasks.CALLS", "builtins.eval",
     "core.compat.site_tasks.Any", "core.compat.site_tasks.nothing", "site_tasks.CloneFile",
     "core.compat.conftest.site", "nothing"],
)  # fmt: skip
def test_a_payload_leads_to_no_function_but_those_of_the_modules(
    raw: Any, work: Callable[..., Beside], tmp_path: Any, task: str
) -> None:
    flag = tmp_path / "flag"
    forged = Task(task_queue.app, print, task, Options(queue=ifdb.QUEUE))
    job = forged.enqueue(f"touch {flag}", _retries=0)
    work()
    wait_until(lambda: job.state() == "delayed")
    assert not flag.exists()
    # It went back for 5 s, as another worker may have the function, and health says that none does.
    assert raw.zscore(f"{KEY}:delayed", job.id) < (time.time() + 6) * 1000
    assert b" unknown_task " in raw.hget(f"{KEY}:error", job.id)
    with Writer(str(task_queue.app.endpoint.url)) as writer:
        assert f"no worker has task {task}, 1 job of {ifdb.QUEUE} waiting" in {
            reason.text for reason in writer.snapshot().findings
        }


@pytest.mark.parametrize("func", [lambda: None, "CloneFile", None, [].append, dict.get, TaskQueue.enqueue])
def test_what_no_worker_could_find_is_refused(func: Any) -> None:
    with pytest.raises(qdeck.InvalidOption) as refused:
        Enqueue(func)
    assert refused.value.hint


@pytest.mark.parametrize(
    "options",
    [{"priority": 900}, {"priority": -1}, {"retries": -1}, {"retry_minutes": -1}, {"retry_minutes": "5"},
     {"scheduled_time": "now"}, {"name": "a\nb"}, {"cron": "bad"}, {"cron": "* * * * *", "dependency": "0123"}],
)  # fmt: skip
def test_an_option_that_cannot_be_is_refused(raw: Any, options: dict[str, Any]) -> None:
    with pytest.raises(qdeck.UsageError) as refused:
        Enqueue(CloneFile, 1, **options)
    assert refused.value.hint
    assert raw.keys("*") == []


def test_the_worker_must_be_given_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QDECK_TASK_MODULES", raising=False)
    with pytest.raises(qdeck.UsageError, match="no modules"):
        ifdb.Worker()
    with pytest.raises(qdeck.UsageError, match="there is no module"):
        ifdb.Worker(["no.such.module"])


def test_names_that_no_schedule_can_have() -> None:
    Enqueue(CloneFile, 1, name="CloneUrl(1)", cron="0 0 * * *")
    Enqueue(CloneFile, 1, name="CloneUrl[1]", cron="0 0 * * *")
    Enqueue(CloneFile, 1, name="ééé", cron="0 0 * * *")
    assert len(task_queue.app.client.run(store.read())) == 3


def test_what_ended_is_kept_as_long_as_ifdb_kept_it(raw: Any) -> None:
    run = task_queue.app.client.run
    run(ifdb._keep_long(ifdb.QUEUE))
    assert raw.hmget(f"{KEY}:meta", "done_ttl", "done_max") == [b"1209600000", b"10000"]
    raw.hset(f"{KEY}:meta", "done_ttl", 5)
    run(ifdb._keep_long(ifdb.QUEUE))
    assert raw.hget(f"{KEY}:meta", "done_ttl") == b"5"


def test_the_server_is_that_of_django_where_django_is_used(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SimpleNamespace(configured=True, REDIS_URL=url, QDECK_TASK_MODULES=["core.compat.site_tasks"])
    package, conf = ModuleType("django"), ModuleType("django.conf")
    conf.settings = settings  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(__import__("sys").modules, "django", package)
    monkeypatch.setitem(__import__("sys").modules, "django.conf", conf)
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere:1")
    assert ifdb._server_url() == url
    assert ifdb._modules(None) == [site_tasks]
    settings.configured = False
    assert ifdb._server_url() == "redis://elsewhere:1"
    monkeypatch.delenv("REDIS_URL")
    assert ifdb._server_url() == "redis://localhost:6379/0"


def test_the_worker_logs_the_name_of_each_task_and_the_trace_of_each_failure(
    work: Callable[..., Beside], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    good, bad = Enqueue(CloneFile, 1, name="CloneUrl(1)"), Enqueue(Breaks, 7, retries=0)
    work()
    wait_until(lambda: good.success and bad.fail)
    texts = [record.getMessage() for record in caplog.records if record.name == "qdeck.compat.ifdb"]
    assert "Executing task: CloneUrl(1)" in texts
    [failed] = [record for record in caplog.records if record.name == "qdeck.compat.ifdb" and record.exc_info]
    assert "Breaks" in failed.getMessage()
    assert "Started at " in good.log
    assert "Completed successfully at " in good.log
    assert "Failed: Traceback (most recent call last)" in bad.log
    assert "Completed" not in bad.log
