"""The task queue of the IFDB project."""

from __future__ import annotations

from typing import Final

from qdeck.adapters.ifdb.adapter import Ifdb

ADAPTER: Final = Ifdb
