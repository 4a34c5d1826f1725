"""Every name of the two documents is read, written and built."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import qdeck
from qdeck import QueueName
from qdeck.messages import Names, TaskQueueName, segment
from qdeck.messages._names import own_name

PAGE = [
    "management:actions",
    "management:default:actions",
    "execution_service:responses:get_agent_config:c1a2b3d4-e5f6-7890-1234-567890abcdef",
    "ingestion_service:callbacks:embedding:batch_abc_completed",
    "execution_service:tenant_xyz:session_123:callbacks:query:rag_results",
    "ingestion:notifications:document_processed",
    "user_service:notifications:user_created",
    "nooble4:dev:management:actions",
    "nooble4:dev:management:default:actions",
    "nooble4:dev:embedding:tenant_xyz:actions",
    "nooble4:dev:execution_service:responses:get_agent_config:c1a2b3d4-e5f6-7890-1234-567890abcdef",
    "nooble4:dev:execution_service:tenant_abc:session_123:callbacks:query:rag_results",
    "nooble4:dev:ingestion_service:callbacks:embedding:task_987efg",
    "nooble4:dev:ingestion_service:callbacks:embedding:corr123",
    "nooble4:dev:ingestion_service:notifications:document_processed",
    "nooble4:dev:management:actions:dead_letter",
    "nooble4:dev:embedding:actions",
    # What was built later from that page.
    "nooble4:dev:agent_execution_service:responses:management_agent_get_config:c-1",
    "nooble4:dev:ingestion_service:callbacks:ingestion_embedding_result:c-2",
]


@pytest.mark.parametrize("text", PAGE)
def test_names_of_the_page_are_read_and_written_back(text: str) -> None:
    assert str(QueueName.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "execution:agent_run:professional:12345",
        "embedding:generate:enterprise:67890",
        "query:search:advance:24680",
        "execution:callback:free:13579",
        "execution:callback:free:a:b",
    ],
)
def test_names_of_the_first_generation_are_read_and_written_back(text: str) -> None:
    found = TaskQueueName.parse(text)
    assert str(found) == text
    assert found.tier in ("professional", "enterprise", "advance", "free")


@pytest.mark.parametrize(
    "text",
    [
        "nooble4:dev:management:actions:main",
        "execution:t-1:callbacks",
        "ingestion:t-1:actions",
        "ingestion:responses:c-9",
        "conversation:responses:suffix:c-1",
    ],
)
def test_what_services_built_by_hand_is_read_as_well(text: str) -> None:
    assert str(QueueName.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["nooble4:development:embedding:streams:main", "execution:agent-123:professional", "execution.t-1.actions"],
)
def test_other_names_that_were_in_use_are_told_to_lack_a_type(text: str) -> None:
    with pytest.raises(qdeck.InvalidName, match="no type") as told:
        QueueName.parse(text)
    assert "actions" in (told.value.hint or "")


@pytest.mark.parametrize("text", ["", "a:b:c", "a:b:gold:1", "a:b:free:", ":b:free:1", "management:actions"])
def test_other_names_are_none_of_the_first_generation(text: str) -> None:
    with pytest.raises(qdeck.InvalidName, match="is not"):
        TaskQueueName.parse(text)


def names(own: str, **services: str) -> Names:
    return Names(QueueName.parse(own), services)


def test_a_service_builds_the_names_of_the_page() -> None:
    execution = names("nooble4:dev:execution_service:actions")
    assert str(execution.actions("management")) == "nooble4:dev:management:actions"
    assert str(execution.actions("embedding", "tenant_xyz")) == "nooble4:dev:embedding:tenant_xyz:actions"
    assert str(execution.responses("get_agent_config", "c1a2")) == (
        "nooble4:dev:execution_service:responses:get_agent_config:c1a2"
    )
    session = names("nooble4:dev:execution_service:tenant_abc:session_123:actions")
    assert str(session.callbacks("query", "rag_results")) == (
        "nooble4:dev:execution_service:tenant_abc:session_123:callbacks:query:rag_results"
    )
    ingestion = names("nooble4:dev:ingestion_service:actions")
    assert str(ingestion.callbacks("embedding", "task_987efg")) == (
        "nooble4:dev:ingestion_service:callbacks:embedding:task_987efg"
    )
    assert str(ingestion.notifications("document_processed")) == (
        "nooble4:dev:ingestion_service:notifications:document_processed"
    )
    assert str(ingestion.actions("management").dead_letter()) == "nooble4:dev:management:actions:dead_letter"


def test_two_spellings_of_a_service_are_one_queue() -> None:
    assert str(names("a:dev:x:actions", query="query_service").actions("query")) == "a:dev:query_service:actions"


@pytest.mark.parametrize("own", ["nooble4:dev:management:actions", "nooble4:dev:management:default:actions"])
def test_with_and_without_the_default_context_it_is_one_queue(own: str) -> None:
    assert str(own_name(own, None, ())) == "nooble4:dev:management:actions"
    assert str(names(own).actions("management", "default")) == "nooble4:dev:management:actions"
    assert str(names(own).actions("embedding", "tenant_xyz")) == "nooble4:dev:embedding:tenant_xyz:actions"


def test_a_response_queue_has_the_name_of_the_action_without_its_service() -> None:
    execution = names("nooble4:dev:execution_service:actions")
    correlation = "c1a2b3d4-e5f6-7890-1234-567890abcdef"
    found = f"nooble4:dev:execution_service:responses:get_agent_config:{correlation}"
    for kind in ("management.get_agent_config", "get_agent_config"):
        assert str(execution.responses(kind, correlation)) == execution.response_queue(kind, correlation) == found


def test_dots_of_an_action_become_underscores_in_a_response_queue() -> None:
    found = names("nooble4:dev:agent_execution_service:actions").responses("management.agent.get_config", "c-1")
    assert str(found) == "nooble4:dev:agent_execution_service:responses:agent_get_config:c-1"


@given(st.text(min_size=1, max_size=300))
def test_any_id_becomes_one_segment(text: str) -> None:
    found = segment(text)
    assert str(QueueName.parse(f"a:responses:{found}")) == f"a:responses:{found}"


@given(st.text(min_size=1, max_size=100), st.text(min_size=1, max_size=100))
def test_different_ids_stay_different(one: str, other: str) -> None:
    assert (segment(one) == segment(other)) == (one == other)
