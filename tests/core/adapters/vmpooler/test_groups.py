"""Names that differ by a counter are one group of dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.adapters.vmpooler.written import dead
from qdeck.admin import Writer

if TYPE_CHECKING:
    import redis


@pytest.mark.parametrize(
    ("template", "shape"),
    [
        ("template centos-7-x86_64-v{} does not exist", "template centos-N-x86_N-vN does not exist"),
        ("vm pool_a{} timed out after {} s", "vm pool_aN timed out after N s"),
        ("no such host esx-n{}", "no such host esx-nN"),
    ],
)
def test_names_that_differ_by_a_counter_are_one_group(url: str, raw: redis.Redis, template: str, shape: str) -> None:
    for number in range(12):
        dead(raw, "clone", f"vm-{number}", error_class="RuntimeError", error_message=template.format(number, number))
    dead(raw, "clone", "other", error_class="RuntimeError", error_message="another error of host-a")
    with Writer(url, adapters=("vmpooler",)) as writer:
        [first, second] = writer.groups().groups
        assert (first.count, first.message_shape, second.count) == (12, shape, 1)
        assert {job.id for job in writer.jobs("centos-7", state="dead", where=first.where)} == {
            f"vm-{number}" for number in range(12)
        }


@pytest.mark.parametrize("names", [("el7", "el8"), ("ipv4", "ipv6"), ("x-p2p", "x-p3p"), ("host-A1", "host-A2")])
def test_other_digits_of_a_name_stay(url: str, raw: redis.Redis, names: tuple[str, str]) -> None:
    for name in names:
        dead(raw, "clone", name, error_message=f"cannot use {name} here")
    with Writer(url, adapters=("vmpooler",)) as writer:
        assert len(writer.groups().groups) == 2
