"""Every screen at two sizes, cell for cell: the demo's queues at one moment that never passes.

A screen that was changed on purpose: `QDECK_FRAMES=write pytest tests/console/test_frames.py` writes what it shows now,
and `python screenshots/make.py` makes its picture anew.
"""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from support.still import frames, paint

if TYPE_CHECKING:
    import redis

FRAMES: Final = Path(__file__).with_name("frames")
PICTURES: Final = Path(__file__).resolve().parents[2] / "screenshots"


@pytest.fixture(autouse=True)
def _same_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NO_COLOR", "QDECK_ASCII", "LC_ALL", "LC_CTYPE", "LANG", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


@pytest.mark.parametrize("size", [(160, 48), (80, 24)])
async def test_every_screen_is_as_it_was(url: str, raw: redis.Redis, size: tuple[int, int]) -> None:
    paint(url, raw)
    taken = await frames(url, size)
    told: list[str] = []
    for name, frame in taken.items():
        file = FRAMES / f"{name}-{size[0]}x{size[1]}.txt"
        if os.environ.get("QDECK_FRAMES") == "write":
            FRAMES.mkdir(exist_ok=True)
            file.write_text(frame.text, "utf-8")
        before = file.read_text("utf-8") if file.exists() else ""
        if before != frame.text:
            told += difflib.unified_diff(
                before.splitlines(), frame.text.splitlines(), file.name, "now", n=1, lineterm=""
            )
    assert not told, "\n".join(told)
    if size == (160, 48):
        light = await frames(url, size, theme="qdeck-paper", only="queues")
        now = {f"{name}-dark": frame.digest for name, frame in taken.items()} | {"queues-light": light["queues"].digest}
        drawn = json.loads((PICTURES / "drawn.json").read_text("utf-8"))
        stale = sorted(name for name in now.keys() | drawn.keys() if now.get(name) != drawn.get(name))
        assert not stale, f"draw again with screenshots/make.py: {', '.join(stale)}"
        assert all((PICTURES / f"{name}.png").is_file() for name in now)
