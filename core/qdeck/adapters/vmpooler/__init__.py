"""The queues of VMPooler: pools of virtual machines, requests, tasks and their dead letters."""

from __future__ import annotations

from typing import Final

from qdeck.adapters.vmpooler.adapter import VmPooler

ADAPTER: Final = VmPooler
