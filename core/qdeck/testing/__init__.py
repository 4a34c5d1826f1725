"""For tests and demos: a queue with a past, made by the engine's own steps at given times."""

from qdeck.testing._past_jobs import CRASHES_TO_BURY, Past

__all__ = ["CRASHES_TO_BURY", "Past"]
