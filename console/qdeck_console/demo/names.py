"""The queues of the demo."""

from __future__ import annotations

from typing import Final

MAIL: Final = "demo:dev:mail:actions"
DIGEST: Final = "demo:dev:mail:digest:actions"
THUMBNAILS: Final = "demo:dev:media:thumbnails:actions"
VIDEO: Final = "demo:dev:media:video:actions"
SEARCH: Final = "demo:dev:search:reindex:actions"
WEBHOOKS: Final = "demo:dev:webhooks:deliver:actions"
BILLING: Final = "demo:dev:billing:invoices:actions"
REPORTS: Final = "demo:dev:reports:monthly:actions"
IMPORTS: Final = "demo:dev:imports:feeds:actions"
AUDIT: Final = "demo:dev:audit:notifications"

WORKER: Final = {MAIL: 4, THUMBNAILS: 3, SEARCH: 1, WEBHOOKS: 3, REPORTS: 2, AUDIT: 2, DIGEST: 1, BILLING: 1}
"""What the demo's healthy worker serves, with weights; VIDEO has a worker of its own, which hangs, IMPORTS has none."""
