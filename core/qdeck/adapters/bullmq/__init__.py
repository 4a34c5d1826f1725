"""BullMQ 5 and 6."""

from qdeck.adapters.bullmq.adapter import BullMq

ADAPTER = BullMq
