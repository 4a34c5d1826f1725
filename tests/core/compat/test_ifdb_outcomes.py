"""The table of the migration page: one script of enqueue, fail, retry, dependency, cron and clean-up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import qdeck
from core.compat.site_tasks import CALLS, Breaks, CloneFile, FetchFeeds, MarkBroken, RecodeGame
from qdeck._engine import codec
from qdeck._schedules import store
from qdeck.admin import Writer
from qdeck.compat import ifdb
from qdeck.compat.ifdb import Enqueue, EnqueueOrGet
from support.processes import ROOT
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.beside import Beside

PAGE = ROOT / "core" / "docs" / "how-to" / "migrate-from-ifdb.md"
KEY = f"{{{ifdb.QUEUE}}}"


def promised() -> dict[str, str]:
    text = PAGE.read_text("utf-8").split("## What behaves differently")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: row[-1] for row in rows[2:]}


def calls(name: str) -> list[tuple[Any, ...]]:
    return [call for call in CALLS if call[0] == name]


def test_what_the_page_promises(site: ifdb.TaskQueue, raw: Any, work: Callable[..., Beside]) -> None:
    seen: dict[str, str] = {}
    run = site.app.client.run
    for number, priority in enumerate((200, 100, 1, 100)):
        Enqueue(CloneFile, number, priority=priority)
    failing = Enqueue(Breaks, 7, onfail=MarkBroken, retries=3, retry_minutes=0)
    slow = Enqueue(Breaks, 8, retries=1)
    after = Enqueue(RecodeGame, 1, dependency=failing)
    for _ in range(3):
        Enqueue(FetchFeeds, name="FetchFeeds", cron="* * * * * *", priority=50)
    Enqueue(Breaks, 9, name="recurs", cron="* * * * * *", retries=0)
    seen["copies after three deployments"] = str(sum(row.name == "FetchFeeds" for row in run(store.read())))
    try:
        Enqueue(RecodeGame, 2, dependency="0123")
        seen["an unknown dependency"] = "is taken"
    except qdeck.UnknownDependency:
        seen["an unknown dependency"] = "is refused"
    get = Enqueue(RecodeGame, 3, name="r", scheduled_time=later())
    EnqueueOrGet(RecodeGame, 3, name="r", priority=5)
    seen["EnqueueOrGet with priority 5 of a pending task of 100"] = str(priority_of(raw, get))
    new = EnqueueOrGet(RecodeGame, 4, name="s", priority=5, scheduled_time=later())
    seen["EnqueueOrGet that makes a task with priority 5"] = str(priority_of(raw, new))
    ended = EnqueueOrGet(RecodeGame, 5, name="t")

    run(ifdb._keep_long(ifdb.QUEUE))
    work()
    wait_until(lambda: calls("MarkBroken") and len(calls("FetchFeeds")) >= 3 and after.fail and ended.success)
    wait_until(lambda: raw.zscore(f"{KEY}:delayed", slow))
    wait_until(lambda: len([call for call in calls("Breaks") if call[1] == 9]) >= 3)

    seen["runs of a task that always fails, retries=3"] = str(len([call for call in calls("Breaks") if call[1] == 7]))
    wait_s = raw.zscore(f"{KEY}:delayed", slow) / 1000 - time.time()
    seen["minutes between its runs"] = str(round(wait_s / 60))
    order = [str(call[1]) for call in calls("CloneFile")]
    seen["order of four tasks with priorities 200, 100, 1, 100"] = " ".join(order)
    _, argument, call, *_ = calls("MarkBroken")[0]
    handler = "task, call" if argument == 7 and set(call) == {"module", "name", "argv", "kwarg"} else str(call)
    seen["failure handler gets"] = handler
    why = codec.read_events(raw.hget(f"{KEY}:error", after))[-1]
    seen["a task whose dependency failed"] = "fails, with the reason" if why.kind == "dependency" else why.kind
    with Writer(str(site.app.endpoint.url)) as writer:
        writer.apply(writer.plan("retry", ifdb.QUEUE, ids=[after.id]))
    seen['the same after "retry failed"'] = {"blocked": "waits until that one succeeds"}.get(after.state, after.state)
    seen["a recurring task that failed permanently"] = "goes on"
    ticks = [job for job in raw.zrange(f"{KEY}:done", 0, -1) if job.startswith(b"cron:FetchFeeds:2")]
    seen["priority of the second run of a recurring task of 50"] = str(priority_of(raw, ticks[0]))
    again = EnqueueOrGet(RecodeGame, 5, name="t")
    seen["EnqueueOrGet of a name that has succeeded"] = "makes a new one" if again.created else "returns the old task"
    done, dead = (int(ms) // 86_400_000 for ms in raw.hmget(f"{KEY}:meta", "done_ttl", "dead_ttl"))
    seen["succeeded tasks are kept for"] = f"{done} days"
    seen["failed tasks are kept for"] = f"{dead // 365} years"
    assert seen == promised()


def later() -> Any:
    from datetime import UTC, datetime, timedelta

    return datetime.now(UTC) + timedelta(hours=1)


def priority_of(raw: Any, job_id: Any) -> int:
    return codec.read_head(raw.hget(f"{KEY}:head", job_id)).priority
