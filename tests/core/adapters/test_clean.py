"""What tasks left behind in lists of other programs: removed by task or as orphans, never by itself, and put back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from qdeck.admin import Writer
from qdeck.messages import _registry as registry
from qdeck.messages._cleaning_batch import MOST_ONE
from qdeck.testing.adapters import values
from qdeck_console.__main__ import main
from support.temporary import age

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis


@pytest.fixture
def ask(url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def run(*command: str, code: int = 0) -> Any:
        assert main([*command, "--json", "--url", url]) == code
        return json.loads(capsys.readouterr().out)

    return run


def fill(raw: redis.Redis) -> None:
    raw.rpush("execution:agent_run:free:77", "a", "b")
    raw.rpush("execution:callback:free:77", "c")
    raw.rpush("execution:agent_run:free:78", "d")
    raw.sadd("task_queues:77", "execution:agent_run:free:77", "execution:callback:free:77", "execution:gone:free:77")


def test_the_lists_of_a_task_go_and_come_back(url: str, raw: redis.Redis, ask: Callable[..., Any]) -> None:
    fill(raw)
    before = values(raw)
    dry = ask("clean", "77", "--adapter", "lists", "--idle", "0", "--dry-run")
    assert (dry["would_remove"], dry["undoable"], dry["applied"], dry["batch"]) == (2, 2, 0, None)
    assert values(raw) == before
    found = ask("clean", "77", "--idle", "0", "--yes")
    assert (found["applied"], found["undoable"], found["kept"]) == (2, 2, 0)
    assert "execution:gone:free:77" in [one["queue"] for one in found["queues"] if one["outcome"] == "gone"]
    assert not raw.exists("task_queues:77", "execution:agent_run:free:77", "execution:callback:free:77")
    with Writer(url) as writer:
        assert writer.undo(found["batch"]).restored == 2
    assert values(raw) == before


def test_the_registry_of_a_task_comes_back_with_its_time_to_live(
    url: str, raw: redis.Redis, ask: Callable[..., Any]
) -> None:
    fill(raw)
    raw.pexpire("task_queues:77", 3_600_000)
    raw.pexpire("execution:agent_run:free:77", 1_800_000)
    before = values(raw)
    batch = ask("clean", "77", "--idle", "0", "--yes")["batch"]
    with Writer(url) as writer:
        writer.undo(batch)
        assert values(raw) == before
        assert raw.lrange("execution:agent_run:free:77", 0, -1) == [b"a", b"b"]
        assert 3_500_000 < raw.pttl("task_queues:77") <= 3_600_000
        assert 1_700_000 < raw.pttl("execution:agent_run:free:77") <= 1_800_000
        assert raw.pttl("execution:callback:free:77") == -1


def test_a_task_with_both_kinds_of_queues_is_one_batch(url: str, raw: redis.Redis, ask: Callable[..., Any]) -> None:
    fill(raw)
    own = "shop:dev:mail:callbacks:embedding:one"
    with Writer(url) as writer:
        writer.write(registry.register(own, "callbacks", "mail", task="77", tier="", ttl_ms=60_000))
        raw.rpush(own, "an answer")
        found = ask("clean", "77", "--idle", "0", "--yes")
        assert {one["queue"] for one in found["queues"] if one["outcome"] == "removed"} == {
            own, "execution:agent_run:free:77", "execution:callback:free:77",
        }  # fmt: skip
        assert "lists" not in found
        assert [entry.batch for entry in writer.activity()] == [found["batch"]]
        assert writer.undo().restored == 3
    assert raw.lrange(own, 0, -1) == [b"an answer"]
    assert raw.llen("execution:agent_run:free:77") == 2


def test_a_list_of_any_name_goes_with_its_task_and_a_key_of_qdeck_does_not(
    raw: redis.Redis, ask: Callable[..., Any]
) -> None:
    raw.rpush("jobs", "a")
    raw.rpush("{q}:wakeup", "b")
    raw.sadd("task_queues:5", "jobs", "{q}:wakeup", "qdeck:activity", b"\xff")
    found = ask("clean", "5", "--idle", "0", "--yes", code=1)
    outcomes = {one["queue"]: one["outcome"] for one in found["queues"]}
    assert outcomes == {"jobs": "removed", "{q}:wakeup": "foreign", "qdeck:activity": "foreign", "\\xff": "foreign"}
    assert (raw.exists("jobs"), raw.llen("{q}:wakeup")) == (0, 1)


def test_a_list_in_use_or_too_long_is_left_and_told(raw: redis.Redis, ask: Callable[..., Any]) -> None:
    fill(raw)
    raw.rpush("execution:callback:free:77", "x" * (MOST_ONE + 1))
    raw.restore(
        "execution:callback:free:77", 0, raw.dump("execution:callback:free:77") or b"", replace=True, idletime=99
    )
    for more in (["--dry-run"], ["--yes"]):
        found = ask("clean", "77", "--adapter", "lists", *more, code=1)
        assert (found["applied"], found["would_remove"], found["kept"], found["batch"]) == (0, 0, 2, None)
        why = {one["queue"]: (one["outcome"], one["why"]) for one in found["queues"]}
        assert why["execution:agent_run:free:77"] == ("recent", "it was used recently")
        assert why["execution:callback:free:77"] == ("uncopied", "it is too large to be kept for undo")


def test_a_registry_of_another_type_is_told(raw: redis.Redis, ask: Callable[..., Any]) -> None:
    raw.set("task_queues:9", "not a set")
    found = ask("clean", "9", "--adapter", "lists", "--yes", code=1)
    assert found["applied"] == 0
    assert [(one["queue"], one["why"]) for one in found["queues"]] == [("task_queues:9", "it is not a temporary queue")]
    assert raw.get("task_queues:9") == b"not a set"


def test_orphans_by_patterns_go_only_when_lists_are_named(
    url: str, raw: redis.Redis, tmp_path: Path, ask: Callable[..., Any]
) -> None:
    raw.rpush("work:jobs:8", "a", "b")
    raw.rpush("work:jobs:9", "c")
    raw.sadd("task_queues:9", "another:list")
    before = values(raw)
    age(raw, "work:jobs:8", "work:jobs:9")
    file = tmp_path / "qdeck.toml"
    file.write_text('[adapters.lists]\npatterns = ["{service}:jobs:*"]\n')
    more = ("--config", str(file))
    assert ask("clean", "--orphans", "--yes", *more)["applied"] == 0
    dry = ask("clean", "--orphans", "--dry-run", "--adapter", "lists", *more)
    assert [(one["queue"], one["outcome"]) for one in dry["queues"]] == [("work:jobs:8", "would_remove")]
    assert values(raw) == before
    age(raw, "work:jobs:8", "work:jobs:9")  # to read the lists was a use
    done = ask("clean", "--orphans", "--yes", "--adapter", "lists", *more)
    assert (done["applied"], done["undoable"]) == (1, 1)
    assert raw.exists("work:jobs:8", "work:jobs:9") == 1
    with Writer(url) as writer:
        assert writer.undo().restored == 1
    assert values(raw) == before


def test_lists_of_other_programs_go_as_orphans_only_when_lists_are_named(
    url: str, raw: redis.Redis, ask: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    fill(raw)
    raw.expire("task_queues:77", 3600)
    age(raw, "execution:agent_run:free:77", "execution:callback:free:77", "execution:agent_run:free:78")
    assert ask("clean", "--orphans", "--idle", "1", "--yes")["queues"] == []
    assert main(["clean", "--orphans", "--dry-run", "--url", url]) == 0
    assert "--adapter lists includes them" in capsys.readouterr().err
    callback = "nooble4:dev:ingestion_service:callbacks:embedding:task_987efg"
    raw.rpush(callback, "an answer")
    age(raw, callback)
    found = ask("clean", "--orphans", "--dry-run", "--adapter", "lists")["queues"]
    assert {(one["queue"], one["outcome"], one["cause"]) for one in found} == {
        ("execution:agent_run:free:78", "would_remove", "task_queues:78 expired, or was never made"),
        (callback, "would_remove", "it is not registered"),
    }
    raw.delete(callback)
    raw.sadd("task_queues:78", "execution:agent_run:free:78")
    raw.expire("task_queues:78", 3600)
    assert ask("clean", "--orphans", "--yes", "--adapter", "lists")["applied"] == 0
    assert raw.llen("execution:agent_run:free:78") == 1


@pytest.mark.parametrize(
    ("ttl", "cause"),
    [(None, "task_queues:77 has no time to live"), (90_000, "task_queues:77 lives for more than 24 h")],
)
def test_lists_of_a_task_whose_set_does_not_end_in_time_are_orphans(
    url: str, raw: redis.Redis, ask: Callable[..., Any], ttl: int | None, cause: str
) -> None:
    """The document's rule: `if ttl == -1 or ttl > 86400`."""
    fill(raw)
    raw.sadd("task_queues:77", "some:list")
    raw.rpush("some:list", "not named like a queue")
    if ttl is not None:
        raw.expire("task_queues:77", ttl)
    before = values(raw)
    found = ask("clean", "--orphans", "--yes", "--adapter", "lists", code=1)["queues"]
    assert {one["outcome"] for one in found} == {"recent", "gone"}, "they are in use"
    age(raw, "execution:agent_run:free:77", "execution:callback:free:77")
    done = ask("clean", "--orphans", "--yes", "--adapter", "lists")
    removed = {one["queue"]: one["cause"] for one in done["queues"] if one["outcome"] == "removed"}
    assert removed == dict.fromkeys(("execution:agent_run:free:77", "execution:callback:free:77"), cause)
    assert raw.smembers("task_queues:77") == {b"some:list"}
    with Writer(url) as writer:
        assert writer.undo(done["batch"]).restored == 2
    raw.sadd("task_queues:77", "execution:gone:free:77")  # the name of a list that was not there
    assert values(raw) == before


