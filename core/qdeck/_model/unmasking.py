"""Restores the secrets behind the masks of an edited payload."""

from __future__ import annotations

from typing import Any

from qdeck._engine import codec
from qdeck._errors import UsageError
from qdeck._model import payload


def unmask(value: Any, before: Any) -> Any:
    """Return the value with its masks replaced by the secrets of the value before.

    Items of a list may have moved. Raise where a mask may stand for several secrets, or for none.
    """
    return _restored(value, payload.mask(before), before)


def _restored(value: Any, shown: Any, before: Any) -> Any:
    if isinstance(value, dict):
        if not isinstance(shown, dict):
            shown, before = {}, {}
        places = dict(zip(shown, before, strict=True))
        return {
            places.get(key, key): _restored(item, shown.get(key), before.get(places[key]) if key in places else None)
            for key, item in value.items()
        }
    if isinstance(value, list):
        if not isinstance(shown, list):
            shown, before = [], []
        places_of = _places(value, shown, before)
        return [
            item
            if at is None and not _has_mask(item)
            else _restored(item, *((None, None) if at is None else (shown[at], before[at])))
            for item, at in zip(value, places_of, strict=True)
        ]
    if not isinstance(value, str):
        return value
    if value == shown:
        return before
    if value == payload.MASK or (payload.MASK in value and shown != before):
        raise UsageError(
            f"the secret behind the mask {value[:40]!r} is unknown",
            hint="Write the value itself, or leave the masked text unchanged.",
        )
    return value


def _has_mask(value: Any) -> bool:
    if isinstance(value, dict):
        return any(payload.MASK in key or _has_mask(item) for key, item in value.items())
    if isinstance(value, list):
        return any(map(_has_mask, value))
    return isinstance(value, str) and payload.MASK in value


def _places(items: list[Any], shown: list[Any], before: list[Any]) -> list[int | None]:
    """Return the place of each masked item in the list before; None for items without a mask that moved or are new."""
    texts = [codec.encode_json(item) for item in shown]
    where: dict[bytes, list[int]] = {}
    for at, text in enumerate(texts):
        where.setdefault(text, []).append(at)
    now: dict[bytes, list[int]] = {}
    for at, item in enumerate(items):
        now.setdefault(codec.encode_json(item), []).append(at)
    found: list[int | None] = [None] * len(items)
    taken: set[int] = set()
    for text, ats in now.items():
        places = where.get(text, [])
        if len(places) == len(ats) or (places and all(before[at] == before[places[0]] for at in places)):
            for number, at in enumerate(ats):
                found[at] = places[min(number, len(places) - 1)]
                taken.add(found[at] or 0)
        elif places and _has_mask(items[ats[0]]) and shown[places[0]] != before[places[0]]:
            raise UsageError(
                f"{len(places)} masked items of a list were equal, and {len(ats)} of them are left",
                hint="Write the values themselves, or keep all of them.",
            )
    # Edited items: by similarity, then by place.
    left = [at for at in range(len(shown)) if at not in taken]
    for at, item in enumerate(items):
        if found[at] is None and left and _has_mask(item):
            best = max(left, key=lambda one: (_alike(item, shown[one]), one == at))
            ties = [one for one in left if one != best and _alike(item, shown[one]) == _alike(item, shown[best])]
            if ties and (best != at or len(items) != len(shown)):
                raise UsageError(
                    f"item {at + 1} of a list has a masked value, and its place before is unknown",
                    hint="Write the value itself, or leave the items in their places.",
                )
            found[at] = best
            left.remove(best)
    return found


def _alike(item: Any, shown: Any) -> int:
    """Return how much of an item is unchanged."""
    if isinstance(item, dict) and isinstance(shown, dict):
        return sum(
            key in shown and (shown[key] == value) * (1 + (value != payload.MASK)) for key, value in item.items()
        )
    return int(type(item) is type(shown))
