"""Schedules that are declared and registered at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdeck._schedules import store

if TYPE_CHECKING:
    import qdeck


def schedule(app: qdeck.App, name: Any, /, *args: Any, **options: Any) -> str:
    """Declare a schedule and register it, as a worker would; returns `made`, `changed` or `same`."""
    app.schedule(name, *args, **options)
    return app.client.run(store.register(app.schedules[name]))
