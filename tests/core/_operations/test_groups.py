"""Dead letters of one kind are one group, whatever differs from one message to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core._operations.yard import QUEUE, Yard
from qdeck._engine.signatures import MAX_PATTERN, message_pattern
from qdeck.adapters.groups import OTHER
from qdeck.adapters.native.records import Row
from qdeck.admin import Gathering

if TYPE_CHECKING:
    from qdeck.admin import Writer


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("job 7 timed out after 12.5 s", "job N timed out after N s"),
        ("no such user 'ana'", "no such user '…'"),
        ('invalid literal for int(): "x y"', "invalid literal for int(): '…'"),
        ("order 3f2504e0-4f89-11d3-9a0c-0305e82c3301 is gone", "order # is gone"),
        ("<Session at 0x7f3a2b1c>", "<Session at #>"),
        ("commit deadbeef01 not found", "commit # not found"),
        ("task 6608c5e15607037mre62 failed", "task # failed"),
        ("connection to 10.0.0.7:6379 refused", "connection to N refused"),
        ("HTTP 503", "HTTP 503"),
        ("502 for url https://a.example:8080/in/3dde?x=1", "502 for url https://a.example:N/…"),
        ("404 for 1001", "404 for N"),
        ("500 for 1001", "500 for N"),
        ("500 Server Error", "500 Server Error"),
        ("status code: 404", "status code: 404"),
        ("500 rows of 512 were read", "N rows of N were read"),
        ("over 450 ms", "over N ms"),
        ("utf8 and sha256 stay", "utf8 and sha256 stay"),
        ("two\nlines  and\ttabs", "two lines and tabs"),
        ("", ""),
        (None, ""),
    ],
)
def test_shapes(message: str | None, expected: str) -> None:
    assert message_pattern(message) == expected


@given(st.text(max_size=300), st.integers(0, 10**12), st.integers(0, 10**12))
def test_a_number_never_matters(text: str, one: int, other: int) -> None:
    assert message_pattern(f"{text} = {one} of {other}") == message_pattern(f"{text} = {other} of {one}")
    assert len(message_pattern(text)) <= MAX_PATTERN
    assert "\n" not in message_pattern(text)


def test_counts_are_exact(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(1000)
    yard.die(event={"class": "KeyError", "message": "'ana'"})
    yard.die(event={"class": "KeyError", "message": "'bob'"})
    found = writer.groups(QUEUE)
    assert (found.total, found.exact) == (1002, True)
    assert [(g.error_class, g.message_shape, g.count) for g in found.groups] == [
        ("TimeoutError", "job N timed out after N s", 500),
        ("ValueError", "job N timed out after N s", 500),
        ("KeyError", "'…'", 2),
    ]
    assert found.groups[0].first_ms < found.groups[0].last_ms
    assert found.groups[2].newest_id in yard.ids("dead")
    narrowed = writer.groups(where="error:KeyError message:*ana*")
    assert [(g.count, g.queue) for g in narrowed.groups] == [(1, QUEUE)]
    assert not narrowed.exact


def test_those_that_were_never_counted_are_read(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(1000)
    yard.raw.delete(yard.key("groups"))
    found = writer.groups(QUEUE)
    assert (found.total, found.exact, [group.count for group in found.groups]) == (1000, False, [500, 500])
    assert writer.groups(QUEUE, most_read=10).total < 1000


def test_there_are_not_too_many_groups() -> None:
    gathering = Gathering(most=3)
    for n in range(10):
        row = Row(QUEUE, "dead", b"id%d" % n, b"%d" % n, 0, True)
        row.error_raw = b'%d failed {"class":"E%d","message":"x"}' % (n, n)
        gathering.add(row)
    found = gathering.finish(exact=True)
    assert [group.error_class for group in found.groups] == ["E0", "E1", "E2", OTHER]
    assert sum(group.count for group in found.groups) == found.total == 10


def test_secrets_of_messages_are_in_no_group(writer: Writer, yard: Yard) -> None:
    """A short one of letters only looks like a word, and is counted as it is; nobody is shown it."""
    for secret in ("hunter", "swordfish"):
        yard.die(event={"class": "LoginFailed", "message": f"not let in, password: {secret}"})
    yard.die(event={"class": "LoginFailed", "message": "not let in, token='a b'"})
    for where in ("", "error:LoginFailed"):
        found = writer.groups(QUEUE, where=where)
        shapes = {group.message_shape: group for group in found.groups}
        assert {name: group.count for name, group in shapes.items()} == {
            "not let in, password: ***": 2, "not let in, token='***'": 1
        }  # fmt: skip
        for group in shapes.values():
            assert writer.plan("retry", QUEUE, where=group.where).count == group.count
            assert "hunter" not in group.where
    assert b"hunter" in b"".join(yard.raw.hvals(yard.key("groups"))), "what the queue keeps is as it was written"
