"""Errors that stay until a configuration changes: the manager tries no VM again after one, and neither does a retry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.adapters.vmpooler.written import PERMANENT, TRANSIENT, dead, request
from qdeck.admin import SkipCode, Writer
from support.commands import Ran, runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

ALL = (*PERMANENT, *TRANSIENT)


@pytest.fixture
def writer(url: str, raw: redis.Redis) -> Iterator[Writer]:
    """Dead letters with every error of the manager's table, and some that it would try again."""
    raw.sadd("vmpooler__pools", "centos-7")
    request(raw)
    for number, (error, message) in enumerate(ALL):
        dead(raw, "clone", f"vm-{number}", error_class=error, error_message=message)
    with Writer(url, adapters=("vmpooler",)) as writer:
        yield writer


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


def names(count: int, start: int = 0) -> set[str]:
    return {f"vm-{number}" for number in range(start, start + count)}


def test_a_retry_of_all_leaves_permanent_errors_out(writer: Writer) -> None:
    plan = writer.plan("retry")
    assert {entry.id for entry in plan.entries()} == names(len(TRANSIENT), len(PERMANENT))
    assert {skip.id for skip in plan.tail.skipped if skip.code is SkipCode.PERMANENT} == names(len(PERMANENT))
    assert writer.apply(plan).applied == len(TRANSIENT)
    assert {job.id for job in writer.jobs("centos-7", state="dead")} == names(len(PERMANENT))


def test_who_names_them_retries_them(writer: Writer) -> None:
    assert {entry.id for entry in writer.plan("retry", ids=["vm-0", "vm-13"]).entries()} == {"vm-0", "vm-13"}
    assert {entry.id for entry in writer.plan("retry", where="tag:permanent").entries()} == names(len(PERMANENT))
    shown = [job for job in writer.jobs("centos-7", state="dead") if job.id == "vm-0"]
    plan, skipped = writer.plan_jobs("retry", shown)
    assert (plan.count, skipped) == (1, [])


def test_other_verbs_take_them(writer: Writer) -> None:
    assert writer.plan("discard", where="-tag:permanent").count == len(TRANSIENT)
    assert writer.plan("discard", state="dead").count == len(ALL)


def test_an_error_without_a_class_or_a_message_is_not_permanent(writer: Writer, raw: redis.Redis) -> None:
    raw.delete("vmpooler__dlq__clone")
    dead(raw, "clone", "no-message", error_class="NameError", error_message=None)
    dead(raw, "clone", "no-class", error_class=None)
    assert {entry.id for entry in writer.plan("retry").entries()} == {"no-message", "no-class"}


def test_commands_show_it(writer: Writer, run: Callable[..., Ran], url: str) -> None:
    listed = run("dead", "--url", url)
    lines = {line.split()[1]: line for line in listed.out.splitlines() if " vm-" in line}
    assert len(lines) == len(ALL)
    assert {name for name, line in lines.items() if "(permanent)" in line} == names(len(PERMANENT))
    tried = run("dead", "retry", "--dry-run", "--url", url)
    assert tried.code == 1
    assert f"skipped {len(PERMANENT)} jobs (" in tried.err
    assert "the error is permanent; to retry it, name the job" in tried.err
    groups = {one["message_shape"]: one["permanent"] for one in run("dead", "--group", "--json", "--url", url).json}
    assert groups["template does not exist"]
    assert not groups["network timeout talking to vcenter"]
    assert run("dead", "--group", "--url", url).out.count("(permanent)") == len(PERMANENT)


def test_a_failed_task_has_its_own_reason(writer: Writer, raw: redis.Redis) -> None:
    raw.hset("vmpooler__dlq__tasks", "disk", '["vm-1:10"]')
    [skip] = writer.plan("retry", ids=["vm-1:10"]).tail.skipped
    assert skip.why == "a failed task belongs to no request; ask the API of VMPooler for it again"
