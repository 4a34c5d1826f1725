"""What a retry of an entry of another system does: its adapter says it, for nothing of our own rules holds there."""

from __future__ import annotations

from functools import cache

from qdeck.admin import Act, make_adapter


@cache
def retry_abroad(adapter: str) -> str:
    """In the words of its adapter, as they go on after `a retry would`."""
    capability = make_adapter(adapter).capabilities().get(Act.RETRY)
    if capability is None or not capability.can:
        return f"do nothing: {capability.why if capability else f'{adapter} has nothing like it'}."
    return f"put it back: {capability.why}." if capability.why else f"put it back as {adapter} does."
