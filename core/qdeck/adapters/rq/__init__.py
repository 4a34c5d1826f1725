"""RQ 1 and 2."""

from qdeck.adapters.rq.adapter import Rq

ADAPTER = Rq
