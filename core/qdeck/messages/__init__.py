"""Messages between services: envelopes, the patterns they follow, and the life of the queues they go through."""

from __future__ import annotations

from qdeck.messages._cleaning import CleanReport, Removal
from qdeck.messages._envelopes import DomainAction, DomainActionResponse, ErrorDetail, callback_to, response_to
from qdeck.messages._manager import Delivery, DomainQueueManager, LifeCycleCount, SyncDomainQueueManager
from qdeck.messages._messenger import Messenger
from qdeck.messages._naming import TIERS, Names, TaskQueueName, segment
from qdeck.messages._registry import Temporary
from qdeck.messages._service import Service

__all__ = [
    "TIERS",
    "CleanReport",
    "Delivery",
    "DomainAction",
    "DomainActionResponse",
    "DomainQueueManager",
    "ErrorDetail",
    "LifeCycleCount",
    "Messenger",
    "Names",
    "Removal",
    "Service",
    "SyncDomainQueueManager",
    "TaskQueueName",
    "Temporary",
    "callback_to",
    "response_to",
    "segment",
]