def test_a_task_is_looked_up_as_find_does_it(url: str, raw: redis.Redis, ask: Callable[..., Any]) -> None:
    """`find` showed the list of a task whose set had expired, and `clean` denied that there was one."""
    raw.rpush("execution:callback:free:13579", "{}")
    raw.rpush("execution:callback:free:2:13579", "another task, whose id ends with this one")
    raw.rpush("shop:dev:mail:callbacks:13579", "a callback, which is not named after a task")
    before = values(raw)
    assert [one["queue"] for one in ask("find", "13579")] == ["execution:callback:free:*"]
    dry = ask("clean", "13579", "--idle", "0", "--dry-run")
    assert [(one["queue"], one["outcome"], one["cause"]) for one in dry["queues"]] == [
        ("execution:callback:free:13579", "would_remove", "task_queues:13579 expired, or was never made")
    ]
    found = ask("clean", "13579", "--idle", "0", "--yes")
    assert (found["applied"], raw.exists("execution:callback:free:13579")) == (1, 0)
    with Writer(url) as writer:
        writer.undo(found["batch"])
    assert values(raw) == before


def test_lists_of_other_tiers_of_a_task_go_with_it(raw: redis.Redis, ask: Callable[..., Any]) -> None:
    """A task whose tier changed has lists that its set does not name: they were not mentioned."""
    fill(raw)
    raw.rpush("execution:agent_run:enterprise:77", "e")
    dry = ask("clean", "77", "--idle", "0", "--dry-run")
    causes = {one["queue"]: one["cause"] for one in dry["queues"] if one["outcome"] == "would_remove"}
    assert causes == {
        "execution:agent_run:free:77": "", "execution:callback:free:77": "",
        "execution:agent_run:enterprise:77": "named after the task, not in task_queues:77",
    }  # fmt: skip
    assert raw.exists(*causes) == 3
    assert ask("clean", "77", "--idle", "0", "--yes")["applied"] == 3
    assert raw.exists(*causes, "task_queues:77") == 0


def test_a_task_without_queues_is_referred_to_find(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["clean", "corr123", "--dry-run", "--url", url])
    told = capsys.readouterr().err
    assert "task corr123 has no temporary queues; qdeck find corr123 lists its messages in other queues" in told


def test_the_key_of_the_set_of_a_task_names_the_task(
    url: str, raw: redis.Redis, ask: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A list of a task is not enough to remove others: the answer names the task."""
    fill(raw)
    found = ask("clean", "task_queues:77", "--idle", "0", "--dry-run")
    assert (found["task"], found["would_remove"]) == ("77", 2)
    assert main(["clean", "execution:agent_run:free:77", "--dry-run", "--url", url]) == 0
    assert "execution:agent_run:free:77 is a list of task 77: qdeck clean 77 removes it" in capsys.readouterr().err
