"""No byte of someone's data may reach a terminal as a control, and no text may pretend to be another."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import qdeck
import qdeck_console
from qdeck_console.cli.output import dumps
from qdeck_console.format import count, counted, fit, length, path, rate, short_count, size, span
from qdeck_console.presenters.line_parts import name_parts
from qdeck_console.terminal import wants_ascii
from qdeck_console.text import cut_end, cut_middle, plain_signs, safe_text, width, wrap
from support.hostile import HOSTILE, is_clean


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_terminal_could_obey_is_written_out(name: str) -> None:
    assert is_clean(safe_text(HOSTILE[name]))


def test_substitutes_are_readable() -> None:
    assert safe_text(HOSTILE["clear"]) == "\\x1b[2J\\x1b[31mred"
    assert safe_text(HOSTILE["bidi"]) == "user\\u202egnp.exe\\u2066x\\u2069"
    assert safe_text(HOSTILE["lines"]) == "first\\r\\nsecond\\nthird\\ttab"
    assert safe_text(HOSTILE["lines"], one_line=False) == "first\nsecond\nthird   tab"
    assert safe_text(HOSTILE["markup"]) == HOSTILE["markup"], "markup is text like any other"


def test_marks_cannot_climb_over_other_lines() -> None:
    shown = safe_text(HOSTILE["zalgo"])
    assert len(shown) < 10
    assert shown.endswith("!")
    assert safe_text(HOSTILE["only marks"])[0] == "\u25cc", "a mark without a letter would sit on its neighbour"


def test_bytes_that_are_not_text_are_shown_as_they_are() -> None:
    assert safe_text(b"caf\xe9 \xff") == "caf\\xe9 \\xff"
    assert safe_text("naïve café, 日本語, ñ".encode()) == "naïve café, 日本語, ñ"


def test_no_character_that_hides_text_gets_through() -> None:
    """Also in what commands write for programs: somebody looks at that on a terminal, too."""
    assert safe_text("pay\u180eload") == "pay\\u180eload"
    assert safe_text("❤\ufe0f") == "❤"
    for code in range(0x110000):
        char = chr(code)
        if is_clean(char):
            continue
        told = dumps([f"a{char}"])
        assert is_clean(told) or unicodedata.category(char) == "Cn", hex(code)
        assert json.loads(told) == [f"a{char}"]
        assert is_clean(safe_text(f"{char}{char}")), hex(code)


def test_a_long_text_is_cut_with_a_sign_and_at_once() -> None:
    assert safe_text("x" * 1_000_000, limit=100) == "x" * 99 + "…"
    assert len(safe_text("\x1b" * 1_000_000, limit=100)) == 100
    assert len(safe_text(b"\xff" * 1_000_000, limit=100)) == 100


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_comes_out_clean(value: str | bytes) -> None:
    assert is_clean(safe_text(value))
    lines = safe_text(value, one_line=False)
    assert is_clean(lines.replace("\n", ""))


@given(st.text(max_size=60), st.integers(1, 40))
def test_cuts_never_take_more_cells_than_allowed(text: str, cells: int) -> None:
    text = safe_text(text)
    assert width(cut_end(text, cells)) <= cells
    assert width(cut_middle(text, cells)) <= cells
    assert length(fit([(text, "text"), ("after", "muted")], cells)) <= cells


@given(st.text(max_size=200), st.integers(8, 40), st.integers(1, 6))
def test_broken_lines_fit(text: str, cells: int, most: int) -> None:
    lines = wrap(safe_text(text, one_line=False), cells, most=most)
    assert len(lines) <= most
    assert all(width(line) <= cells for line in lines)


def test_breaking_keeps_indentation_and_every_word() -> None:
    text = '  File "/very/long/path/to/a/module.py", line 12, in handler\n    raise ValueError("x")'
    lines = wrap(text, 30, most=20)
    assert all(line.startswith("  ") for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "").replace("\n", "")


@pytest.mark.parametrize(
    ("number", "shown"),
    [(None, "–"), (0, "·"), (7, "7"), (48_210, "48,210"), (999_999, "999,999"), (1_239_999, "1.23M")],
)
def test_counts(number: int | None, shown: str) -> None:
    assert count(number) == shown


def test_a_number_that_does_not_fit_is_compact_and_never_cut() -> None:
    assert [count(n, 6) for n in (208_512, 99_999, 1_239_999, None, 0)] == ["208k", "99,999", "1.23M", "–", "·"]
    assert [count(n, 4) for n in (999, 1_204, 12_999_999, 999_999_999_999)] == ["999", "1.2k", "12M", "999G"]
    assert [rate(r, 6) for r in (99_999.4, 123_456.7, 2_000_000.0)] == ["99,999", "123k", "2.0M"]


def test_compact_counts_round_down() -> None:
    assert [short_count(n) for n in (999, 9_960, 10_000, 999_999, 1_000_000)] == ["999", "9.9k", "10k", "999k", "1.0M"]


def test_rates_and_spans() -> None:
    assert [rate(r) for r in (None, 0.04, 0.06, 112.6, 1234.5)] == ["–", "·", "0.1", "112.6", "1,234"]
    seconds = (0.8, 16, 61, 2292, 7500, 266_400, 9_000_000)
    assert [span(s * 1000) for s in seconds] == ["0s", "16s", "1m 01s", "38m 12s", "2h 05m", "3d 2h", "104d"]
    assert span(800, fine=True) == "0.8s"
    assert ["".join(text for text, _ in size(n)) for n in (999, 1_100_000, 340_000)] == ["999 B", "1.1 MB", "340 kB"]


def test_names_lose_their_middle_first() -> None:
    parts = ["ingestion", "documents", "premium", "task_987efg"]

    def shown(cells: int) -> str:
        return "".join(text for text, _ in path(parts, cells, "text"))

    assert shown(60) == "ingestion ▸ documents ▸ premium ▸ task_987efg"
    assert shown(40) == "ingestion ▸ … ▸ premium ▸ task_987efg"
    assert shown(27) == "ingestion ▸ … ▸ task_987efg"
    assert shown(25) == "… ▸ premium ▸ task_987efg"
    assert shown(24) == "… ▸ task_987efg"
    assert shown(12) == "task_987efg"


@pytest.mark.parametrize("cells", [16, 20, 24, 28, 32])
def test_a_short_name_is_not_that_of_another_queue(cells: int) -> None:
    def shown(name: str) -> str:
        return "".join(text for text, _ in path(name.split(":"), cells, "text"))

    assert shown("embedding") != shown("ingestion_service:callbacks:embedding")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("·", "0"),
        ("a  ·  b", "a  -  b"),
        ("task_98…", "task_9.."),
        ("≥ 74", ">=74"),
        ("mail ▸ a", "mail > a"),
        ("é", "é"),
    ],
)
def test_own_signs_in_ascii_take_the_same_cells(text: str, plain: str) -> None:
    assert plain_signs(text) == plain
    assert width(plain) == width(text)


def test_ascii_is_chosen_where_other_signs_are_not_safe() -> None:
    assert not wants_ascii({"LANG": "en_GB.UTF-8", "TERM": "xterm-256color"})
    for environment in ({"TERM": "linux"}, {"LANG": "ja_JP.UTF-8"}, {"QDECK_ASCII": "1"}):
        assert wants_ascii(environment)


def test_what_is_cut_already_gets_no_second_sign() -> None:
    pieces = fit([("connectio…", "bad"), ("  next", "text")], 11)
    assert "".join(text for text, _ in pieces) == "connectio… "


def test_numbers_of_things_are_told_in_one_place() -> None:
    assert [counted(number, "queue") for number in (0, 1, 2, 1200)] == [
        "0 queues",
        "1 queue",
        "2 queues",
        "1,200 queues",
    ]
    assert [counted(number, "try", "tries") for number in (1, 2)] == ["1 try", "2 tries"]
    by_hand = re.compile(r"'s' \* \(|'s' if |tr\{'y'|\"1 \w+\" if ")
    for package in (qdeck, qdeck_console):
        for file in Path(str(package.__file__)).parent.rglob("*.py"):
            told = [line for line in file.read_text("utf-8").splitlines() if by_hand.search(line)]
            assert [line for line in told if " wait{" not in line and "check{" not in line] == [], file


def test_the_stream_of_a_service_has_its_service_in_a_short_name() -> None:
    parts = name_parts("nooble4:development:embedding:streams:main")
    assert "".join(text for text, _ in path(parts, 24, "text")) == "… ▸ embedding:streams"
