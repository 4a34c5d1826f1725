"""The generated parts of the documentation are those that the code makes now."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import qdeck
from project import reference
from qdeck.admin import NATIVE_VERBS
from support.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("page", reference.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_current(page: Path) -> None:
    """`make docs` writes it."""
    assert page.read_text("utf-8") == reference.current(page)


def test_every_generator_has_a_page() -> None:
    text = "".join(page.read_text("utf-8") for page in reference.pages())
    assert [name for name in reference.GENERATORS if f"<!-- generated: {name} -->" not in text] == []


def test_every_name_of_an_application_is_listed() -> None:
    text = (ROOT / "core" / "docs" / "reference" / "qdeck.md").read_text("utf-8")
    names = [name for name in qdeck.__all__ if not name.startswith("_")]
    assert [name for name in names if not re.search(rf"`{name}\b|^## {name}$", text, re.MULTILINE)] == []


def test_the_states_of_each_verb_are_listed() -> None:
    text = (ROOT / "core" / "docs" / "reference" / "life-of-a-job.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", text.partition("## Verbs")[2].partition("\n## ")[0], re.MULTILINE)
    listed = {verb: sorted(re.findall(r"`(\w+)`", states)) for verb, states in rows}
    assert listed == {verb.value: sorted(states) for verb, states in NATIVE_VERBS.items()}
