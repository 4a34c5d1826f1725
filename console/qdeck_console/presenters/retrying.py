"""What a retry of an entry of another system does: its adapter says it, for nothing of our own rules holds there."""

from __future__ import annotations

from functools import cache

from qdeck.admin import Act, make_adapter


@cache
def retry_abroad(adapter: str) -> str:
    """In the words of its adapter, as they go on after `a retry would`."""
    made = make_adapter(adapter)
    capability = made.capabilities().get(Act.RETRY)
    if capability is None or not capability.can:
        return f"do nothing: {made.why_not(Act.RETRY)}."
    return f"put it back: {capability.note}." if capability.note else f"put it back as {adapter} does."
