"""The rules of a purge as data: in the plan, in the log of operations, and what others wrote there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from qdeck._operations import activity
from qdeck._settings.limits import Limits, used_rules
from qdeck.admin import UsedRule

ENTRY = {"at_ms": 1, "who": "ana", "host": "desk", "verb": "purge"}


def test_a_rule_has_the_setting_that_holds_for_it_and_its_value() -> None:
    age, many, none = used_rules(["dead_too_old", "dead_too_many", "broken_entries"], Limits(dlq_ttl=2))
    assert age == UsedRule(rule="dead_too_old", setting="dlq_ttl", value=2, unit="h")
    assert (age.words, age.seconds) == ("dlq_ttl 2h", 7200)
    assert (many.words, many.seconds) == ("dlq_max_entries 10,000", None)
    assert (none.words, none.seconds) == ("", None)


def test_the_log_gives_back_the_rules_that_were_written() -> None:
    rules = used_rules(["done_too_old", "broken_entries"], Limits())
    entry = activity.make("purge", 5, rules=rules)
    read = activity.read_entry(json.dumps(activity.as_json(entry)).encode())
    assert read is not None
    assert list(read.rules) == rules


@pytest.mark.parametrize("rules", ["text", [1], [{"setting": "x"}], {"rule": "x"}])
def test_an_entry_with_rules_of_another_shape_is_none_of_ours(rules: Any) -> None:
    assert activity.read_entry(json.dumps({**ENTRY, "rules": rules}).encode()) is None


def test_no_threshold_and_no_number_of_rules_that_others_wrote_is_too_large_to_show() -> None:
    rules = [{"rule": "x", "setting": "y", "value": 1e300, "unit": "h"}] * 5000
    read = activity.read_entry(json.dumps({**ENTRY, "rules": rules}).encode())
    assert read is not None
    assert (len(read.rules), read.rules[0].seconds) == (100, None)
