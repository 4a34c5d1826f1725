"""The list of queues: calm while someone looks at it, whole however it was made, and made in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from qdeck.admin import Code, QueueRow
from qdeck_console import queue_order
from qdeck_console.queue_findings import ListedQueue, ListedQueues, RowReason, Severity
from qdeck_console.queue_order import Arranged, Arranger, Asked, Sort

if TYPE_CHECKING:
    from collections.abc import Sequence

LATER = 100.0


def because(severity: Severity) -> RowReason:
    return RowReason(severity, "why", Code.PAUSED)


def listed(*queues: tuple[str, Severity, int]) -> ListedQueues:
    entries = [
        ListedQueue(
            row=QueueRow(name=name, ready=ready), severity=severity, reasons=(because(severity),) * (severity < 2)
        )
        for name, severity, ready in queues
    ]
    return ListedQueues(tuple(entries))


def names(arranged: Arranged) -> list[str]:
    return [item.key.removeprefix("native/") for item in arranged.items if item.key]


def heads(arranged: Arranged) -> list[tuple[str, str]]:
    """The label of each group, and how many queues it says it has."""
    lines = [item.row(60) for item in arranged.items if callable(item.row)]
    return [(line[0][0].strip(), line[1][0].strip()) for line in lines]


ACT, WATCH, FINE = Severity


def test_the_worst_come_first_under_the_heads_of_their_groups() -> None:
    made = Arranger().arrange(listed(("a", FINE, 9), ("b", ACT, 1), ("c", ACT, 5), ("d", WATCH, 0)), Asked(), 0.0)
    assert names(made) == ["c", "b", "d", "a"]
    assert heads(made) == [("act now", "2"), ("watch", "1"), ("fine", "1")]
    assert [item.height for item in made.items] == [1, 2, 2, 1, 2, 1, 1], "a reason takes a line of its own"


def test_rows_keep_their_order_for_some_time_and_while_keys_are_pressed() -> None:
    arranger, asked = Arranger(), Asked(sort=Sort.READY)
    assert names(arranger.arrange(listed(("a", FINE, 9), ("b", FINE, 1)), asked, 0.0)) == ["a", "b"]
    turned = listed(("a", FINE, 1), ("b", FINE, 9), ("c", FINE, 99))
    assert names(arranger.arrange(turned, asked, 5.0)) == ["a", "b", "c"], "new ones come last"
    assert names(arranger.arrange(listed(*_rows(turned)), asked, LATER, LATER - 1)) == ["a", "b", "c"]
    assert names(arranger.arrange(listed(*_rows(turned)), asked, LATER)) == ["c", "b", "a"]
    asked = Asked(sort=Sort.NAME)
    assert names(arranger.arrange(listed(*_rows(turned)), asked, LATER, LATER)) == ["a", "b", "c"], "asked for"


def _rows(of: ListedQueues) -> list[tuple[str, Severity, int]]:
    return [(entry.row.name, entry.severity, entry.row.ready or 0) for entry in of.entries]


def test_a_queue_changes_its_group_when_its_state_held_for_two_pictures() -> None:
    arranger, asked = Arranger(), Asked()
    arranger.arrange(listed(("a", FINE, 1)), asked, 0.0)
    bad = listed(("a", ACT, 1))
    for _ in range(3):  # drawn again, for a filter or another size: no new picture
        assert arranger.arrange(bad, asked, 1.0).entries[0].severity is FINE
    assert arranger.arrange(listed(("a", FINE, 1)), asked, 2.0).entries[0].severity is FINE
    assert arranger.arrange(listed(("a", ACT, 1)), asked, 3.0).entries[0].severity is FINE
    assert arranger.arrange(listed(("a", ACT, 1)), asked, 4.0).entries[0].severity is ACT


def test_a_list_that_a_key_overtakes_does_not_bring_back_the_order_of_before() -> None:
    queues = [("a", FINE, 1), ("b", FINE, 9), ("c", FINE, 5)]
    first, next_one, by_name = listed(*queues), listed(*queues), Asked(sort=Sort.NAME)
    for left_at in range(9):
        arranger = Arranger()
        arranger.arrange(first, Asked(), 0.0)
        steps = arranger.steps(next_one, Asked(), 1.0, 1.0)
        for _ in zip(range(left_at), steps, strict=False):
            pass
        assert names(arranger.arrange(first, by_name, 1.0, 1.0)) == ["a", "b", "c"]
        for _ in steps:
            pass
        assert names(arranger.arrange(next_one, by_name, 1.0, 1.0)) == ["a", "b", "c"], left_at


def test_a_picture_that_is_drawn_again_while_the_next_is_arranged_counts_once() -> None:
    fine, bad = [("a", FINE, 1), ("b", FINE, 1)], listed(("a", FINE, 1), ("b", ACT, 1))
    with patch.object(queue_order, "STEP", 1):
        arranger = Arranger()
        arranger.arrange(listed(*fine), Asked(), 0.0)
        arranger.arrange(bad, Asked(), 1.0)
        next(arranger.steps(listed(*fine), Asked(), 2.0, 2.0))
        again = arranger.arrange(bad, Asked(is_tall=True), 2.0).entries
    assert [entry.severity for entry in again] == [FINE, FINE]


def test_a_list_that_rests_holds_no_picture() -> None:
    with patch.object(queue_order, "STEP", 1):
        arranger, first, second = Arranger(), listed(("a", FINE, 1), ("b", FINE, 1)), listed(("a", FINE, 2))
        arranger.arrange(first, Asked(), 0.0)
        steps = arranger.steps(second, Asked(), 1.0, 1.0)
        next(steps)
        arranger.rest()  # another screen is opened while the next picture is arranged
        for _ in steps:
            pass
        assert not [held for held in vars(arranger).values() if isinstance(held, ListedQueues)]
        assert arranger.arranged == Arranged()


def test_a_row_whose_state_is_shown_a_moment_longer_keeps_its_reason() -> None:
    arranger, asked = Arranger(), Asked()
    arranger.arrange(listed(("a", WATCH, 1)), asked, 0.0)
    [held] = arranger.arrange(listed(("a", FINE, 1)), asked, 1.0).entries
    assert (held.severity, held.reasons) == (WATCH, (because(WATCH),))
    [calm] = arranger.arrange(listed(("a", FINE, 1)), asked, 2.0).entries
    assert (calm.severity, calm.reasons) == (FINE, ())


def test_what_did_not_change_is_the_same_item() -> None:
    arranger, first = Arranger(), listed(("a", FINE, 1), ("b", FINE, 2))
    before = arranger.arrange(first, Asked(), 0.0).items
    changed = ListedQueue(row=QueueRow(name="b", ready=3), severity=FINE)
    after = arranger.arrange(ListedQueues((first.entries[0], changed)), Asked(), 1.0).items
    assert [new is old for new, old in zip(after[1:], before[1:], strict=True)] == [
        new.key == "native/a" for new in after[1:]
    ]


QUEUES = st.lists(
    st.tuples(st.from_regex(r"[a-c]{1,4}", fullmatch=True), st.sampled_from(Severity), st.integers(0, 9)),
    unique_by=lambda row: row[0],
    max_size=40,
)
ASKED = st.builds(Asked, sort=st.sampled_from(Sort), filter=st.sampled_from(["", "a", "bc"]), is_tall=st.booleans())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(QUEUES, ASKED, st.integers(0, 12)), min_size=1, max_size=5))
def test_each_list_is_whole_whatever_came_before_and_in_between(
    pictures: Sequence[tuple[list[tuple[str, Severity, int]], Asked, int]],
) -> None:
    with patch.object(queue_order, "STEP", 3):  # many steps
        arranger = Arranger()
        for at, (queues, asked, left_at) in enumerate(pictures):
            made = listed(*queues)
            steps = arranger.steps(made, asked, 4.0 * at, float("-inf"))
            for _ in zip(range(left_at), steps, strict=False):
                pass
            other = Asked(sort=Sort.NAME, filter="a")  # a key came in between, and the list was drawn for it
            _check(arranger.arrange(made, other, 4.0 * at), queues, other)
            for _ in steps:
                pass
            if not arranger.holds(made, asked):  # the steps were over already
                arranger.arrange(made, asked, 4.0 * at)
            _check(arranger.arranged, queues, asked)


def _check(made: Arranged, queues: Sequence[tuple[str, Severity, int]], asked: Asked) -> None:
    assert sorted(names(made)) == sorted(name for name, _, _ in queues if asked.filter in name)
    assert [made.items[at].key for at in made.where.values()] == list(made.where)
    assert [below - top for top, below in zip(made.tops, made.tops[1:], strict=False)] == [
        item.height for item in made.items
    ]
    assert sum(made.counts.values()) == len(made.entries)
    found = [label for label, _ in heads(made)]
    severities = sorted({entry.severity for entry in made.entries})
    assert found == ([severity.label for severity in severities] if asked.sort is Sort.WORST else [])
