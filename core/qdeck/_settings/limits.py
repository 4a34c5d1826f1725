"""The purge rules and their thresholds: from the configuration, changed for one run by `KEY=VALUE`."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._errors import InvalidOption
from qdeck._settings.model import HOUR_S, SWITCHES_THAT_WRITE, Settings, UsedRule
from qdeck._settings.purge_rules import PURGE_RULES, PurgeRule, check_rule

if TYPE_CHECKING:
    from collections.abc import Iterable

_OF_ADAPTERS: Final = ("max_ready_age_pool", "max_task_age")
_SETTINGS: Final = {rule.value: PURGE_RULES[rule].setting for rule in PurgeRule}
_AGE: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)")
_AGES: Final = re.compile(rf"({_AGE.pattern})+")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_WORDS: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The thresholds of one purge. A value equal to its threshold is not over it."""

    max_pending_age: int = 7200
    max_ready_age: int = 86400
    max_completed_age: int = 3600
    max_request_age: int = 86400
    max_orphaned_age: int = 86400
    dlq_ttl: float = 168
    dlq_max_entries: int = 10_000
    dlq_enabled: bool = False
    max_ready_age_pool: int = 2 * 86400
    max_task_age: int = 7 * 86400

    @classmethod
    def of(cls, settings: Settings | None = None, changes: Iterable[str] = ()) -> Limits:
        """Return the thresholds of a configuration, with `KEY=VALUE` changes for this run."""
        given = settings or Settings()
        values = msgspec.structs.asdict(given.purge) | msgspec.structs.asdict(given.dead_letters)
        limits = cls(**{name: values[name] for name in cls.__dataclass_fields__})
        for change in changes:
            limits = limits.changed(change)
        return limits

    def changed(self, change: str) -> Limits:
        """Return them with one `KEY=VALUE`: the key is that of the configuration, or the name of the rule."""
        name, equals, value = change.partition("=")
        name, value = name.strip(), value.strip()
        if not equals:
            raise InvalidOption(
                f"{change!r} is not KEY=VALUE", hint="Write a threshold and its value, such as max_ready_age=12h"
            )
        key = _SETTINGS.get(name, name)
        if key == "dlq_enabled":
            if value.lower() not in _WORDS:
                raise InvalidOption(f"dlq_enabled={value!r} is neither true nor false", hint="Write dlq_enabled=true")
            return replace(self, dlq_enabled=_WORDS[value.lower()])
        if key not in _SETTINGS.values() and key not in _OF_ADAPTERS:
            known = [*_SETTINGS.values(), "dlq_enabled", *_OF_ADAPTERS, *_SETTINGS]
            near = difflib.get_close_matches(name, [key for key in known if key not in SWITCHES_THAT_WRITE], 1)
            hint = (
                f"Did you mean {near[0]!r}?"
                if near
                else f"Use one of: {', '.join((*_SETTINGS.values(), *_OF_ADAPTERS))}"
            )
            raise InvalidOption(f"there is no threshold {name!r}", hint=hint)
        number = _number(key, value)
        return replace(self, **{key: number})  # type: ignore[arg-type]  # the key is one of those of numbers

    def value(self, setting: str) -> float:
        """Return the value of a setting."""
        return float(getattr(self, setting))

    def ms(self, setting: str) -> int:
        """Return the value of a setting that is an age, in ms."""
        return round(self.value(setting) * (HOUR_S if setting == "dlq_ttl" else 1) * 1000)

    def words(self, setting: str) -> str:
        """Return a setting with its value, in the unit of the configuration."""
        return self.used("", setting).words

    def used(self, rule: str, setting: str) -> UsedRule:
        """Return a rule with the setting that it uses and its value."""
        if not setting:
            return UsedRule(rule=rule)
        unit = "h" if setting == "dlq_ttl" else "" if setting == "dlq_max_entries" else "s"
        return UsedRule(rule=rule, setting=setting, value=self.value(setting), unit=unit)


def used_rules(rules: Iterable[str], limits: Limits) -> list[UsedRule]:
    """Return rules with the thresholds that hold for them."""
    return [limits.used(rule, PURGE_RULES[rule].setting) for rule in rules]


def _number(key: str, value: str) -> int | float:
    """Return a threshold as it was typed: in the unit of its key, or with a unit of its own (90s 15m 2h 7d)."""
    hours = key == "dlq_ttl"
    ages = _AGE.findall(value) if _AGES.fullmatch(value) else ()
    hint = f"Write {key}=N" + (" in hours" if hours else " in seconds") + ", or with a unit: 90s, 15m, 2h, 7d."
    if key == "dlq_max_entries":
        hint = "Write dlq_max_entries=N, a whole number."
    elif ages:
        seconds = sum(float(count) * _UNITS[unit] for count, unit in ages)
        return seconds / HOUR_S if hours else int(seconds)
    try:
        number = float(value) if hours else int(value.replace("_", ""))
    except ValueError as error:
        raise InvalidOption(f"{key}={value!r} is not a number", hint=hint) from error
    if not 0 <= number < 10**12:
        raise InvalidOption(f"{key}={value} is out of range", hint=hint)
    return number


def default_rules() -> tuple[str, ...]:
    """Return the rules that run where none are named."""
    return tuple(name for name, rule in PURGE_RULES.items() if not rule.by_name)


def read_rules(names: Iterable[str], settings: Settings | None = None) -> tuple[str, ...]:
    """Return the rules of these names, in the order of a plan; without names those of the configuration or the default.

    Raise for a name that no rule has.
    """
    wanted = tuple(names) or (settings or Settings()).purge.rules or default_rules()
    for name in wanted:
        check_rule(name)
    return tuple(name for name in PURGE_RULES if name in wanted)
