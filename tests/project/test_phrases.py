"""The check of phrases: what it finds and where, and what it lets pass."""

from __future__ import annotations

import json

import pytest

from project import phrases
from project.phrases import Found, Rule, counts, find, more, pattern

SIGN = Rule(phrase="signs? of life", pattern=pattern("signs? of life"), write="heartbeat")


def found_in(name: str, source: str, *rules: Rule) -> list[int]:
    return [one.line for one in find("core", name, source, rules or (SIGN,), [])]


@pytest.mark.parametrize(
    ("name", "source", "lines"),
    [
        ("a.md", "# Workers\n\nA sign\nof life, a Sign of life.\n", [3, 4]),
        ("a.py", '"""Show the worker.\n\nNo sign of life for a minute.\n"""\n', [3]),
        ("a.py", "x = 1\ny = f'{x} s without a sign of life'\n", [2]),
        ("a.py", "y = ('a sign '\n     'of life')\n", [1]),
        ("a.py", "sign_of_life = 1  # a sign of life\n", []),
        ("a.md", "a design of lifetimes\n", []),
    ],
)
def test_phrases_are_found_in_texts_and_not_in_code(name: str, source: str, lines: list[int]) -> None:
    assert found_in(name, source) == lines


def test_code_stands_for_what_code_is_called() -> None:
    asks = Rule(phrase="CODE asks", pattern=pattern("CODE asks"), write="reads")
    assert found_in("a.md", "The worker asks.\nqdeck asks.\nAn operator asks.\n", asks) == [1, 2]


def test_there_is_no_queue_is_plain() -> None:
    [rule] = [rule for rule in phrases.read_rules()[0] if rule.write == "is not a"]
    assert found_in("a.md", "There is no queue.\nIt is no longer there.\nIt is no queue.\n", rule) == [3]


def test_a_sentence_can_be_allowed_in_a_file() -> None:
    allowed = [{"file": "docs/*", "line": "^> ", "reason": "a quotation"}]
    text = "> a sign of life\na sign of life\n"
    assert [one.line for one in find("core", "docs/a.md", text, [SIGN], allowed)] == [2]
    assert len(find("core", "a.md", text, [SIGN], allowed)) == 2


def test_only_more_than_is_recorded_is_new() -> None:
    found: list[Found] = find("core", "a.md", "a sign of life", [SIGN], [])
    assert counts(found)["core"] == {SIGN.phrase: 1}
    assert more(found, {"core": {SIGN.phrase: 1}}) == []
    assert more(found, {"console": {SIGN.phrase: 1}}) == found
    assert more(found * 2, {"core": {SIGN.phrase: 1}}) == found * 2


def test_the_record_has_known_phrases_only() -> None:
    rules, allowed = phrases.read_rules()
    recorded = json.loads(phrases.RECORD.read_text("utf-8"))
    assert set(recorded) == set(phrases.PARTS)
    assert {phrase for counted in recorded.values() for phrase in counted} <= {rule.phrase for rule in rules}
    assert [entry for entry in allowed if not entry["reason"]] == []
