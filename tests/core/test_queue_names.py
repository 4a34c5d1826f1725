"""Queue names: every documented example, the rules of reading, and errors that name the place."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdeck import InvalidName, InvalidOption, QdeckError, QueueName
from qdeck._queue_names import KNOWN_ENVIRONMENTS, MAX_LENGTH
from qdeck.admin import QueueType


class Fields(TypedDict, total=False):
    prefix: str
    env: str
    service: str
    context: str
    type: str
    detail: str


CORRELATION = "c1a2b3d4-e5f6-7890-1234-567890abcdef"

WITHOUT_OWNER: list[tuple[str, Fields]] = [
    ("management:actions", {"service": "management", "type": "actions"}),
    ("management:default:actions", {"service": "management", "context": "default", "type": "actions"}),
    (
        f"execution_service:responses:get_agent_config:{CORRELATION}",
        {"service": "execution_service", "type": "responses", "detail": f"get_agent_config:{CORRELATION}"},
    ),
    (
        "ingestion_service:callbacks:embedding:batch_abc_completed",
        {"service": "ingestion_service", "type": "callbacks", "detail": "embedding:batch_abc_completed"},
    ),
    (
        "execution_service:tenant_xyz:session_123:callbacks:query:rag_results",
        {
            "service": "execution_service",
            "context": "tenant_xyz:session_123",
            "type": "callbacks",
            "detail": "query:rag_results",
        },
    ),
    (
        "ingestion:notifications:document_processed",
        {"service": "ingestion", "type": "notifications", "detail": "document_processed"},
    ),
    (
        "user_service:notifications:user_created",
        {"service": "user_service", "type": "notifications", "detail": "user_created"},
    ),
    ("embedding:tenant_xyz:actions", {"service": "embedding", "context": "tenant_xyz", "type": "actions"}),
    (
        "execution_service:tenant_abc:session_123:callbacks:query:rag_results",
        {
            "service": "execution_service",
            "context": "tenant_abc:session_123",
            "type": "callbacks",
            "detail": "query:rag_results",
        },
    ),
    (
        "ingestion_service:callbacks:embedding:task_987efg",
        {"service": "ingestion_service", "type": "callbacks", "detail": "embedding:task_987efg"},
    ),
    (
        "ingestion_service:notifications:document_processed",
        {"service": "ingestion_service", "type": "notifications", "detail": "document_processed"},
    ),
    ("embedding:actions", {"service": "embedding", "type": "actions"}),
    (
        "ingestion_service:callbacks:embedding:corr123",
        {"service": "ingestion_service", "type": "callbacks", "detail": "embedding:corr123"},
    ),
    ("management:actions:dead_letter", {"service": "management", "type": "actions", "detail": "dead_letter"}),
]
WITH_OWNER: list[tuple[str, Fields]] = [
    (f"nooble4:dev:{text}", {"prefix": "nooble4", "env": "dev", **fields}) for text, fields in WITHOUT_OWNER
]
EXAMPLES = [pytest.param(text, fields, id=text) for text, fields in WITHOUT_OWNER + WITH_OWNER]


@pytest.mark.parametrize(("text", "fields"), EXAMPLES)
def test_documented_example_builds_parses_and_round_trips(text: str, fields: Fields) -> None:
    built = QueueName(**fields)
    parsed = QueueName.parse(text)
    assert str(built) == text
    assert parsed == built
    assert str(parsed) == text
    assert parsed.prefix == fields.get("prefix")
    assert parsed.env == fields.get("env")
    assert parsed.service == fields["service"]
    assert parsed.context == fields.get("context", "")
    assert parsed.type == fields["type"]
    assert parsed.detail == fields.get("detail", "")


@pytest.mark.parametrize(
    ("text", "service", "context", "kind", "detail"),
    [
        ("actions:actions", "actions", "", "actions", ""),
        ("billing:actions:responses", "billing", "", "actions", "responses"),
        ("billing:dead_letter", "billing", "", "dead_letter", ""),
        ("nooble4:dev:actions:actions", "actions", "", "actions", ""),
        ("dev:billing:actions", "dev", "billing", "actions", ""),
        ("billing:tenant:dev:actions", "billing", "tenant:dev", "actions", ""),
        ("ifdb:prod:games:actions", "games", "", "actions", ""),
        ("A.b-C_9:.:actions:-", "A.b-C_9", ".", "actions", "-"),
    ],
)
def test_rules_of_reading(text: str, service: str, context: str, kind: str, detail: str) -> None:
    name = QueueName.parse(text)
    assert (name.service, name.context, name.type, name.detail) == (service, context, kind, detail)
    assert str(name) == text


def test_segments_may_be_given_one_by_one() -> None:
    name = QueueName(service="query", context=("tenant", "session"), type="callbacks", detail=["sender", "event"])
    assert str(name) == "query:tenant:session:callbacks:sender:event"
    assert name == QueueName(service="query", context="tenant:session", type="callbacks", detail="sender:event")


def test_more_environments_are_known_only_where_they_are_passed() -> None:
    text = "shop:qa:billing:actions"
    assert QueueName.parse(text).context == "qa:billing"
    name = QueueName.parse(text, environments=["qa"])
    assert (name.prefix, name.env, name.service) == ("shop", "qa", "billing")
    assert str(name.dead_letter()) == "shop:qa:billing:actions:dead_letter"
    with pytest.raises(InvalidName, match="'qa' is not a known environment") as caught:
        QueueName(prefix="shop", env="qa", service="billing")
    assert "environments=['qa']" in caught.value.hint


def test_type_word_is_no_environment() -> None:
    with pytest.raises(InvalidOption, match="'actions' cannot be an environment"):
        QueueName.parse("a:b:actions", environments=["actions"])


def test_names_made_from_a_name() -> None:
    name = QueueName(service="execution_service", prefix="nooble4", env="dev", context="tenant_abc:session_123")
    start = "nooble4:dev:execution_service:tenant_abc:session_123"
    assert str(name) == f"{start}:actions"
    assert str(name.dead_letter()) == f"{start}:actions:dead_letter"
    assert str(name.responses("get", "c-1")) == f"{start}:responses:get:c-1"
    assert str(name.responses("get", "c-1").dead_letter()) == f"{start}:responses:get:c-1:dead_letter"
    assert str(name.callbacks("query", "rag_results")) == f"{start}:callbacks:query:rag_results"
    assert str(name.notifications("done")) == f"{start}:notifications:done"
    assert str(name.notifications("done").actions("worker")) == f"{start}:actions:worker"


def test_dead_letter_queue_has_no_dead_letters_of_its_own() -> None:
    once = QueueName.parse("billing:actions").dead_letter()
    assert once.is_dead_letter
    assert once.dead_letter() == once
    assert QueueName.parse("billing:dead_letter").is_dead_letter
    assert not QueueName.parse("billing:actions:not_dead_letter").is_dead_letter


def test_temporary_queues() -> None:
    name = QueueName.parse("billing:actions")
    assert name.responses("a", "b").is_temporary
    assert name.callbacks("a", "b").is_temporary
    assert not name.is_temporary
    assert not name.notifications("a").is_temporary


def test_canonical_drops_a_default_context_only() -> None:
    both = [QueueName.parse("management:default:actions"), QueueName.parse("management:actions")]
    assert both[0] != both[1]
    assert {str(name.canonical) for name in both} == {"management:actions"}
    assert str(QueueName.parse("a:default:b:actions").canonical) == "a:default:b:actions"
    assert str(QueueName.parse("a:actions:default").canonical) == "a:actions:default"


def test_name_is_a_value() -> None:
    name = QueueName.parse("nooble4:dev:billing:actions")
    assert len({name, QueueName.parse(str(name)), copy.deepcopy(name), pickle.loads(pickle.dumps(name))}) == 1  # noqa: S301 - bytes made on this line
    with pytest.raises(FrozenInstanceError):
        name.service = "other"  # type: ignore[misc] # that it cannot be set is what is tested
    assert not hasattr(name, "__dict__")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "queue name '' is empty", "billing:actions"),
        ("  ", "queue name '  ' is blank", "billing:actions"),
        (":actions", "segment 1 is empty, at character 1", "Remove the colon"),
        ("billing::actions", "segment 2 is empty, at character 9", "Remove the colon"),
        ("billing:actions:", "segment 3 is empty, at character 17", "Remove the colon"),
        ("billing: :actions", "segment 2 is blank, at character 9", "Remove the colon"),
        ("billing:a b:actions", r"segment 2 'a b' has ' ' at character 10", "letters"),
        ("facturación:actions", "segment 1 'facturación' has 'ó' at character 10", "A-Z and a-z"),
        ("billing:actions:１", "segment 3 '１' has '１' at character 17", "digits"),
        ("billing:actions\n", r"segment 2 'actions\\n' has '\\n' at character 16", "letters"),
        ("{billing}:actions", "segment 1 '{billing}' has '{' at character 1", "braces"),
        ("billing:}:actions", "segment 2 '}' has '}' at character 9", "braces"),
        ("billing:*:actions", r"segment 2 '\*' has '\*' at character 9", "not a pattern"),
        ("billing:act?ons", r"segment 2 'act\?ons' has '\?' at character 12", "not a pattern"),
        ("billing:[a]:actions", r"segment 2 '\[a\]' has '\[' at character 9", "not a pattern"),
        ("billing", "only one segment, so no type", "billing:actions"),
        ("actions", "only one segment, so no type", "actions:actions"),
        ("billing:jobs", "no type after the service 'billing'", "billing:jobs:actions"),
        ("billing:Actions", "no type after the service 'billing'", "actions"),
        ("nooble4:dev", "nothing follows the environment 'dev'", "nooble4:dev:billing:actions"),
        (
            "management:test:actions",
            r"no type after the service 'actions' \(read as prefix 'management', environment 'test'\)",
            "management:test:actions:actions",
        ),
    ],
)
def test_wrong_text_names_the_place(text: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidName, match=message) as caught:
        QueueName.parse(text)
    assert hint in caught.value.hint


def test_text_that_is_not_text() -> None:
    with pytest.raises(InvalidName, match="b'billing:actions' is not text"):
        QueueName.parse(b"billing:actions")  # type: ignore[arg-type] # the mistake that is tested


def test_length_limit() -> None:
    longest = "a" * (MAX_LENGTH - len(":actions")) + ":actions"
    assert str(QueueName.parse(longest)) == longest
    with pytest.raises(InvalidName, match=r"201 characters, 1 too many"):
        QueueName.parse("a" + longest)
    with pytest.raises(InvalidName, match="characters"):
        QueueName.parse(longest).dead_letter()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"service": ""}, "a segment is empty"),
        ({"service": "a:b"}, "'a:b' has ':'"),
        ({"service": "a", "context": "x::y"}, "a segment is empty"),
        ({"service": "a", "context": ["x:y"]}, "'x:y' has ':'"),
        ({"service": "a", "detail": [""]}, "a segment is empty"),
        ({"service": "a", "detail": [1]}, "1, not text"),
        ({"service": "a", "context": "responses"}, "context segment 'responses' is a type"),
        ({"service": "a", "context": "prod"}, "starts with the environment 'prod'"),
        ({"service": "a", "type": "streams"}, "'streams' is not a type"),
        ({"service": "a", "prefix": "p"}, "prefix without env"),
        ({"service": "a", "env": "dev"}, "env without prefix"),
        ({"service": "a", "prefix": "", "env": "dev"}, "a segment is empty"),
    ],
)
def test_wrong_fields(fields: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidName, match=message) as caught:
        QueueName(**fields)
    assert caught.value.hint


def test_one_root_and_a_value_error() -> None:
    with pytest.raises(ValueError, match="empty") as caught:
        QueueName.parse("")
    assert isinstance(caught.value, QdeckError)


segments = st.text("abcXYZ019._-", min_size=1, max_size=6)
free = segments.filter(lambda word: word not in set(QueueType) | KNOWN_ENVIRONMENTS)


@given(
    owner=st.none() | st.tuples(segments, st.sampled_from(sorted(KNOWN_ENVIRONMENTS))),
    service=segments | st.sampled_from(list(QueueType)),
    context=st.lists(free, max_size=3),
    kind=st.sampled_from(list(QueueType)),
    detail=st.lists(segments | st.sampled_from(list(QueueType)), max_size=3),
)
def test_built_names_round_trip(
    owner: tuple[str, str] | None, service: str, context: list[str], kind: QueueType, detail: list[str]
) -> None:
    prefix, env = owner or (None, None)
    name = QueueName(service=service, context=context, type=kind, detail=detail, prefix=prefix, env=env)
    assert QueueName.parse(str(name)) == name
    assert QueueName.parse(str(name.canonical)) == name.canonical
    assert QueueName.parse(str(name.dead_letter())) == name.dead_letter()


words = st.sampled_from(["a", "dev", "prod", "default", *QueueType]) | st.text(max_size=3)


@given(st.lists(words, max_size=6).map(":".join))
def test_every_text_round_trips_or_is_refused(text: str) -> None:
    try:
        read = str(QueueName.parse(text))
    except InvalidName:
        read = text
    assert read == text
