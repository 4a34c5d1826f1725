"""Envelopes of every generation are read, and written back as they were; wrong ones say what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdeck import UsageError
from qdeck.messages import DomainAction, DomainActionResponse, ErrorDetail, callback_to, response_to
from qdeck.messages._envelopes import new_message_id

UUID = "c1a2b3d4-e5f6-7890-1234-567890abcdef"
HEAD: dict[str, Any] = {
    "action_id": UUID, "action_type": "embedding.generate.batch", "timestamp": "2025-06-15T10:11:12.123456Z",
    "tenant_id": UUID, "session_id": UUID, "task_id": UUID, "agent_id": UUID, "user_id": None,
    "origin_service": "ingestion_service", "correlation_id": UUID, "trace_id": UUID,
    "callback_queue_name": "nooble4:development:ingestion_service:callbacks:x:y",
    "callback_action_type": "ingestion.embedding_result", "execution_config": None, "query_config": {"top_k": 5},
    "rag_config": None, "data": {"texts": ["a", "b"]}, "metadata": {}, "something_new": [1, {"deep": None}],
}  # fmt: skip
JUNE: dict[str, Any] = {
    "action_id": "a-17", "action_type": "execution.agent_run", "timestamp": "2025-06-07T09:00:00.5",
    "task_id": "task:12345", "tenant_id": "t-1", "tenant_tier": "professional", "session_id": "s",
    "execution_context": {"context_id": "agent-1", "primary_agent_id": "1"},
    "callback_queue": "execution:t-1:callbacks",
    "timeout": 60,
    "queue_metadata": {"enqueued_at": "2025-06-07T09:00:00", "tier_priority": 2},
}  # fmt: skip
PAGE: dict[str, Any] = {
    "action_id": "1", "action_type": "embedding.generate_batch",
    "data": {
        "callback_queue_name": "nooble4:dev:ingestion_service:callbacks:embedding:corr123", "correlation_id": "corr123",
        "texts": ["x"],
    },
}  # fmt: skip


CALLBACK: dict[str, Any] = {
    "action_id": "2", "action_type": "embedding.batch_completed",
    "data": {"correlation_id": "corr123", "task_id": "task_987efg", "embeddings": [[0.1, 0.2]], "error": None},
}  # fmt: skip


@pytest.mark.parametrize("value", [HEAD, JUNE, PAGE, CALLBACK], ids=["head", "june", "page", "callback"])
def test_every_generation_survives_a_round_trip(value: dict[str, Any]) -> None:
    assert json.loads(DomainAction.parse(json.dumps(value)).to_json()) == {"data": {}, **value}


def test_what_an_answer_needs_is_found_where_each_generation_puts_it() -> None:
    head, june, page = map(DomainAction.from_dict, (HEAD, JUNE, PAGE))
    assert (head.reply_to, head.correlation) == (HEAD["callback_queue_name"], UUID)
    assert (june.reply_to, june.correlation, june.tier) == ("execution:t-1:callbacks", "task:12345", "professional")
    callback = DomainAction.from_dict(CALLBACK)
    assert (callback.reply_to, callback.correlation, callback.task) == (None, "corr123", "task_987efg")
    assert (page.reply_to, page.correlation) == (PAGE["data"]["callback_queue_name"], "corr123")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1]", "is an array"),
        (b'"text"', "is text"),
        (b'{"action_id":"1","data":{}}', "action_type"),
        (b'{"action_type":"a.b","data":{}}', "action_id"),
        (b'{"action_id":"1","action_type":"a.b"}', "data"),
        (b'{"action_id":"1","action_type":"a.b","data":[]}', "field data: Expected `object`, got `array`"),
        (b'{"action_id":"1","action_type":7,"data":{}}', "field action_type"),
        (b'{"action_id":"1","action_type":" ","data":{}}', "action_type is empty"),
        (b'{"action_id":"1","action_type":"a","data":{},"timestamp":"soon"}', "ISO 8601"),
    ],
)
def test_a_wrong_action_says_what_is_wrong(raw: bytes, why: str) -> None:
    with pytest.raises(UsageError, match=why) as told:
        DomainAction.parse(raw)
    assert told.value.hint


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"success": True, "error": {"error_type": "a", "message": "b"}}, "error must be null"),
        ({"success": False}, "error is required"),
        ({"success": False, "error": {"message": "b"}}, "error_type"),
        ({"success": "yes"}, "field success"),
        ({"success": True, "correlation_id": None}, "correlation_id"),
        ({"success": True, "action_id": 1}, "action_id"),
    ],
)
def test_a_wrong_response_says_what_is_wrong(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        DomainActionResponse.from_dict({"action_id": "1", "correlation_id": "c", **fields})


def test_a_new_envelope_is_checked_like_one_that_is_read() -> None:
    with pytest.raises(UsageError):
        DomainAction(action_type="")
    with pytest.raises(UsageError):
        DomainAction(action_type="a.b").replace(data=3)


@pytest.mark.parametrize("success", [True, False])
def test_a_response_survives_a_round_trip(success: bool) -> None:
    value: dict[str, Any] = {
        "action_id": UUID, "correlation_id": UUID, "trace_id": UUID, "task_id": UUID, "tenant_id": UUID,
        "session_id": UUID, "success": success, "timestamp": "2025-06-15T10:11:12Z", "data": None, "more": {"a": None},
        "error": None if success else {"error_type": "X", "error_code": None, "message": "m", "details": {}, "y": 1},
    }  # fmt: skip
    found = json.loads(DomainActionResponse.parse(json.dumps(value)).to_json())
    assert found == value


def test_answers_carry_all_that_ties_them_to_the_question() -> None:
    asked = DomainAction.from_dict(PAGE).replace(task_id="t", trace_id="tr")
    good = response_to(asked, data={"n": 1})
    assert (good.correlation_id, good.task_id, good.trace_id, good.success) == ("corr123", "t", "tr", True)
    bad = callback_to(asked, "embedding", error=ErrorDetail.of(ValueError("no")))
    assert bad.data["correlation_id"] == bad.correlation_id == "corr123"
    assert bad.data["error"]["error_type"] == "ValueError"
    assert bad.data["success"] is False
    assert bad.action_type == "embedding.generate_batch.completed"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4), st.dictionaries(st.text(), json_values, max_size=4))
def test_whatever_others_add_survives(extra: dict[str, Any], data: dict[str, Any]) -> None:
    own = {"action_id": "1", "action_type": "a.b", "data": data}
    known = set(DomainAction.__struct_fields__) - {"extra"}
    value = {**{name: item for name, item in extra.items() if name not in known}, **own}
    assert json.loads(DomainAction.parse(json.dumps(value)).to_json()) == value


def test_ids_grow_with_time() -> None:
    ids = [new_message_id() for _ in range(2000)]
    assert ids == sorted(set(ids))
