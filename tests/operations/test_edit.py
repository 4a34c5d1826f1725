"""Edit and retry: the new payload runs, the old one stays in the record, secrets stay what they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.yard import QUEUE, Yard
from qdeck._deck import payload
from qdeck._errors import UnknownJob, UsageError
from qdeck._operations import api
from qdeck._operations.editing import unmask

if TYPE_CHECKING:
    from qdeck._deck.deck import Deck


def test_edit_and_retry(deck: Deck, yard: Yard) -> None:
    job_id = yard.die({"user": 1, "password": "geheim", "at": "redis://u:pw@h/0"})
    before = yard.dump()
    draft = api.read_draft(deck, QUEUE, job_id)
    assert "geheim" not in draft.text()
    assert "pw" not in draft.text()
    result = api.edit_job(deck, draft, draft.text().replace('"user": 1', '"user": 2'), reason="wrong user")
    assert (result.applied, result.skipped) == (1, ())
    body = json.loads(yard.raw.hget(yard.key("body"), job_id) or b"")
    assert body == [[{"user": 2, "password": "geheim", "at": "redis://u:pw@h/0"}], {}]
    assert yard.ids("ready") == [job_id]
    history = deck.job(QUEUE, job_id).history
    assert [event.kind for event in history] == ["enqueued", "failed", "retried", "edited"]
    assert history[-1].data["original"] == [[{"user": 1, "password": "***", "at": "redis://u:***@h/0"}], {}]
    assert api.undo_batch(deck).restored == 1
    assert yard.dump() == before


def test_a_waiting_job_keeps_its_place(deck: Deck, yard: Yard) -> None:
    ids = [yard.add(n) for n in range(3)]
    before = yard.dump()
    result = api.edit_job(deck, api.read_draft(deck, QUEUE, ids[0]), '[["other"], {}]')
    assert result.applied == 1
    assert yard.ids("ready") == ids
    assert yard.claim()[0].body == b'[["other"],{}]'
    again = api.undo_batch(deck)
    assert "running" in again.skipped[0].why
    assert before["body"] != yard.dump()["body"]


def test_what_changed_meanwhile_is_left_alone(deck: Deck, yard: Yard) -> None:
    job_id = yard.add(1)
    draft, second = api.read_draft(deck, QUEUE, job_id), api.read_draft(deck, QUEUE, job_id)
    api.edit_job(deck, draft, "[[2], {}]")
    result = api.edit_job(deck, second, "[[3], {}]")
    assert (result.applied, result.skipped[0].why) == (0, "its payload has changed")
    yard.claim()
    result = api.edit_job(deck, draft, "[[4], {}]")
    assert result.skipped[0].why == "is running now"


def test_what_is_no_payload_is_refused(deck: Deck, yard: Yard) -> None:
    job_id = yard.die(1)
    draft = api.read_draft(deck, QUEUE, job_id)
    for text in ("", "{", "[1]", "3", '{"a": 1}', "[[], []]"):
        with pytest.raises(UsageError):
            api.edit_job(deck, draft, text)
    with pytest.raises(UnknownJob):
        api.read_draft(deck, QUEUE, "nix")
    assert yard.ids("dead") == [job_id]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10) | st.just("redis://u:secret@h"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "password", "token", "x"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(VALUES)
def test_what_is_not_touched_stays_as_it_was(value: Any) -> None:
    assert unmask(payload.mask(value), value) == value


def test_what_is_edited_holds_nothing_that_a_terminal_obeys(deck: Deck, yard: Yard) -> None:
    job_id = yard.die({"note": "a\x9b2J\u202e\x7f\U000e0041b"})
    draft = api.read_draft(deck, QUEUE, job_id)
    assert all(char.isprintable() or char == "\n" for char in draft.text())
    api.edit_job(deck, draft, draft.text().replace('"a', '"c'))
    body = json.loads(yard.raw.hget(yard.key("body"), job_id) or b"")
    assert body == [[{"note": "c\x9b2J\u202e\x7f\U000e0041b"}], {}]
