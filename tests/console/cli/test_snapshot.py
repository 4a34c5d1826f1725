"""`qdeck snapshot` and `qdeck serve`: the console without a terminal."""

from __future__ import annotations

import importlib.util

import pytest

from qdeck.admin import Writer
from qdeck_console.__main__ import main


@pytest.fixture
def filled(url: str) -> str:
    with Writer(url) as writer:
        for _ in range(7):
            writer.enqueue("demo:dev:mail:actions", "send")
        writer.pause("demo:dev:mail:actions")
    return url


@pytest.mark.parametrize(("size", "more"), [("160x48", "since creation"), ("80x24", "? help"), ("60x16", "mail")])
def test_a_frame_as_text(filled: str, capsys: pytest.CaptureFixture[str], size: str, more: str) -> None:
    assert main(["snapshot", "--url", filled, "--size", size]) == 0
    lines = capsys.readouterr().out.splitlines()
    columns, rows = (int(number) for number in size.split("x"))
    assert len(lines) == rows
    assert max(map(len, lines)) <= columns
    assert "paused" in "\n".join(lines)
    assert more in "\n".join(lines)


def test_a_frame_of_some_adapters(filled: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "--url", filled, "--adapter", "lists", "--size", "80x24"]) == 0
    assert "mail" not in capsys.readouterr().out


def test_a_frame_as_a_picture(filled: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "--url", filled, "--size", "80x24", "--svg", "--theme", "paper", "--screen", "dead"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("<svg")
    assert "#fbfaf7" in out.lower()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--screen", "nowhere"], 64, "Use one of: queues"),
        (["--size", "wide"], 64, "160x48"),
        (["--url", "redis://127.0.0.1:1"], 69, "cannot be reached"),
    ],
)
def test_what_cannot_be_framed(
    url: str, capsys: pytest.CaptureFixture[str], options: list[str], code: int, words: str
) -> None:
    assert main(["snapshot", "--url", url, *options]) == code
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(("command", "module"), [("serve", "textual_serve"), ("snapshot", "textual")])
def test_a_missing_extra_is_named(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, module: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == module else find(name, *more))
    assert main([command, "--url", url]) == 64
    assert "pip install 'qdeck[" in capsys.readouterr().err
