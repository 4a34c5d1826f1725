"""Single settings are written into a configuration without touching anything else in it."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from qdeck import InvalidOption
from qdeck._settings.save import with_setting
from qdeck.admin import save_settings

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """# mine
default_context = "dev"

[contexts.dev]
url = "redis://localhost"

[purge]  # leftovers
max_ready_age = 86_400   # a day
purge_enabled = true

[health]
"""


def test_a_line_changes_one_is_added_and_a_table_too(tmp_path: Path) -> None:
    file = tmp_path / "qdeck.toml"
    file.write_text(TEXT)
    file.chmod(0o640)
    found = save_settings(
        file,
        {
            ("purge", "max_ready_age"): 43200,
            ("purge", "rules"): ["ready_too_old", "dead_too_old"],
            ("dead_letters", "dlq_ttl"): 12.5,
        },
    )
    assert found.settings.purge.max_ready_age == 43200
    text = file.read_text()
    assert "max_ready_age = 43200   # a day" in text
    assert "# mine" in text
    assert 'purge_enabled = true\nrules = ["ready_too_old", "dead_too_old"]\n\n[health]' in text
    assert text.endswith("[dead_letters]\ndlq_ttl = 12.5\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path for path in tmp_path.iterdir() if path.is_file()] == [file]


@pytest.mark.parametrize(
    "text",
    [
        "purge = { max_ready_age = 5 }  # mine\n",
        "purge.max_ready_age = 5  # mine\n",
        "# mine\r\n[purge]\r\nmax_ready_age = 5\r\n",
        '[purge]\nrules = [\n  "ready_too_old",  # mine\n]\nmax_ready_age = 5\n',
    ],
)
def test_however_a_setting_is_written_it_is_changed(tmp_path: Path, text: str) -> None:
    file = tmp_path / "qdeck.toml"
    file.write_bytes(text.encode())
    assert save_settings(file, {("purge", "max_ready_age"): 7}).settings.purge.max_ready_age == 7
    assert file.read_bytes() == text.replace("= 5", "= 7").encode()


@pytest.mark.parametrize("text", ["[purge\n", "[purge]\nmax_redy_age = 5\n"])
def test_a_file_that_is_wrong_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "qdeck.toml"
    file.write_text(text)
    with pytest.raises(InvalidOption, match=r"qdeck\.toml"):
        save_settings(file, {("purge", "max_ready_age"): 7})
    assert file.read_text() == text
    with pytest.raises(InvalidOption):
        save_settings(tmp_path / "none.toml", {("purge", "max_ready_age"): 7})


def test_an_empty_file_gets_its_table() -> None:
    assert with_setting("", "purge", "purge_enabled", True) == "[purge]\npurge_enabled = true\n"
