"""Sidekiq 6, 7 and 8."""

from qdeck.adapters.sidekiq.adapter import Sidekiq

ADAPTER = Sidekiq
