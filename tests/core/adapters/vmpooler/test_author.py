"""What the author of VMPooler's document meets first: the same fact in every face, in the words of the document."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.vmpooler.test_numbers import own
from core.adapters.vmpooler.written import dead, machine, ruby
from qdeck.admin import Writer, parse
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url, adapters=("vmpooler",)) as writer:
        yield writer


def asked(url: str, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    """The JSON of a command."""
    capsys.readouterr()
    assert main([*words, "--json", "--url", url]) == code
    return json.loads(capsys.readouterr().out)


def in_line(raw: redis.Redis, queue: str, name: str, ago_s: int, **fields: str) -> None:
    for field, value in {"requested": "centos-7:centos-7:1", **fields}.items():
        raw.hset(f"vmpooler__odrequest__{name}", field, value)
    raw.zadd(f"vmpooler__provisioning__{queue}", {name: int(time.time()) - ago_s})


@pytest.mark.parametrize("queue", ["request", "processing"])
def test_stuck_requests_are_as_many_as_the_totals_say(
    url: str, raw: redis.Redis, queue: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The manager takes one with a status out of line when its time is over, like any other."""
    for name, ago_s, status in (("a", 60, None), ("b", 60, "failed"), ("c", 400, None), ("d", 400, "failed")):
        in_line(raw, queue, name, ago_s, **({} if status is None else {"status": status}))
    stuck = asked(url, capsys, "stuck", code=1)
    assert {one["id"] for one in stuck} == {"c", "d"}
    assert all("limit 5m" in one["why"] and "ended" not in one["why"] for one in stuck)
    status = asked(url, capsys, "status", code=1)
    assert status["totals"]["stuck"] == sum(row["stuck"] or 0 for row in status["queues"]) == 2
    assert asked(url, capsys, "health", code=1)["errors"]["stuck_count"] == 2
    words = {"request": "requested", "processing": "processing"}[queue]
    natives = {job["id"]: job["native_state"] for job in asked(url, capsys, "jobs", "requests:on-demand")}
    assert natives == {"a": words, "b": f"{words}, failed", "c": words, "d": f"{words}, failed"}


def test_an_orphan_is_found_by_its_name(url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]) -> None:
    machine(raw, "ready", "fine-otter", "centos-7", ready=ruby(60))
    raw.hset("vmpooler__vm__orphan-owl", mapping={"clone": ruby(90_000), "pool": "centos-7", "ip": "10.0.0.1"})
    raw.hset("vmpooler__vm__ends-soon", mapping={"clone": ruby(90_000), "pool": "centos-7"})
    raw.expire("vmpooler__vm__ends-soon", 900)
    [place] = asked(url, capsys, "find", "orphan-owl")
    assert (place["queue"], place["state"], place["match"]) == ("centos-7", "none", "orphaned_record")
    assert asked(url, capsys, "find", "ends-soon", code=1) == [], "it ends by itself, and is no orphan"
    assert asked(url, capsys, "job", "centos-7", "orphan-owl")["payload"]["ip"] == "10.0.0.1"
    assert [place["state"] for place in asked(url, capsys, "find", "fine-otter")] == ["ready"]
    assert asked(url, capsys, "find", "nothing", code=1) == []


def test_orphans_have_one_number(
    writer: Writer, url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    """The document's: of any age; `max_orphaned_age` is when a purge takes them."""
    machine(raw, "ready", "fine-otter", "centos-7", ready=ruby(60))
    for name, ago_s in (("old-1", 90_000), ("old-2", 90_000), ("young-1", 600), ("young-2", 600)):
        raw.hset(f"vmpooler__vm__{name}", mapping={"clone": ruby(ago_s), "pool": "centos-7"})
    report = asked(url, capsys, "health")
    assert report["errors"]["orphaned_metadata_count"] == report["adapters"]["vmpooler"]["orphaned"] == 4
    assert own(raw, url)["errors"]["orphaned_metadata_count"] == 4
    assert writer.plan_purge(["orphaned_records"]).count == 2


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("retry_count:3", {"a"}), ("retry_count>3", {"b"}), ("kind:clone", {"a"}), ("kind:ready,pending", {"b"}),
        ("-kind:clone", {"b"}), ("kind:*", {"a", "b"}), ("error_message:*unreachable*", {"b"}),
        ("error_class:SocketError", {"b"}), ("queue_from:pending", {"a"}),
    ],
)  # fmt: skip
def test_fields_of_the_document_are_fields_of_a_filter(
    writer: Writer, raw: redis.Redis, wanted: str, found: set[str]
) -> None:
    dead(raw, "clone", "a")
    facts: dict[str, Any] = {"error_class": "SocketError", "error_message": "VM is unreachable", "retry_count": 5}
    dead(raw, "ready", "b", queue_from="ready", **facts)
    assert {job.id for job in writer.dead_letters(where=parse(wanted))} == found


def test_a_failure_without_a_reason_is_no_none(url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]) -> None:
    in_line(raw, "processing", "a", 60, status="failed")
    for words in (("jobs", "requests:on-demand"), ("job", "requests:on-demand", "a")):
        assert main([*words, "--url", url]) == 0
        told = capsys.readouterr().out
        assert "Failed" in told
        assert "None" not in told


def test_a_name_that_is_not_found_says_how_to_search_text(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "unreachable", "--url", url]) == 1
    assert "qdeck dead --where" in capsys.readouterr().err
