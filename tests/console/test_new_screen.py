"""The screen of the page on adding one, added to a copy of the console as the page says: a module and two lines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from qdeck.admin import Writer
from support.screens import MAIL, SEARCH, fill

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "console" / "docs" / "how-to" / "add-a-screen.md"
_CODE: Final = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_a_new_screen_is_a_module_and_two_lines(url: str, tmp_path: Path) -> None:
    module, tab, action = _CODE.findall(PAGE.read_text("utf-8"))
    assert len(module.splitlines()) < 100
    copy = tmp_path / "qdeck_console"
    shutil.copytree(ROOT / "console" / "qdeck_console", copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "screens" / "paused.py").write_text(module, "utf-8")
    table = copy / "actions.py"
    text = table.read_text("utf-8")
    for begins, line in (("TABS: Final = {", tab), ("ACTIONS: Final[tuple[Action, ...]] = (", action)):
        assert text.count(begins) == 1
        text = text.replace(begins, f"{begins}\n    {line.strip().removesuffix(',')},")
    table.write_text(text, "utf-8")
    fill(url)
    with Writer(url) as writer:
        writer.pause(MAIL)
        writer.pause(SEARCH)
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, __file__, url], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    with Writer(url) as writer:
        assert not [row.name for row in writer.snapshot().queues if row.paused]


async def work(url: str) -> None:
    """Open the screen with its key, look at it, resume a queue, and search."""
    import qdeck_console
    from qdeck_console.actions import of_scope
    from support.screens import console, until

    assert Path(qdeck_console.__file__).parents[1] != ROOT / "console"
    assert {"resume", "filter", "copy", "write"} <= {action.id for action in of_scope("paused")}
    async with console(url, "0") as pilot:
        seen = await until(pilot, "2 paused queues")
        assert "paused for" in seen, "the heads of its columns"
        assert "reason" in seen, "the pane beside it"
        assert "r resume" in seen, "its key in the footer"
        await pilot.press("slash", *"search", "enter")
        await until(pilot, "1 paused queue")
        await pilot.press("r")
        await until(pilot, f"{SEARCH} resumed")
        await until(pilot, "no paused queue matches")
        await pilot.press("escape", "g", "r")
        await until(pilot, "No queue is paused")
        await pilot.press("r")
        await until(pilot, "no queue under the cursor")
        await pilot.press("question_mark")
        await until(pilot, "resume the queue")


if __name__ == "__main__":
    import asyncio

    asyncio.run(work(sys.argv[1]))
