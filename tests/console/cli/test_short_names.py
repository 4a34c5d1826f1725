"""A queue is named as the console shows it, where only one queue can be meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck.admin import Writer
from qdeck_console.presenters.line_parts import common_owner, name_parts, naming_of
from support.scene import Scene, make_scene

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.commands import Ran

MAIL = "shop:dev:mail:actions"
DIGEST = "shop:dev:mail:digest:actions"
BILLS = "shop:dev:bills:actions"


@pytest.fixture
def ids(url: str) -> dict[str, str]:
    with Writer(url) as writer:
        return {name: writer.enqueue(name, "send").id for name in (MAIL, DIGEST, BILLS)}


def test_every_name_that_the_console_shows_is_accepted(
    url: str, ids: dict[str, str], qdeck: Callable[..., Ran]
) -> None:
    assert common_owner(list(ids)) == "shop:dev:"
    with Writer(url) as writer:
        snapshot = writer.snapshot()
    for row in snapshot.queues:
        parts = name_parts(row.ref, naming=naming_of(snapshot))
        for typed in (":".join(parts), " ▸ ".join(parts)):
            found = qdeck("jobs", typed, "--json").json
            assert [job["id"] for job in found] == [ids[row.name]], typed
            assert [job["queue"] for job in found] == [row.name], typed


@pytest.mark.parametrize(
    "command",
    [
        ("jobs", "mail"), ("jobs", "mail", "--adapter", "native"), ("dead", "mail"), ("stuck", "mail"),
        ("purge", "mail"), ("jobs", "cancel", "mail", "--dry-run"), ("dead", "retry", "mail", "--dry-run"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_commands_that_take_a_queue_take_its_short_name(
    ids: dict[str, str], qdeck: Callable[..., Ran], command: tuple[str, ...]
) -> None:
    ran = qdeck(*command)
    assert (ran.code, "there is no queue" in ran.err) == (0, False), ran


def test_an_operation_names_the_queue_whole(ids: dict[str, str], qdeck: Callable[..., Ran]) -> None:
    assert f"would cancel 1 job from {MAIL}" in qdeck("jobs", "cancel", "mail", "--dry-run").out
    assert qdeck("queues", "pause", "bills").out == f"{BILLS} is paused\n"
    assert qdeck("queues", "resume", "bills", "--json").json["queue"] == BILLS


def test_a_name_of_several_queues_is_refused_with_the_choices(
    url: str, ids: dict[str, str], qdeck: Callable[..., Ran]
) -> None:
    with Writer(url) as writer:
        writer.enqueue("other:dev:mail:actions", "send")
    for command in (("jobs", "mail"), ("jobs", "cancel", "mail", "--yes"), ("queues", "pause", "mail")):
        ran = qdeck(*command)
        assert (ran.code, ran.out) == (64, "")
        assert "'mail' stands for 2 queues" in ran.err
        assert MAIL in ran.err
        assert "other:dev:mail:actions" in ran.err
    assert len(qdeck("jobs", "other:dev:mail:actions", "--json").json) == 1, "a whole name means itself"


@pytest.mark.parametrize("typed", ["actions", "dev", "shop", "ail", "mail:dig", "", ":"])
def test_a_part_of_a_name_is_no_short_name(ids: dict[str, str], qdeck: Callable[..., Ran], typed: str) -> None:
    assert qdeck("jobs", typed).code == 64


def test_a_name_that_exists_wins_over_a_short_one(url: str, ids: dict[str, str], qdeck: Callable[..., Ran]) -> None:
    with Writer(url) as writer:
        own = writer.enqueue("mail:actions", "send").id
    assert [job["id"] for job in qdeck("jobs", "mail:actions", "--json").json] == [own]


def test_a_new_queue_is_not_taken_for_another(url: str, ids: dict[str, str], qdeck: Callable[..., Ran]) -> None:
    """What creates a queue takes its name as it is typed."""
    assert qdeck("enqueue", "bills:actions", "send").code == 0
    assert len(qdeck("jobs", BILLS, "--json").json) == 1


def test_the_queues_of_other_systems_too(raw: redis.Redis, url: str, qdeck: Callable[..., Ran]) -> None:
    scene: Scene = make_scene(url, raw)
    assert scene.stuck
    raw.rpush("shop:dev:ingestion:actions", b'{"action_type": "x"}')
    assert len(qdeck("jobs", "ingestion", "--json").json) == 1
