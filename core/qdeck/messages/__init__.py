"""Messages between services: envelopes, the patterns they follow, and the life of the queues they go through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._lazy_imports import attach

if TYPE_CHECKING:
    from qdeck.messages._cleaning import Cleaning, ExpiredCleaning, OneCleaning, OrphanCleaning, TaskCleaning
    from qdeck.messages._envelopes import DomainAction, DomainActionResponse, ErrorDetail, callback_to, response_to
    from qdeck.messages._manager import Delivery, DomainQueueManager, SyncDomainQueueManager
    from qdeck.messages._messenger import Messenger
    from qdeck.messages._names import TIERS, Names, TaskQueueName, segment
    from qdeck.messages._registry import LifeCycleCount, TemporaryQueue
    from qdeck.messages._removal import CleanReport, Removal, RemovalOutcome
    from qdeck.messages._service import Service
    from qdeck.messages._task_pages import NEVER_MS, QueuePage, TaskPage, TaskRow

__all__ = [
    "NEVER_MS",
    "TIERS",
    "CleanReport",
    "Cleaning",
    "Delivery",
    "DomainAction",
    "DomainActionResponse",
    "DomainQueueManager",
    "ErrorDetail",
    "ExpiredCleaning",
    "LifeCycleCount",
    "Messenger",
    "Names",
    "OneCleaning",
    "OrphanCleaning",
    "QueuePage",
    "Removal",
    "RemovalOutcome",
    "Service",
    "SyncDomainQueueManager",
    "TaskCleaning",
    "TaskPage",
    "TaskQueueName",
    "TaskRow",
    "TemporaryQueue",
    "callback_to",
    "response_to",
    "segment",
]

_HOMES: Final = {
    "qdeck.messages._cleaning": "Cleaning ExpiredCleaning OneCleaning OrphanCleaning TaskCleaning",
    "qdeck.messages._envelopes": "DomainAction DomainActionResponse ErrorDetail callback_to response_to",
    "qdeck.messages._manager": "Delivery DomainQueueManager SyncDomainQueueManager",
    "qdeck.messages._messenger": "Messenger",
    "qdeck.messages._names": "Names TIERS TaskQueueName segment",
    "qdeck.messages._registry": "LifeCycleCount TemporaryQueue",
    "qdeck.messages._removal": "CleanReport Removal RemovalOutcome",
    "qdeck.messages._service": "Service",
    "qdeck.messages._task_pages": "NEVER_MS QueuePage TaskPage TaskRow",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, _HOMES)
