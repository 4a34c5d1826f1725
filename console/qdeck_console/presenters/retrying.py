"""What a verb does to a job of another system, in the words of its adapter."""

from __future__ import annotations

from functools import cache

from qdeck.admin import State, Verb, make_adapter


@cache
def retry_words(adapter: str) -> str:
    """Return what a retry does, or why there is none."""
    made = make_adapter(adapter)
    capability = made.capabilities().get(Verb.RETRY)
    if capability is None or not capability.can:
        return f"Cannot be retried: {made.why_not(Verb.RETRY)}."
    note = capability.note or f"retried as {adapter} does"
    return f"{note[:1].upper()}{note[1:]}."


@cache
def verb_words(adapter: str, verb: Verb, state: State) -> str:
    """Return what a verb does to a job in a state, or why it is not possible."""
    made = make_adapter(adapter)
    if why := made.why_not(verb, state):
        return f"not possible: {why}"
    return made.capabilities()[verb].note or f"as {adapter} does"
