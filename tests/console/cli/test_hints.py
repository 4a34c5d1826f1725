"""Hints for misspelled names: they name the right section, and never propose a switch that makes qdeck write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck import InvalidOption
from qdeck._settings import AgentSettings, DeadLetters, Health, Purge, read_text
from qdeck._settings.model import SWITCHES_THAT_WRITE
from qdeck.admin import Limits
from qdeck_console.cli.base import OPTIONS_THAT_WRITE

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.commands import Ran


def hint_of(text: str) -> str:
    with pytest.raises(InvalidOption) as caught:
        read_text(text)
    return caught.value.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[purge]\ndlq_enabled = true", "Move dlq_enabled to [dead_letters]."),
        ("[health]\npurge_enabled = true", "Move purge_enabled to [purge]."),
        ("[dead_letters]\nhealth_check_enabled = true", "Move health_check_enabled to [health]."),
        ("[health]\ndlq_max_warning = 3", "Move dlq_max_warning to [health.health_thresholds]."),
        ("[purge]\ndefault_context = 'a'", "Move default_context before the first [table]."),
        ("[purge]\ndlq_tll = 3", "Did you mean 'dlq_ttl' in [dead_letters]?"),
        ("[purge]\npurge_dry_rn = true", "Did you mean 'purge_dry_run'?"),
        ("[adapters.lists]\npaterns = []", "Did you mean 'patterns'?"),
        ("[contexts.a]\nurl = 'x'\n[contexts.a.thresholds]\nready_max = 1", "Did you mean 'ready_queue_max'?"),
    ],
)
def test_a_setting_of_another_section_is_named_with_its_section(text: str, hint: str) -> None:
    assert hint_of(text) == hint


def _misspelled(name: str) -> set[str]:
    return {name[:-1], f"{name}s", name.replace("_", ""), name.replace("enabled", "enable"), f"x{name}", "enabled"}


@pytest.mark.parametrize("switch", sorted(SWITCHES_THAT_WRITE))
@pytest.mark.parametrize("table", ["", "[purge]", "[dead_letters]", "[health]", "[agent]", "[adapters.lists]"])
def test_no_hint_proposes_a_switch_that_writes(table: str, switch: str) -> None:
    for name in _misspelled(switch) - {switch}:
        assert f"mean '{switch}'" not in hint_of(f"{table}\n{name} = true")


def test_every_switch_that_is_off_by_default_writes_unless_it_only_restricts() -> None:
    off = {
        name
        for table in (Purge, DeadLetters, Health, AgentSettings)
        for name, default in zip(table.__struct_fields__, table.__struct_defaults__, strict=True)
        if default is False
    }
    assert off - {"purge_dry_run", "clean_dry_run"} == SWITCHES_THAT_WRITE - {"clean_interval"}


def test_a_threshold_that_is_misspelled_on_the_command_line() -> None:
    with pytest.raises(InvalidOption) as caught:
        Limits().changed("dlq_enable=true")
    assert "Did you mean" not in caught.value.hint


@pytest.mark.parametrize(
    ("args", "proposed"),
    [
        (["purge", "--aply"], ""),
        (["purge", "--yess"], ""),
        (["purge", "--noww"], ""),
        (["requeue", "q", "--all-runing"], ""),
        (["clean", "--orphan-s"], ""),
        (["status", "--confrm", "x"], "--config"),
        (["status", "--contex", "x"], "--context"),
        (["status", "--hlep"], "--help"),
    ],
)
def test_no_hint_proposes_an_option_that_writes(qdeck: Callable[..., Ran], args: list[str], proposed: str) -> None:
    ran = qdeck(*args)
    assert ran.code == 64
    assert proposed in ran.err
    assert [option for option in OPTIONS_THAT_WRITE if repr(option) in ran.err] == []


def test_an_option_of_another_command_gets_no_suggestion(qdeck: Callable[..., Ran]) -> None:
    assert "Did you mean" not in qdeck("status", "--where", "x").err
