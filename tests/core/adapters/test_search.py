"""Finding jobs by an id, a name, a task or a correlation: in every state of every queue, however many stand before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from qdeck.admin import IdSearch, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

LINE = 25_000
QUEUE = "shop:mail:actions"


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as made:
        yield made


@pytest.fixture
def line(raw: redis.Redis) -> None:
    """A scheduler with many jobs in its line, a dead letter and a delayed job."""
    raw.zadd("scheduler:queue:priority", {f"job-{at}": 50 for at in range(LINE)})
    raw.zadd("scheduler:queue:delayed", {"job-delayed": 4_000_000_000_000})
    letter = {"jobId": "job-dead", "reason": "Webhook answered 502", "failedAt": 1_700_000_000_000}
    raw.zadd("scheduler:queue:dlq", {json.dumps(letter): 1_700_000_000_000})


@pytest.mark.usefixtures("line")
@pytest.mark.parametrize(
    ("name", "state"), [(f"job-{LINE - 1}", "ready"), ("job-delayed", "delayed"), ("job-dead", "dead")]
)
def test_a_job_is_found_behind_a_long_line(writer: Writer, name: str, state: str) -> None:
    assert [(one.id, one.state, one.match) for one in writer.find(name)] == [(name, state, "id")]


@pytest.mark.usefixtures("line")
def test_what_is_not_there_is_not_found_in_all_of_it(writer: Writer) -> None:
    told: list[int] = []
    search = IdSearch(wanted="nowhere", progress=lambda scanned, _found: told.append(scanned))
    assert writer.find(search) == []
    assert search.cut == {}
    assert search.scanned == LINE + 2
    assert told == sorted(told)
    assert told[-1] == LINE + 2


@pytest.mark.usefixtures("line")
def test_a_search_that_stops_says_where(writer: Writer) -> None:
    search = IdSearch(wanted="nowhere", most=1000)
    assert writer.find(search) == []
    assert search.cut == {"scheduler": 1000}
    assert search.scanned < LINE


def test_a_native_job_by_its_name_and_by_an_id_in_its_payload(writer: Writer) -> None:
    named = writer.enqueue(QUEUE, "send", name="order-1841", unique=True)
    asked = writer.enqueue(QUEUE, "send", [{"data": {"correlation_id": "c-7"}, "task_id": "t-3"}])
    writer.enqueue(QUEUE, "send", ["mentions order-1841, c-7 and t-3"])
    for wanted, job, match in (
        ("order-1841", named, "name"), ("c-7", asked, "correlation_id"), ("t-3", asked, "task_id"),
        (named.id, named, "id"),
    ):  # fmt: skip
        assert [(one.id, one.match) for one in writer.find(wanted)] == [(job.id, match)], wanted


def test_a_message_is_followed_through_request_response_and_callback(writer: Writer, raw: redis.Redis) -> None:
    request = {"action_id": "a-1", "action_type": "embed", "task_id": "t-1", "correlation_id": "c-1", "data": {}}
    response = {"action_id": "a-2", "success": True, "correlation_id": "c-1", "data": {}}
    callback = {"action_id": "a-3", "action_type": "embed.completed", "data": {"correlation_id": "c-1"}}
    raw.lpush("shop:embedding:actions", json.dumps(request))
    raw.lpush("shop:embedding:responses:ingest:c-1", json.dumps(response))
    raw.lpush("shop:ingest:callbacks:t-1:c-1", json.dumps(callback))
    raw.lpush(
        "shop:ingest:actions", json.dumps({**request, "action_id": "b-1", "task_id": "t-2", "correlation_id": "c-2"})
    )
    for wanted in ("c-1", "a-1", "a-2", "a-3"):
        assert {one.id for one in writer.find(wanted)} == {"a-1", "a-2", "a-3"}, wanted


def test_a_wanted_text_that_is_no_text_of_a_filter(writer: Writer) -> None:
    job = writer.enqueue(QUEUE, "send", name='say "hi"*\\')
    assert [one.id for one in writer.find('say "hi"*\\')] == [job.id]
