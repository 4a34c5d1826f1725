"""`[masking]` of a configuration holds for what commands show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import qdeck
from qdeck import InvalidOption
from qdeck._model import masking
from qdeck.admin import load_configuration
from support.commands import runner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    masking.configure()


def test_what_a_configuration_adds_and_exempts_holds_for_commands(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = qdeck.App(url, queue="shop:actions")

    @app.task
    def login(**_: str) -> None: ...

    login.enqueue(session_id="q7-session", csrf_token="q7-csrf", password="q7-password")
    app.close()
    run = runner(capsys)
    [shown] = [row["payload"] for row in run("jobs", "shop:actions", "--json", "--url", url).json]
    assert shown[1] == {"session_id": "q7-session", "csrf_token": "***", "password": "***"}
    file = tmp_path / "qdeck.toml"
    file.write_text('[masking]\nadd = ["session_id"]\nexempt = ["csrf_token"]\n')
    told = run("jobs", "shop:actions", "--json", "--url", url, "--config", str(file))
    [shown] = [row["payload"] for row in told.json]
    assert shown[1] == {"session_id": "***", "csrf_token": "q7-csrf", "password": "***"}


@pytest.mark.parametrize("wrong", ['"*"', '"a*b*c*d"', '"(a+)+"', "7", f'"{"x" * 101}"'])
def test_a_wrong_pattern_is_refused_with_its_place(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "qdeck.toml"
    file.write_text(f"[masking]\nexempt = [{wrong}]\n")
    with pytest.raises(InvalidOption, match=r"masking\.exempt"):
        load_configuration(file)
