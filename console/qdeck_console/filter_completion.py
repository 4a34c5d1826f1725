"""What a filter can be completed to, as it is typed: fields, states, and the values of jobs on screen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from textual.suggester import Suggester

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from qdeck.admin import Snapshot

_LAST_TERM: Final = re.compile(r"(?:^|[\s(])-?([^\s(\"]*)$")
_FIELD_AND_VALUE: Final = re.compile(r"([\w.]+)(?::|!=)(?:[^,]*,)*([^,]*)$")
_BARE: Final = re.compile(r"[\w.:@/*-]+")  # a value that needs no quotes
_OPERATORS: Final = {"number": ">=", "age": ">", "time": "<", "payload": "."}

_OF_QUEUE: Final = {"queue": "name", "adapter": "adapter"}  # fields of jobs that the rows of queues have
_OF_GROUP: Final = {"error": "error_class"}


def completed(text: str, values: Callable[[str], Iterable[str]]) -> str | None:
    """Return the filter with its last word completed; None where nothing begins with it.

    `values` returns the values of a field that are on screen.
    """
    from qdeck.admin import FIELDS, STATES, FieldKind  # only when a filter is typed: the first frame needs none

    found = _LAST_TERM.search(text)
    term = found[1] if found else ""
    if not term:
        return None
    pair = _FIELD_AND_VALUE.fullmatch(term)
    if pair is None:
        names = (name for name in FIELDS if name.startswith(term))
        name = next(names, None)
        return None if name is None else f"{text}{name[len(term) :]}{_OPERATORS.get(FIELDS[name].kind.value, ':')}"
    name, begun = pair[1], pair[2]
    field = FIELDS.get(name)
    if field is None:
        return None
    known = STATES if field.kind is FieldKind.STATE else values(field.attribute)
    fitting = sorted(value for value in set(known) if value.startswith(begun) and _BARE.fullmatch(value))
    return next((f"{text}{value[len(begun) :]}" for value in fitting if value != begun), None)


class FilterSuggester(Suggester):
    """Shows behind the cursor what `tab` and `→` complete."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self.listed: tuple[Sequence[object], Snapshot | None] = ((), None)
        """The jobs or groups, and the queues, to whose values a filter is completed."""

    async def get_suggestion(self, value: str) -> str | None:
        """Return the whole text that the field would have."""
        return completed(value, self._values)

    def _values(self, attribute: str) -> Iterable[str]:
        rows, snapshot = self.listed
        if snapshot is not None and attribute in _OF_QUEUE:
            return [getattr(row, _OF_QUEUE[attribute]) for row in snapshot.queues]
        found = (getattr(row, name, None) for row in rows for name in (attribute, _OF_GROUP.get(attribute, attribute)))
        return [value for value in found if isinstance(value, str)]
