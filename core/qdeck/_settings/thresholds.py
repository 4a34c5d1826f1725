"""Thresholds of health. Names, units and defaults are those of VMPooler: its settings can be carried over."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[int, Meta(ge=0)]
Percent = Annotated[int, Meta(ge=1, le=100)]


class Thresholds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The thresholds of health. Each is the last value that is still good."""

    pending_queue_max: Count = 100
    """Delayed jobs of one queue that are due and not ready; twice as many are critical."""
    ready_queue_max: Count = 500
    """Ready jobs of one queue; twice as many are critical."""
    dlq_max_warning: Count = 100
    """Dead letters of all queues together."""
    dlq_max_critical: Count = 1000
    stuck_vm_age_threshold: Seconds = 7200
    """Seconds for which a job may wait for its start before it is late, and a pending machine of VMPooler stuck."""
    stuck_vm_max_warning: Count = 10
    """Late jobs of all queues together, and in VMPooler's own health stuck machines. Elsewhere one is a problem."""
    stuck_vm_max_critical: Count = 50
    """Late, or stuck, jobs of all queues together."""
    unserved_age_max: Seconds = 300
    """Seconds for which jobs may wait in a queue that no living worker serves."""
    memory_max_warning: Percent = 90
    """Percent of `maxmemory` in use."""
    memory_max_critical: Percent = 98

    @property
    def stuck_age_ms(self) -> int:
        """Return `stuck_vm_age_threshold` in ms."""
        return self.stuck_vm_age_threshold * 1000
