"""The numbered steps of the documentation, typed on the demo as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from qdeck.admin import ADAPTERS, Writer
from qdeck_console.demo.run import Demo
from support.pages import ROOT
from support.screens import app_on, shown
from support.typed import follow, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS: Final = ROOT / "console" / "docs"
PAGES: Final = {str(page.relative_to(DOCS)): page for page in sorted(DOCS.rglob("*.md")) if tokens(page)}
INCIDENT: Final = tokens(ROOT / "README.md")["An incident in six steps"]


@pytest.fixture
def demo() -> Iterator[str]:
    """The URL of a demo."""
    with Demo() as running:
        yield running.url


@pytest.mark.parametrize(
    "size",
    [pytest.param((80, 24), marks=pytest.mark.slow, id="80x24"), pytest.param((120, 36), id="120x36")],
)
async def test_the_incident_of_the_readme(demo: str, size: tuple[int, int]) -> None:
    async with shown(app_on(demo, adapters=ADAPTERS), size) as pilot:
        await follow(pilot, INCIDENT)
    with Writer(demo, adapters=ADAPTERS) as writer:
        log = [row.verb for row in writer.activity()]
    assert log[-4:] == ["retry", "retry", "purge", "undo"]


@pytest.mark.slow
@pytest.mark.parametrize("page", list(PAGES))
async def test_the_steps_of_a_page(demo: str, page: str) -> None:
    async with shown(app_on(demo, adapters=ADAPTERS), (120, 36)) as pilot:
        for steps in tokens(PAGES[page]).values():
            await follow(pilot, steps)
