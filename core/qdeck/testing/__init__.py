"""For tests and demos: a queue with a past, made by the engine's own steps at times that the caller names."""

from qdeck.testing._past_jobs import CRASHES_TO_BURY, Past

__all__ = ["CRASHES_TO_BURY", "Past"]
