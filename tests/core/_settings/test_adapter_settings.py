"""`[adapters.NAME]` of qdeck.toml: a typed table for each adapter, or for each of several of one system."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.test_third_party import MODULE
from qdeck import InvalidOption
from qdeck._settings import read_text
from qdeck.admin import Reader, load_configuration
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[adapters.lists]\npaterns = []", "adapters.lists.paterns: there is no setting 'paterns'", "'patterns'"),
        ("[adapters.lists]\npatterns = 'x'", "adapters.lists.patterns: Expected `array`", ""),
        ("[adapters.lists]\npin = 1", "adapters.lists.pin: Expected `bool`", ""),
        ("[adapters.ifdb]\nprefix = 'x'", "adapters.ifdb.prefix: there is no setting 'prefix'", "pin"),
        ("[adapters.'ifdb@eu']\npatterns = []", "adapters.ifdb@eu.patterns: there is no setting", "pin"),
        ("[adapters.ifbd]\npin = true", "adapters.ifbd: there is no adapter 'ifbd'", "'ifdb'"),
        ("[adapters.native]\npin = true", "adapters.native: there is no adapter 'native' with settings", ""),
        ("[adapters]\nlists = 3", "adapters.lists: Expected `object`", ""),
        ("adapters = 3", "adapters: Expected `object`", ""),
    ],
)
def test_what_is_wrong_is_told_with_its_path(text: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        read_text(text)
    assert str(caught.value).startswith(f"qdeck.toml: {message}")
    assert hint in caught.value.hint


@pytest.fixture
def with_errors(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def with_errors(config: str, *words: str) -> Any:
        file = tmp_path / "qdeck.toml"
        file.write_text(config)
        code = main(["--config", str(file), "--url", url, "--json", *words])
        out = capsys.readouterr()
        assert code in (0, 1), out.err
        return json.loads(out.out)

    return with_errors


def test_lists_are_queues_by_the_patterns_of_their_table(with_errors: Callable[..., Any], raw: redis.Redis) -> None:
    raw.rpush("shop:jobs", "a", "b")
    assert with_errors("", "status")["queues"] == []
    [queue] = with_errors('[adapters.lists]\npatterns = ["{service}:jobs"]', "status")["queues"]
    assert (queue["adapter"], queue["name"], queue["ready"]) == ("lists", "shop:jobs", 2)


def test_a_pinned_instance_is_looked_at_beside_all_others(with_errors: Callable[..., Any], raw: redis.Redis) -> None:
    raw.rpush("shop:jobs", "a")
    config = "[adapters.'lists@shop']\npatterns = ['{service}:jobs']\n"
    assert with_errors(config, "status")["queues"] == []
    queues = with_errors(f"{config}pin = true", "status")["queues"]
    assert [(queue["adapter"], queue["name"]) for queue in queues] == [("lists@shop", "shop:jobs")]
    named = with_errors(config, "status", "--adapter", "lists@shop")["queues"]
    assert [(queue["adapter"], queue["name"]) for queue in named] == [("lists@shop", "shop:jobs")]


def test_a_pinned_adapter_that_is_not_there_is_missed(with_errors: Callable[..., Any], raw: redis.Redis) -> None:
    raw.set("other", "1")
    assert with_errors("[adapters.ifdb]", "status")["notices"] == []
    assert with_errors("[adapters.ifdb]\npin = true", "status")["notices"] == [
        "ifdb is pinned, but none of its keys exist"
    ]


def test_a_plan_of_other_settings_is_refused(
    with_errors: Callable[..., Any], raw: redis.Redis, capsys: pytest.CaptureFixture[str], url: str, tmp_path: Path
) -> None:
    raw.rpush("shop:jobs", "a", "b")
    config = '[adapters.lists]\npatterns = ["{service}:jobs"]'
    plan = with_errors(config, "jobs", "discard", "shop:jobs")["plan"]
    file = tmp_path / "qdeck.toml"
    for other in ("", '[adapters.lists]\npatterns = ["{service}:jobs:*"]'):
        file.write_text(other)
        assert main(["--config", str(file), "--url", url, "jobs", "discard", "--apply", plan]) == 64
        told = capsys.readouterr().err
        assert f"the plan {plan} was made with other settings of the adapter lists" in told
        assert "Make a new plan" in told
        assert raw.lrange("shop:jobs", 0, -1) == [b"a", b"b"]
    assert with_errors(f"{config}\npin = true", "jobs", "discard", "--apply", plan)["applied"] == 2


def test_an_adapter_of_another_distribution_has_settings_of_its_own(
    with_errors: Callable[..., Any], raw: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "prefixed-0.1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: prefixed\nVersion: 0.1\n")
    (told / "entry_points.txt").write_text("[qdeck.adapters]\nprefixed = prefixed_minq:Prefixed\n")
    (tmp_path / "prefixed_minq.py").write_text(PREFIXED)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(MODULE.parent))
    raw.sadd("eu:queues", "mail")
    raw.lpush("eu:mail:wait", "1", "2")
    [queue] = with_errors("[adapters.prefixed]\nprefix = 'eu:'\npin = true", "status")["queues"]
    assert (queue["adapter"], queue["name"], queue["ready"]) == ("prefixed", "mail", 2)
    with pytest.raises(InvalidOption, match=r"adapters\.prefixed\.prefx: there is no setting 'prefx'"):
        read_text("[adapters.prefixed]\nprefx = 'eu:'")


PREFIXED = """
from qdeck.adapters import Adapter, AdapterSettings, Kind, Look, QueueRow, with_errors


class Settings(AdapterSettings):
    prefix: str = "minq:"


class Prefixed(Adapter):
    name, about = "prefixed", "queues under a prefix"
    settings_type = Settings

    def key(self, name):
        return (self.settings.prefix + name).encode()

    def fixed_keys(self):
        return {self.key("queues"): Kind.SET}

    def capabilities(self):
        return {}

    def rows(self, now):
        names = yield (b"SMEMBERS", self.key("queues"))
        sizes = yield with_errors(*((b"LLEN", self.key(f"{name.decode()}:wait")) for name in names))
        rows = [QueueRow(adapter=self.name, name=n.decode(), ready=size) for n, size in zip(names, sizes)]
        return Look(rows=tuple(rows))

    def sources(self, queue, states):
        yield from ()
        return []

    def fill(self, queue, raws, now):
        yield from ()
        return []
"""


@pytest.mark.parametrize("own", [{"paterns": ["x"]}, {"patterns": 3}, 3])
def test_settings_given_to_a_client_are_checked_too(own: Any) -> None:
    with pytest.raises(InvalidOption, match="the settings of the adapter lists: "):
        Reader("redis://127.0.0.1:1/0", adapter_settings={"lists": own})


def test_an_adapter_is_not_loaded_for_a_file_that_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its production contexts hold all the same."""
    told = tmp_path / "evil-0.1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 0.1\n")
    (told / "entry_points.txt").write_text("[qdeck.adapters]\nevil = evil_adapter:Evil\n")
    (tmp_path / "evil_adapter.py").write_text("raise SystemExit('it was loaded')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    text = "[adapters.evil]\npin = true\n[contexts.p]\nurl = 'redis://p:1/0'\nenvironment = 'production'\n"
    (tmp_path / "qdeck.toml").write_text(text)
    found = load_configuration()
    assert "was ignored" in found.ignored
    assert list(found.strangers) == ["p"]
    with pytest.raises(SystemExit, match="it was loaded"):
        read_text(text)
