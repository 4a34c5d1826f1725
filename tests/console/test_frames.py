"""The pictures of the documentation are of the console as it is now: cell for cell, the demo's queues at one moment.

What every screen shows is in `characterisation/rows`. `python screenshots/make.py` makes the pictures anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from support.still import frames, paint

if TYPE_CHECKING:
    import redis

PICTURES: Final = Path(__file__).resolve().parents[2] / "screenshots"


@pytest.fixture(autouse=True)
def _same_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NO_COLOR", "QDECK_ASCII", "LC_ALL", "LC_CTYPE", "LANG", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


async def test_the_pictures_show_the_console_as_it_is(url: str, raw: redis.Redis) -> None:
    paint(url, raw)
    taken = await frames(url, (160, 48))
    light = await frames(url, (160, 48), theme="qdeck-paper", only="queues")
    now = {f"{name}-dark": frame.digest for name, frame in taken.items()} | {"queues-light": light["queues"].digest}
    drawn = json.loads((PICTURES / "drawn.json").read_text("utf-8"))
    stale = sorted(name for name in now.keys() | drawn.keys() if now.get(name) != drawn.get(name))
    assert not stale, f"draw again with screenshots/make.py: {', '.join(stale)}"
    assert all((PICTURES / f"{name}.png").is_file() for name in now)
