"""Redis Streams with a consumer group for each service."""

from qdeck.adapters.streams.adapter import Streams

ADAPTER = Streams
