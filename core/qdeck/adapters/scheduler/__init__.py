"""The queue of the TypeScript scheduler."""

from __future__ import annotations

from typing import Final

from qdeck.adapters.scheduler.adapter import Scheduler

ADAPTER: Final = Scheduler
