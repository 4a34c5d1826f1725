"""Lists with the names of the document on names and patterns, written as it writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from qdeck._list_names import ListNames
from qdeck.admin import Writer
from qdeck.testing.adapters import values
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

EMBEDDING = "nooble4:dev:embedding:actions"
MANAGEMENT = "nooble4:dev:management:actions"
BY_DEFAULT = "nooble4:dev:management:default:actions"


def action(name: str, **more: object) -> str:
    """A DomainAction."""
    return json.dumps({"action_id": name, "action_type": "embedding.generate_batch", "data": {}, **more})


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as writer:
        yield writer


def test_dead_letter_as_the_type_of_a_queue_has_dead_letters_of_the_service(writer: Writer, raw: redis.Redis) -> None:
    raw.rpush("nooble4:dev:embedding:dead_letter", action("a1"), action("a2"))
    raw.rpush("nooble4:dev:embedding:tenant_xyz:dead_letter", action("a3"))
    before = values(raw)
    assert {(row.name, row.ready, row.dead) for row in writer.snapshot().queues} == {
        (EMBEDDING, 0, 2), ("nooble4:dev:embedding:tenant_xyz:actions", 0, 1)
    }  # fmt: skip
    assert writer.health().errors.dead == 3
    assert {job.id for job in writer.jobs("nooble4:dev:embedding:dead_letter", state="dead")} == {"a1", "a2"}

    batch = writer.apply(writer.plan("retry", "nooble4:dev:embedding:dead_letter"))
    assert batch.applied == 2
    assert raw.lrange(EMBEDDING, 0, -1) == [action("a1").encode(), action("a2").encode()]
    assert not raw.exists("nooble4:dev:embedding:dead_letter")
    writer.undo(batch.batch)
    assert values(raw) == before


def test_a_list_of_a_task_keeps_its_own_dead_letters(writer: Writer, raw: redis.Redis) -> None:
    raw.rpush("execution:agent_run:professional:12345:dead_letter", action("a1"))
    [row] = writer.snapshot().queues
    assert (row.name, row.dead) == ("execution:agent_run:professional:*", 1)
    writer.apply(writer.plan("retry", row.name))
    assert raw.lrange("execution:agent_run:professional:12345", 0, -1) == [action("a1").encode()]


def test_with_and_without_the_default_context_it_is_one_queue(writer: Writer, raw: redis.Redis) -> None:
    raw.rpush(MANAGEMENT, action("a1"))
    raw.rpush(BY_DEFAULT, action("a2"))
    raw.rpush(f"{BY_DEFAULT}:dead_letter", action("a3"))
    [row] = writer.snapshot().queues
    assert (row.name, row.ready, row.dead) == (MANAGEMENT, 2, 1)
    for name in (MANAGEMENT, BY_DEFAULT):
        assert {job.id for job in writer.jobs(name)} == {"a1", "a2", "a3"}
    writer.apply(writer.plan("retry", MANAGEMENT))
    assert raw.lrange(BY_DEFAULT, 0, -1) == [action("a2").encode(), action("a3").encode()]


def test_the_name_of_one_list_is_a_queue(writer: Writer, raw: redis.Redis) -> None:
    raw.rpush("execution:agent_run:professional:12345", action("a1"))
    raw.rpush("execution:agent_run:professional:67890", action("a2"))
    [row] = writer.snapshot().queues
    assert (row.name, row.ready) == ("execution:agent_run:professional:*", 2)
    assert [job.id for job in writer.jobs("execution:agent_run:professional:12345")] == ["a1"]
    batch = writer.apply(writer.plan("discard", "execution:agent_run:professional:12345"))
    assert batch.applied == 1
    assert not raw.exists("execution:agent_run:professional:12345")
    assert raw.llen("execution:agent_run:professional:67890") == 1


@pytest.mark.parametrize(
    ("name", "live"),
    [
        ("nooble4:dev:management:actions:dead_letter", MANAGEMENT),
        ("nooble4:dev:management:dead_letter", MANAGEMENT),
        ("nooble4:dev:management:dead_letter:default", MANAGEMENT),
        ("nooble4:dev:ingestion_service:callbacks:embedding:dead_letter",
         "nooble4:dev:ingestion_service:callbacks:embedding"),
        (MANAGEMENT, MANAGEMENT),
        (":dead_letter", ":dead_letter"),
    ],
)  # fmt: skip
def test_the_list_to_which_dead_letters_belong(name: str, live: str) -> None:
    assert ListNames().live_of(name) == live


def test_an_id_in_the_data_of_an_action_is_found(writer: Writer, raw: redis.Redis) -> None:
    raw.rpush(EMBEDDING, action("a1", data={"correlation_id": "corr123", "task_id": "task_987efg"}))
    assert [place.id for name in ("corr123", "task_987efg") for place in writer.find(name)] == ["a1", "a1"]


def test_what_lists_of_tasks_hold_is_found_by_task_and_tier(writer: Writer, raw: redis.Redis) -> None:
    raw.rpush("execution:agent_run:professional:12345", "no action")
    raw.rpush("execution:agent_run:free:12345", action("a2", task_id="other", tenant_tier="enterprise"))
    raw.rpush(EMBEDDING, action("a3", task_id="12345", tenant_tier="professional"))
    assert {place.queue for place in writer.find("12345")} == {"execution:agent_run:professional:*", EMBEDDING}
    by_tier = {row.name: [job.state for job in writer.jobs(row.name, where="tag:tier:professional")]
               for row in writer.snapshot().queues}  # fmt: skip
    assert by_tier == {
        "execution:agent_run:professional:*": ["ready"], "execution:agent_run:free:*": [], EMBEDDING: ["ready"]
    }  # fmt: skip
    for queue in ("execution:agent_run:professional:12345", "execution:agent_run:professional:*"):
        assert len(list(writer.jobs(queue, where="tag:task_id:12345"))) == 1


def test_the_key_of_dead_letters_stands_for_them_newest_first(
    url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    """It listed the ready actions of the service, too, and before them."""
    raw.rpush(MANAGEMENT, action("ready"))
    times = {"old": "2026-11-18T05:00:00Z", "new": "2026-11-18T07:00:00Z", "middle": "2026-11-18T06:00:00Z"}
    for name, failed_at in times.items():
        raw.rpush(f"{MANAGEMENT}:dead_letter", action(name, failed_at=failed_at))
    for words in (["jobs"], ["jobs", "--where", "id:*"], ["dead"]):
        assert main([*words, f"{MANAGEMENT}:dead_letter", "--json", "--url", url]) == 0
        assert [job["id"] for job in json.loads(capsys.readouterr().out)] == ["new", "middle", "old"]
    assert main(["jobs", MANAGEMENT, "--json", "--url", url]) == 0
    assert {job["id"] for job in json.loads(capsys.readouterr().out)} == {"ready", *times}


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ({"reason": "model overloaded"}, "Error", "model overloaded"),
        ({"error": "model overloaded"}, "Error", "model overloaded"),
        ({"error": {"error_type": "RateLimit", "message": "429 from openai"}}, "RateLimit", "429 from openai"),
        ({"error_type": "RateLimit", "error_message": "429 from openai"}, "RateLimit", "429 from openai"),
        ({"texts": ["a"]}, "Error", None),
    ],
)
def test_the_reason_in_the_data_of_a_dead_letter_is_its_error(
    writer: Writer, raw: redis.Redis, data: dict[str, object], error: str, message: str | None
) -> None:
    """The document puts the details of an error into `DomainAction.data`. Those of a waiting action are not its own."""
    raw.rpush(f"{EMBEDDING}:dead_letter", action("a1", data={"correlation_id": "corr123", **data}, error=None))
    raw.rpush(EMBEDDING, action("a2", data=data))
    [letter] = writer.dead_letters()
    assert (letter.error, letter.message) == (error, message)
    [group] = writer.groups().groups
    assert (group.error_class, group.message_shape) == (error, message or "")
    failure = writer.job(EMBEDDING, "a1").failure
    assert failure is not None
    assert (failure.class_name, failure.message) == (error, message or "")
    assert [job.error for job in writer.jobs(EMBEDDING, state="ready")] == [None]


@pytest.mark.parametrize("where", ["correlation_id:corr123", "task_id:task_*", "correlation_id:corr123,other"])
def test_the_ids_of_an_envelope_are_fields_wherever_the_document_has_them(
    writer: Writer, raw: redis.Redis, where: str
) -> None:
    """The document puts them into `DomainAction.data`; later services write them beside it."""
    raw.rpush(EMBEDDING, action("inside", data={"correlation_id": "corr123", "task_id": "task_987efg"}))
    raw.rpush(EMBEDDING, action("beside", correlation_id="corr123", task_id="task_987efg"))
    raw.rpush(EMBEDDING, action("none", data={"correlation_id": "corr9", "task_id": "t"}, correlation_id="corr124"))
    assert {job.id for job in writer.jobs(EMBEDDING, where=where)} == {"inside", "beside"}


@pytest.mark.parametrize(
    "where",
    ["action_id:a1", "action_type:embedding.generate", "tenant_tier:professional", "callback_queue_name:*:corr123"],
)
def test_the_fields_of_an_action_are_fields_of_a_filter(writer: Writer, raw: redis.Redis, where: str) -> None:
    data = {"callback_queue_name": "nooble4:dev:ingestion_service:callbacks:embedding:corr123"}
    raw.rpush(EMBEDDING, action("a1", action_type="embedding.generate", tenant_tier="professional", data=data))
    raw.rpush(EMBEDDING, action("a2", tenant_tier="free"))
    assert [job.id for job in writer.jobs(EMBEDDING, where=where)] == ["a1"]
