"""The purge rules and their thresholds: from the configuration, changed for one run by `KEY=VALUE`."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._errors import InvalidOption
from qdeck._settings.model import FOREIGN_RULES, HOUR_S, RULE_KEYS, SWITCHES_THAT_WRITE, Settings, UsedRule

if TYPE_CHECKING:
    from collections.abc import Iterable

_OF_ADAPTERS: Final = ("max_ready_age_pool", "max_task_age")
_AGE: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)")
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


class PurgeRule(StrEnum):
    """A purge rule of native; in the order in which a plan has them."""

    RUNNING_WITHOUT_OWNER = "running_without_owner"
    READY_TOO_OLD = "ready_too_old"
    DONE_TOO_OLD = "done_too_old"
    DEAD_TOO_OLD = "dead_too_old"
    DEAD_TOO_MANY = "dead_too_many"
    CANCELLED_TOO_OLD = "cancelled_too_old"
    ORPHANED_RECORDS = "orphaned_records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The thresholds of one purge. An age over its threshold is over it; equal is not."""

    max_pending_age: int = 7200
    max_ready_age: int = 86400
    max_completed_age: int = 3600
    max_request_age: int = 86400
    max_orphaned_age: int = 86400
    dlq_ttl: float = 168
    dlq_max_entries: int = 10_000
    dlq_enabled: bool = False
    max_ready_age_pool: int | None = None
    max_task_age: int = 14 * 86400

    @classmethod
    def of(cls, settings: Settings | None = None, changes: Iterable[str] = ()) -> Limits:
        """The thresholds of a configuration, with `KEY=VALUE` changes for this run."""
        given = settings or Settings()
        values = msgspec.structs.asdict(given.purge) | msgspec.structs.asdict(given.dead_letters)
        limits = cls(**{name: values[name] for name in cls.__dataclass_fields__})
        for change in changes:
            limits = limits.changed(change)
        return limits

    def changed(self, change: str) -> Limits:
        """With one `KEY=VALUE`: the key is that of the configuration, or the name of the rule."""
        name, equals, value = change.partition("=")
        name, value = name.strip(), value.strip()
        if not equals:
            raise InvalidOption(f"{change!r} sets nothing", hint="write KEY=VALUE, such as max_ready_age=12h")
        key = RULE_KEYS.get(name, name)
        if key == "dlq_enabled":
            if value.lower() not in _WORDS:
                raise InvalidOption(f"dlq_enabled={value!r} is neither true nor false", hint="write dlq_enabled=true")
            return replace(self, dlq_enabled=_WORDS[value.lower()])
        if key not in RULE_KEYS.values() and key not in _OF_ADAPTERS:
            known = [*RULE_KEYS.values(), "dlq_enabled", *_OF_ADAPTERS, *RULE_KEYS]
            near = difflib.get_close_matches(name, [key for key in known if key not in SWITCHES_THAT_WRITE], 1)
            hint = f"did you mean {near[0]!r}?" if near else f"thresholds are: {', '.join(RULE_KEYS.values())}"
            raise InvalidOption(f"there is no threshold {name!r}", hint=hint)
        number = _number(key, value)
        return replace(self, **{key: number})  # type: ignore[arg-type]  # the key is one of those of numbers

    def value(self, setting: str) -> float:
        """Return the value of a setting."""
        return float(getattr(self, self._given(setting)))

    def _given(self, setting: str) -> str:
        """The setting that counts: machines that nobody asked for may have a limit of their own."""
        return setting if getattr(self, setting) is not None else "max_ready_age"

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
        setting = self._given(setting)
        unit = "h" if setting == "dlq_ttl" else "" if setting == "dlq_max_entries" else "s"
        return UsedRule(rule=rule, setting=setting, value=self.value(setting), unit=unit)


def used_rules(rules: Iterable[str], limits: Limits) -> list[UsedRule]:
    """Return rules with the thresholds that hold for them."""
    settings = {**RULE_KEYS, **FOREIGN_RULES}
    return [limits.used(rule, settings[rule] or "") for rule in rules]


def chosen_rules(rules: Iterable[str]) -> frozenset[str]:
    """Return the rules that are meant: all of native's mean all of the other adapters too."""
    named = frozenset(str(rule) for rule in rules)
    return named | frozenset(FOREIGN_RULES) if named.issuperset(PurgeRule) else named


def _number(key: str, value: str) -> int | float:
    """A threshold as it was typed: in the unit of its key, or with a unit of its own (90s 15m 2h 7d)."""
    hours = key == "dlq_ttl"
    age = _AGE.fullmatch(value)
    hint = f"write {key}=N" + (" in hours" if hours else " in seconds") + ", or with a unit: 90s 15m 2h 7d"
    if key == "dlq_max_entries":
        hint = "write dlq_max_entries=N, a whole number"
    elif age:
        seconds = float(age[1]) * _UNITS[age[2]]
        return seconds / HOUR_S if hours else int(seconds)
    try:
        number = float(value) if hours else int(value.replace("_", ""))
    except ValueError as error:
        raise InvalidOption(f"{key}={value!r} is not a number", hint=hint) from error
    if not 0 <= number < 10**12:
        raise InvalidOption(f"{key}={value} is out of range", hint=hint)
    return number


def read_rules(names: Iterable[str], settings: Settings | None = None) -> tuple[PurgeRule | str, ...]:
    """The rules of these names; when none are named those of the configuration, or all. In the order of a plan.

    Those that only other adapters have are words; all of our own mean all of theirs too.
    """
    known = (*PurgeRule, *FOREIGN_RULES)
    wanted = list(names) or list((settings or Settings()).purge.rules or PurgeRule)
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, [str(rule) for rule in known], 1)
            hint = f"did you mean {near[0]!r}?" if near else f"rules are: {', '.join(known)}"
            raise InvalidOption(f"there is no purge rule {name!r}", hint=hint)
    return tuple(rule for rule in known if rule in wanted)
