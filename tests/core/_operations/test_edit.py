"""Edit and retry: the new payload runs, the old one stays in the record, secrets stay what they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core._operations.yard import QUEUE, Yard
from qdeck import UnknownJob, UsageError
from qdeck._model import payload
from qdeck._model.unmasking import unmask

if TYPE_CHECKING:
    from qdeck.admin import Writer


def test_edit_and_retry(writer: Writer, yard: Yard) -> None:
    job_id = yard.die({"user": 1, "password": "geheim", "at": "redis://u:pw@h/0"})
    before = yard.dump()
    draft = writer.draft(QUEUE, job_id)
    assert "geheim" not in draft.text()
    assert "pw" not in draft.text()
    result = writer.edit(draft, draft.text().replace('"user": 1', '"user": 2'), reason="wrong user")
    assert (result.applied, result.skipped) == (1, ())
    body = json.loads(yard.raw.hget(yard.key("body"), job_id) or b"")
    assert body == [[{"user": 2, "password": "geheim", "at": "redis://u:pw@h/0"}], {}]
    assert yard.ids("ready") == [job_id]
    history = writer.job(QUEUE, job_id).history
    assert [event.kind for event in history] == ["enqueued", "failed", "retried", "edited"]
    assert history[-1].data["original"] == [[{"user": 1, "password": "***", "at": "redis://u:***@h/0"}], {}]
    assert writer.undo().restored == 1
    assert yard.dump() == before


def test_a_waiting_job_keeps_its_place(writer: Writer, yard: Yard) -> None:
    ids = [yard.add(n) for n in range(3)]
    before = yard.dump()
    result = writer.edit(writer.draft(QUEUE, ids[0]), '[["other"], {}]')
    assert result.applied == 1
    assert yard.ids("ready") == ids
    assert yard.claim()[0].body == b'[["other"],{}]'
    again = writer.undo()
    assert "running" in again.skipped[0].why
    assert before["body"] != yard.dump()["body"]


def test_what_changed_meanwhile_is_left_alone(writer: Writer, yard: Yard) -> None:
    job_id = yard.add(1)
    draft, second = writer.draft(QUEUE, job_id), writer.draft(QUEUE, job_id)
    writer.edit(draft, "[[2], {}]")
    result = writer.edit(second, "[[3], {}]")
    assert (result.applied, result.skipped[0].why) == (0, "its payload has changed")
    yard.claim()
    result = writer.edit(draft, "[[4], {}]")
    assert result.skipped[0].why == "is running now"


def test_what_is_no_payload_is_refused(writer: Writer, yard: Yard) -> None:
    job_id = yard.die(1)
    draft = writer.draft(QUEUE, job_id)
    for text in ("", "{", "[1]", "3", '{"a": 1}', "[[], []]"):
        with pytest.raises(UsageError):
            writer.edit(draft, text)
    with pytest.raises(UnknownJob):
        writer.draft(QUEUE, "nix")
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


def test_what_is_edited_holds_nothing_that_a_terminal_obeys(writer: Writer, yard: Yard) -> None:
    job_id = yard.die({"note": "a\x9b2J\u202e\x7f\U000e0041b"})
    draft = writer.draft(QUEUE, job_id)
    assert all(char.isprintable() or char == "\n" for char in draft.text())
    writer.edit(draft, draft.text().replace('"a', '"c'))
    body = json.loads(yard.raw.hget(yard.key("body"), job_id) or b"")
    assert body == [[{"note": "c\x9b2J\u202e\x7f\U000e0041b"}], {}]
