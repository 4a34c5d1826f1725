"""Codes of skips: each has words, a line in the documentation, and is what the scripts reply."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qdeck._engine import scripts
from qdeck._model.reasons import (
    CapabilityCode,
    Caution,
    CautionCode,
    Skip,
    SkipCode,
    Stop,
    StopCode,
    Stuck,
    StuckCode,
    skips_of,
)
from qdeck._model.words import Code, UnreadableCode

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import StrEnum

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("code", SkipCode)
def test_each_code_has_words(code: SkipCode) -> None:
    words = code.words("7")
    assert words == words.strip() != ""


@pytest.mark.parametrize(
    ("field", "codes"),
    [
        ("findings[].code", Code),
        ("skipped[].code", SkipCode), ("stopped_code", StopCode), ("problem_code", UnreadableCode),
        ("code` of `stuck", StuckCode), ("cautions[].code", CautionCode),
    ],
)  # fmt: skip
def test_the_documentation_lists_each_code(field: str, codes: Iterable[StrEnum]) -> None:
    text = (ROOT / "console/docs/reference/codes.md").read_text()
    part = text.partition(f"\n## `{field}`\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \| .+ \|$", part, re.MULTILINE) == list(codes)


def test_json_has_the_code_beside_the_sentence() -> None:
    [skip] = skips_of("mail", [("a", "moved", "dead")])
    assert skip == Skip(code=SkipCode.MOVED, id="a", queue="mail", data="dead")
    told = {"id": "a", "code": "moved", "why": "has died since", "adapter": "native", "queue": "mail"}
    assert skip.as_json() == told


@pytest.mark.parametrize("name", ["apply", "undo"])
def test_scripts_reply_with_codes(name: str) -> None:
    """What a script gives as a reason is a code, and behind a blank its data: no sentence is left in Lua."""
    source = scripts.load(name).source.decode()
    said = re.findall(r"(?:return|and|or|=|==|\?) '([a-z_]{4,})(?: '|')", source)
    codes = {word for word in said if word in set(SkipCode)}
    sentences = re.findall(r"(?:return|and|or) '((?:is|its|has|a|there) [^']+)'", source)
    assert sentences == []
    assert {"moved", "gone", "changed"} <= codes


@pytest.mark.parametrize("code", StopCode)
def test_each_stop_has_words_of_its_own(code: StopCode) -> None:
    told = {other: str(Stop(code=other, count=3, ended=5, seconds=60)) for other in StopCode}
    assert [other for other in told if told[other] == told[code]] == [code]


@pytest.mark.parametrize("code", StuckCode)
def test_each_reason_of_a_stuck_job_has_words_of_its_own(code: StuckCode) -> None:
    def words(code: StuckCode) -> str:
        return Stuck(code=code, seconds=7300, limit=300, name="x").text

    assert [other for other in StuckCode if words(other) == words(code)] == [code]
    lasting = (
        StuckCode.RUNNING_TOO_LONG,
        StuckCode.VISIBILITY_EXPIRED,
        StuckCode.WAITING_TOO_LONG,
        StuckCode.OVERDUE,
        StuckCode.OWNER_GONE,
        StuckCode.LEASE_EXPIRED,
    )
    lasts = code in lasting
    assert ("2h 01m" in words(code)) == lasts


@pytest.mark.parametrize("code", CautionCode)
def test_each_caution_has_words_of_its_own(code: CautionCode) -> None:
    assert [other for other in CautionCode if str(Caution(code=other)) == str(Caution(code=code))] == [code]


WITHOUT_NOTE = (CapabilityCode.OK, CapabilityCode.STATE, CapabilityCode.NO_SUCH_VERB)


@pytest.mark.parametrize("code", CapabilityCode)
def test_each_capability_has_words_and_takes_a_note(code: CapabilityCode) -> None:
    plain = code.words("lists", "run", states=["ready", "dead"], state="done")
    noted = code.words("lists", "run", states=["ready", "dead"], state="done", note="ask it")
    assert (plain == "") is (code is CapabilityCode.OK)
    assert ("ask it" in noted) is (code not in WITHOUT_NOTE)


@pytest.mark.parametrize(
    ("code", "data", "sentence"),
    [
        (SkipCode.MOVED, "dead", "it has died since"),
        (SkipCode.CHANGED, "", "it has changed since"),
        (SkipCode.NOT_FOUND, "", "there is no such job"),
        (SkipCode.UNIQUE_HELD, "j7", "its unique name is held by j7"),
    ],
)
def test_a_skip_is_a_sentence_of_its_own(code: SkipCode, data: str, sentence: str) -> None:
    assert Skip(code=code, data=data).sentence == sentence
