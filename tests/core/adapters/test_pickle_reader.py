"""A pickle is shown and never loaded."""

from __future__ import annotations

import pickle  # what is shown has to be made
import pickletools
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdeck.adapters import pickle_reader

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)
_FORBIDDEN = ("pickle.find_class", "os.system", "subprocess.Popen", "exec", "compile", "open", "import")


class Touch:
    """What would run a command where it is loaded."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        import os

        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", range(6))
@given(value=_VALUES)
def test_plain_data_is_read_as_it_is(protocol: int, value: Any) -> None:
    """JSON values are the same again, in every protocol."""
    shown = pickle_reader.read(pickle.dumps(value, protocol))
    assert (shown.problem, shown.names) == (None, ())
    assert shown.value == msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.parametrize("protocol", range(6))
def test_what_would_run_is_shown_and_does_not_run(protocol: int, tmp_path: Any) -> None:
    """The command is a text; no import, no file and no command is asked of the interpreter."""
    target = tmp_path / "touched"
    data = pickle.dumps({"args": [Touch(f"touch {target}")]}, protocol)
    pickle_reader.read(data)  # what the reader imports for itself is there now
    events: list[str] = []
    watching = True

    def hook(event: str, _: Any) -> None:
        if watching and event in _FORBIDDEN:
            events.append(event)

    sys.addaudithook(hook)
    shown = pickle_reader.read(data)
    watching = False
    assert events == []
    assert not target.exists()
    assert shown.value == {"args": [f'posix.system("touch {target}")']}
    assert shown.names == ("posix.system",)


def test_objects_are_shown_by_name() -> None:
    """Instances, functions and their state."""
    shown = pickle_reader.read(
        pickle.dumps((len, ValueError("boom"), datetime(2026, 11, 19, 12, tzinfo=UTC), {1: b"\xff", "b": b"text"}))
    )
    made, error, moment, table = shown.value
    assert (made, error) == ("builtins.len", 'builtins.ValueError("boom")')
    assert moment.startswith("datetime.datetime(")
    assert table == {"1": {"base64": "/w=="}, "b": "text"}


@given(data=st.binary(max_size=200))
def test_any_bytes_have_an_answer(data: bytes) -> None:
    """What is no pickle is a problem, never an error."""
    shown = pickle_reader.read(data)
    msgspec.json.encode(shown.value)


@given(value=_VALUES, cut=st.integers(0, 400), put=st.binary(max_size=3), at=st.integers(0, 400))
def test_a_spoiled_pickle_has_an_answer(value: Any, cut: int, put: bytes, at: int) -> None:
    """Cut off, or with other bytes in the middle."""
    data = pickle.dumps((value, ValueError("boom"), {b"k"}))
    spoiled = data[:at] + put + data[at + len(put) :]
    for one in (data[:cut], spoiled):
        msgspec.json.encode(pickle_reader.read(one).value)


def test_very_much_in_a_few_bytes_ends() -> None:
    """Lists of the same list, a list in itself, and numbers of very many digits."""
    bomb: list[Any] = []
    for _ in range(40):
        bomb = [bomb] * 10
    itself: list[Any] = []
    itself.append(itself)
    text = "x" * 500_000
    for value, most in ((bomb, 200_000), (itself, 200_000), (10**90_000, 200_000), ([text] * 5_000, 1_200_000)):
        shown = pickle_reader.read(pickle.dumps(value, 4))
        assert len(msgspec.json.encode(shown.value)) < most
    assert "opcodes" in str(pickle_reader.read(pickle.dumps([None] * 50_000)).problem)
    assert "bytes" in str(pickle_reader.read(pickle.dumps(b"x" * (1 << 20))).problem)


def test_every_opcode_is_known() -> None:
    """An opcode of a newer protocol is shown as one, not taken for a value."""
    known = {
        *pickle_reader._CONSTANTS,
        *pickle_reader._MAKERS,
        *pickle_reader._WITH_VALUE,
        *pickle_reader._NOTHING,
        *pickle_reader._STEPS,
    }
    shown_by_name = {"EXT1", "EXT2", "EXT4", "NEXT_BUFFER"}
    assert {opcode.name for opcode in pickletools.opcodes} == known | shown_by_name
