"""qdeck.toml: strict, with the place and the nearest name in its errors; secrets come from the environment only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdeck import InvalidOption
from qdeck._settings import AgentSettings, DeadLetters, Health, Purge, read_text
from qdeck._settings.configuration import expand
from qdeck.admin import Settings, Thresholds, load_configuration
from support.commands import write_trusted

FULL = """
default_context = "local"

[contexts.local]
url = "redis://localhost:6379/0"

[contexts.shop]
url = "rediss://ops:${SHOP_PASSWORD}@redis.shop:6380/0"
environment = "production"
colour = "wine"
adapters = ["native"]

[contexts.shop.thresholds]
dlq_max_warning = 200

[contexts.old]
url = "${OLD_URL}"
read_only = true

[purge]
purge_enabled = true
purge_interval = 1800
purge_dry_run = true
max_pending_age = 3600
max_ready_age = 43200
max_completed_age = 600
max_orphaned_age = 7200
max_request_age = 1200

[dead_letters]
dlq_enabled = true
dlq_ttl = 24
dlq_max_entries = 500

[health]
health_check_enabled = true
health_check_interval = 60

[health.health_thresholds]
pending_queue_max = 7
stuck_vm_max_warning = 1

[agent]
http = "127.0.0.1:8787"
token = "${AGENT_TOKEN}"
"""


def error_of(text: str) -> InvalidOption:
    with pytest.raises(InvalidOption) as caught:
        read_text(text)
    return caught.value


def test_every_key_of_the_document_is_read() -> None:
    found = read_text(FULL).settings
    assert found.purge == Purge(
        purge_enabled=True, purge_interval=1800, purge_dry_run=True, max_pending_age=3600, max_ready_age=43200,
        max_completed_age=600, max_orphaned_age=7200, max_request_age=1200,
    )  # fmt: skip
    assert (found.dead_letters.dlq_enabled, found.dead_letters.dlq_ttl, found.dead_letters.dlq_max_entries) == (
        True, 24, 500,
    )  # fmt: skip
    assert (found.health.health_check_enabled, found.health.health_check_interval) == (True, 60)


def test_the_defaults_are_those_of_the_document_and_everything_is_off() -> None:
    """'Default: dlq_enabled: false, purge_enabled: false, health_check_enabled: false'"""
    found = Settings()
    switches = [found.purge.purge_enabled, found.dead_letters.dlq_enabled, found.health.health_check_enabled]
    assert switches == [False, False, False]
    assert (found.purge.purge_interval, found.health.health_check_interval) == (3600, 300)
    assert (found.dead_letters.dlq_ttl, found.dead_letters.dlq_max_entries) == (168, 10_000)
    ages = ("pending", "ready", "completed", "orphaned", "request")
    assert [getattr(found.purge, f"max_{age}_age") for age in ages] == [7200, 86400, 3600, 86400, 86400]
    limits = found.health.health_thresholds
    assert (limits.pending_queue_max, limits.ready_queue_max) == (100, 500)
    assert (limits.dlq_max_warning, limits.dlq_max_critical) == (100, 1000)
    assert (limits.stuck_vm_age_threshold, limits.stuck_vm_max_warning, limits.stuck_vm_max_critical) == (7200, 10, 50)


def test_thresholds_are_merged_over_the_defaults_and_those_of_a_context_over_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "x")
    found = read_text(FULL)
    assert found.thresholds == Thresholds(pending_queue_max=7, stuck_vm_max_warning=1)
    target = found.target("shop")
    assert target is not None
    assert target.thresholds == Thresholds(pending_queue_max=7, stuck_vm_max_warning=1, dlq_max_warning=200)


def test_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "p@ss/w:rd")
    found = read_text(FULL)
    local, shop = found.target(), found.target("shop")
    assert local is not None
    assert shop is not None
    assert (local.name, local.url, local.is_production, local.read_only) == (
        "local", "redis://localhost:6379/0", False, False,
    )  # fmt: skip
    assert shop.url == "rediss://ops:p%40ss%2Fw%3Ard@redis.shop:6380/0", "a password may hold any character"
    assert (shop.environment, shop.colour, shop.adapters, shop.is_production) == (
        "production",
        "wine",
        ("native",),
        True,
    )
    monkeypatch.setenv("OLD_URL", "redis://u:p@h:1/2")
    old = found.target("old")
    assert old is not None
    assert (old.url, old.read_only) == ("redis://u:p@h:1/2", True), "a whole URL is taken as it is"


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    text = FULL.replace("redis://localhost", "redis://u:hunter3@localhost").replace("${AGENT_TOKEN}", "hunter4")
    found = read_text(text)
    assert "hunter" not in repr(found) + repr(found.target("shop")) + repr(found.settings.contexts)


@pytest.mark.parametrize("value", ["'redis://u:hunter2@h'", "{ uri = 'redis://u:hunter2@h' }", "['hunter2']"])
def test_a_secret_in_the_wrong_place_is_not_shown(value: str) -> None:
    for text in (f"contexts = {value}", f"[contexts]\na = {value}", f"[agent]\ntoken = 3\nhttp = {value}"):
        error = error_of(text)
        assert "hunter2" not in f"{error}{error.hint}"
    assert "hunter2" not in str(error_of(f"[contexts.a]\nurl = [{value}]"))


def test_a_missing_variable_is_named_and_only_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    found = read_text(FULL)
    assert found.target("local") is not None
    with pytest.raises(InvalidOption, match=r"contexts\.shop\.url: the environment variable SHOP_PASSWORD is not set"):
        found.target("shop")
    with pytest.raises(InvalidOption, match="AGENT_TOKEN"):
        found.agent_token()


def test_expansion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A", "1")
    assert expand("x${A}y$${A}z$A", "here") == "x1y${A}z$A"
    with pytest.raises(InvalidOption, match="names no variable"):
        expand("${1x}", "here")


@pytest.mark.parametrize(
    ("text", "place", "said", "hint"),
    [
        ("[purge]\n\nmax_redy_age = 3", "qdeck.toml: purge.max_redy_age", "no setting", "max_ready_age"),
        ("[purge]\nmax_ready_age = '3'", "qdeck.toml: purge.max_ready_age", "Expected `int`, got `str`", "86400"),
        ("[purge]\nmax_ready_age = -3", "qdeck.toml: purge.max_ready_age", "Expected `int` >= 0", "86400"),
        ("[purge]\npurge_enabled = 1", "qdeck.toml: purge.purge_enabled", "Expected `bool`, got `int`", "false"),
        ("purge = { max_ready_age = 1.5 }", "qdeck.toml: purge.max_ready_age", "got `float`", ""),
        ("[health]\ndlq_ttl = 3", "qdeck.toml: health.dlq_ttl", "no setting", "[dead_letters]"),
        ("[contexts.a]\nenvironment = 'x'", "qdeck.toml: contexts.a", "required field `url`", ""),
        ("[contexts.a]\nurl='x'\n[contexts.b]\nurl='x'\nread_only='no'", "qdeck.toml: contexts.b.read_only", "", ""),
        ("[contexts.a]\nurl='x'\ncolour='rad'", "qdeck.toml: contexts.a.colour", "'rad' is not a colour", "'red'"),
        ("default_context='prod'\n[contexts.prd]\nurl='x'", "qdeck.toml: default_context", "'prod'", "'prd'"),
        (
            "[contexts.a]\nurl='x'\nenvironment='Prodution'",
            "qdeck.toml: contexts.a.environment",
            "Prodution",
            "'prod",
        ),
        ("[contexts.a]\nurl='x'\nadapters=['nativ']", "qdeck.toml: contexts.a.adapters", "'nativ'", "'native'"),
        ("[purge]\nrules=['ready_to_old']", "qdeck.toml: purge.rules", "ready_to_old", "'ready_too_old'"),
        (
            "[health.health_thresholds]\ndlq_max_warning=5000",
            "qdeck.toml: health",
            "over dlq_max_critical",
            "at most",
        ),
        ("[context.a]\nurl='x'", "qdeck.toml: context", "no setting 'context'", "'contexts'"),
        ("x = [", "qdeck.toml is not TOML", "", "toml.io"),
    ],
)
def test_errors_name_the_place_what_is_wrong_and_the_nearest(text: str, place: str, said: str, hint: str) -> None:
    error = error_of(text)
    assert str(error).startswith(place)
    assert said in str(error)
    assert hint in error.hint


def test_files_are_found_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_configuration().file is None
    assert load_configuration().settings == Settings()
    if os.uname().sysname == "Linux":
        user = home / "qdeck" / "config.toml"
        user.parent.mkdir(parents=True)
        user.write_text("[purge]\npurge_interval = 1")
        assert load_configuration().settings.purge.purge_interval == 1
    write_trusted(Path("qdeck.toml"), "[purge]\npurge_interval = 2")
    assert load_configuration().settings.purge.purge_interval == 2
    other = tmp_path / "other.toml"
    other.write_text("[purge]\npurge_interval = 3")
    assert load_configuration(other).settings.purge.purge_interval == 3
    with pytest.raises(InvalidOption, match="cannot be read"):
        load_configuration(tmp_path / "none.toml")
    other.write_bytes(b"\xff")
    with pytest.raises(InvalidOption, match="not UTF-8"):
        load_configuration(other)


def test_a_plain_password_that_others_may_read_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "qdeck.toml"
    file.write_text("[contexts.a]\nurl = 'redis://u:secret@h'\n[contexts.b]\nurl = 'redis://u:${P}@h'")
    file.chmod(0o644)
    [warning] = load_configuration(file).warnings()
    assert "contexts.a.url" in warning
    assert "contexts.b" not in warning
    assert "secret@" not in warning
    file.chmod(0o600)
    assert load_configuration(file).warnings() == []


@given(st.dictionaries(st.sampled_from(Thresholds.__struct_fields__[:7]), st.integers(0, 100), max_size=7))
def test_any_part_of_the_thresholds_is_merged(some: dict[str, int]) -> None:
    text = "[health.health_thresholds]\n" + "\n".join(f"{name} = {value}" for name, value in some.items())
    merged = {name: some.get(name, getattr(Thresholds(), name)) for name in Thresholds.__struct_fields__}
    if any(merged[f"{kind}_max_warning"] > merged[f"{kind}_max_critical"] for kind in ("dlq", "stuck_vm")):
        assert "is over" in str(error_of(text))
        return
    found = read_text(text).thresholds
    for name in Thresholds.__struct_fields__:
        assert getattr(found, name) == merged[name]


def test_the_example_shows_every_setting_with_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path(__file__).parents[3] / "qdeck.example.toml"
    text = file.read_text()
    found = read_text(text).settings
    assert (found.purge, found.health, found.dead_letters, found.agent) == (
        Purge(),
        Health(),
        DeadLetters(),
        AgentSettings(),
    )
    for kind in (Purge, Health, DeadLetters, Thresholds):
        assert [name for name in kind.__struct_fields__ if name not in text] == []
    monkeypatch.setenv("SHOP_REDIS_PASSWORD", "x")
    assert all(load_configuration(file).target(name) is not None for name in found.contexts)
