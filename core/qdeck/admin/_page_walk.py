"""A walk over the pages of a list of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qdeck._model.values import JobRecord, Page


# The leases of running jobs are renewed while they are listed, and `ready` becomes `running`.
_MOVING: Final = ("running", "ready")


class PageWalk:
    """The progress of a walk over pages. A job that moves meanwhile is returned once."""

    def __init__(self, limit: int | None) -> None:
        self.cursor: str | None = None
        self.goes_on = limit is None or limit > 0
        self._left = limit
        self._seen: set[str] = set()

    def take(self, page: Page) -> Iterator[JobRecord]:
        """Yield the records of a page that were not returned before, within the limit."""
        self.cursor = page.cursor
        self.goes_on = page.cursor is not None
        for record in page.jobs:
            name = record.handle
            if name in self._seen:
                continue
            if record.state in _MOVING:
                self._seen.add(name)
            yield record
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    self.goes_on = False
                    return
