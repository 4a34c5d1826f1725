"""The answers to the three questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._model import answers as module
from qdeck._model.words import Code, Finding, Status

if TYPE_CHECKING:
    import pytest


def test_each_code_is_looked_at_once_however_many_queues_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Code] = []
    of = module.questions_of

    def questions_of(code: Code) -> tuple[module.Question, ...]:
        asked.append(code)
        return of(code)

    monkeypatch.setattr(module, "questions_of", questions_of)
    many = [Finding(code=Code.DEAD, severity=Status.DEGRADED, count=count) for count in range(1000, 0, -1)]
    found = module.answers([*many, Finding(code=Code.NO_WORKER, severity=Status.DEGRADED, count=1)])
    assert asked == [Code.DEAD, Code.NO_WORKER]
    assert {one.finding.count for one in found if one.finding is not None} <= {1000, 1}
