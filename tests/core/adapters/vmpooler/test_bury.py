"""Dead letters that qdeck writes: the entries of the document, for VMs that are pending, or ready but silent."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.test_purge import ago, purged, vm
from core.adapters.vmpooler.written import entry, request, zulu
from qdeck.admin import Limits, Writer
from qdeck.testing.adapters import values

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url, adapters=("vmpooler",)) as writer:
        yield writer


def letter(raw: redis.Redis, kind: str) -> tuple[dict[str, Any], int]:
    """The only entry of a dead-letter queue, which is JSON and nothing else, and its score."""
    [member] = raw.zrange(f"vmpooler__dlq__{kind}", 0, -1)
    assert isinstance(member, bytes)
    return json.loads(member), int(raw.zscore(f"vmpooler__dlq__{kind}", member) or 0)


@pytest.mark.parametrize("by_purge", [True, False])
def test_an_entry_is_that_of_the_document(writer: Writer, raw: redis.Redis, by_purge: bool) -> None:
    request(raw, retry_count="2")
    vm(raw, "pending", "vm-1", clone=ago(10_800), request_id="req-123456", pool_alias="centos-7")
    if by_purge:
        assert purged(writer, limits=Limits(dlq_enabled=True)) == 1
    else:
        assert writer.apply(writer.plan("bury", "pool1", reason="host is down")).applied == 1
    found, score = letter(raw, "pending")
    assert list(found) == list(entry("vm-1", 0))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["failed_at"])
    assert found["failed_at"] == zulu(score)
    assert score == pytest.approx(time.time(), abs=20)
    assert (found["vm"], found["pool"], found["queue_from"]) == ("vm-1", "pool1", "pending")
    assert (found["retry_count"], found["request_id"], found["pool_alias"]) == (2, "req-123456", "centos-7")
    told = ("Purge", "pending for 3h 00m (limit max_pending_age 2h)") if by_purge else ("Buried", "host is down")
    assert (found["error_class"], found["error_message"]) == told


def test_without_a_reason_the_entry_has_the_error_of_the_machine(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "pending", "vm-1", clone=ago(60), clone_error="no such host", clone_error_class="RuntimeError")
    assert writer.apply(writer.plan("bury", "pool1")).applied == 1
    found, _ = letter(raw, "pending")
    assert (found["error_class"], found["error_message"], found["retry_count"]) == ("RuntimeError", "no such host", 0)


def test_a_ready_machine_that_does_not_answer_is_buried(writer: Writer, raw: redis.Redis) -> None:
    """As its manager does: a dead letter, and the VM goes to `completed`, where the manager destroys it."""
    vm(raw, "ready", "vm-1", ready=ago(60), open_socket_error="Connection refused")
    vm(raw, "ready", "vm-2", ready=ago(60))
    before = values(raw)
    plan = writer.plan("bury", "pool1", ids=["vm-1"], state="ready")
    assert [one.code.value for one in plan.tail.cautions] == ["destroyed_outside"]
    assert writer.apply(plan).applied == 1
    found, _ = letter(raw, "ready")
    assert (found["queue_from"], found["error_class"], found["error_message"]) == (
        "ready", "Buried", "Connection refused",
    )  # fmt: skip
    assert raw.smembers("vmpooler__completed__pool1") == {b"vm-1"}
    assert raw.smembers("vmpooler__ready__pool1") == {b"vm-2"}
    assert not raw.exists("vmpooler__dlq__pending")
    assert writer.undo().restored == 1
    assert values(raw) == before
