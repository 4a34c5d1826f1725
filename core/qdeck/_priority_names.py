"""The names of priorities, apart from the filters that take them: a refresh loads no filter."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

PRIORITIES: Final = MappingProxyType({"CRITICAL": 0, "HIGH": 50, "NORMAL": 100, "LOW": 200})
PRIORITY_NAMES: Final = MappingProxyType({number: name for name, number in PRIORITIES.items()})
