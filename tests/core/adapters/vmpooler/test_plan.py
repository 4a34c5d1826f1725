"""What the plan of a purge says, and that applying it leaves nothing for the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.adapters.test_purge import ago, vm
from qdeck import UsageError
from qdeck.admin import CautionCode, Limits, Writer, load_configuration, read_rules
from qdeck.testing.adapters import values
from support.commands import runner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url, adapters=("vmpooler",)) as writer:
        yield writer


@pytest.mark.parametrize("enabled", [True, False])
def test_the_plan_says_that_nothing_is_copied_to_the_dead_letters(
    writer: Writer, raw: redis.Redis, enabled: bool
) -> None:
    vm(raw, "pending", "vm-old", clone=ago(10_800))
    plan = writer.plan_purge(read_rules(()), Limits(dlq_enabled=enabled))
    told = {one.code: one.text for one in plan.tail.cautions}
    assert (CautionCode.NO_DEAD_LETTER in told) == (not enabled)
    assert enabled or "dlq_enabled is false" in told[CautionCode.NO_DEAD_LETTER]


def test_the_command_prints_it(url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]) -> None:
    vm(raw, "pending", "vm-old", clone=ago(10_800))
    ran = runner(capsys)("purge", "--url", url)
    assert "caution: vmpooler: dlq_enabled is false: what is removed is not copied to the dead letters" in ran.out


@pytest.mark.parametrize(("age", "is_orphan"), [(90_000, True), (80_000, False)])
def test_the_plan_names_the_orphans_that_it_makes(writer: Writer, raw: redis.Redis, age: int, is_orphan: bool) -> None:
    """The manager takes them in the same pass, and its dry run does not say so: 6 entries, and 8 that are taken."""
    vm(raw, "completed", "vm-old", clone=ago(age), destroy=ago(7200))
    before = values(raw)
    plan = writer.plan_purge(read_rules(()))
    assert (plan.count, CautionCode.RECORDS_END in {one.code for one in plan.tail.cautions}) == (1, is_orphan)
    assert writer.apply(plan).applied == 1
    assert (raw.ttl("vmpooler__vm__vm-old") > 0) == is_orphan
    assert writer.plan_purge(read_rules(())).count == 0
    assert writer.undo().restored == 1
    assert values(raw) == before
    assert raw.ttl("vmpooler__vm__vm-old") == -1


def test_a_record_that_ends_by_itself_keeps_its_end(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "completed", "vm-old", clone=ago(90_000), destroy=ago(7200))
    raw.expire("vmpooler__vm__vm-old", 600_000)
    assert writer.apply(writer.plan_purge(read_rules(()))).applied == 1
    assert raw.ttl("vmpooler__vm__vm-old") > 500_000


def test_a_machine_in_two_sets_is_planned_once(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "ready", "both", clone=ago(200_000), ready=ago(195_000), destroy=ago(90_000))
    raw.sadd("vmpooler__completed__pool1", "both")
    plan = writer.plan_purge(read_rules(()))
    assert [(one.id, one.rule) for one in plan.entries()] == [("both", "pool_ready_too_old")]
    result = writer.apply(plan)
    assert (result.applied, result.skipped_count) == (1, 0)
    assert not raw.exists("vmpooler__ready__pool1")
    assert raw.smembers("vmpooler__completed__pool1") == {b"both"}
    assert writer.undo().restored == 1
    assert raw.smembers("vmpooler__ready__pool1") == raw.smembers("vmpooler__completed__pool1") == {b"both"}


def test_data_ttl_is_a_setting(url: str, raw: redis.Redis, tmp_path: Path) -> None:
    file = tmp_path / "qdeck.toml"
    file.write_text("[adapters.vmpooler]\ndata_ttl = 24\n")
    settings = load_configuration(file).settings.adapters
    vm(raw, "pending", "vm-old", clone=ago(10_800))
    with Writer(url, adapters=("vmpooler",), adapter_settings=settings) as writer:
        assert writer.apply(writer.plan_purge(read_rules(()))).applied == 1
    assert 23 * 3600 < raw.ttl("vmpooler__vm__vm-old") <= 24 * 3600
    file.write_text("[adapters.vmpooler]\ndata_ttl = 0\n")
    with pytest.raises(UsageError, match="data_ttl"):
        load_configuration(file)
