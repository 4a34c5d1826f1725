"""Celery 5, with Redis as its broker and for its results."""

from qdeck.adapters.celery.adapter import Celery

ADAPTER = Celery
