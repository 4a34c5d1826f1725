"""Plain lists that programs push to and pop from."""

from __future__ import annotations

from typing import Final

from qdeck.adapters.lists.adapter import Lists

ADAPTER: Final = Lists
