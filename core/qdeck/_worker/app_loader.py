"""Loads the app that `MODULE:APP` names."""

from __future__ import annotations

from qdeck._app import App
from qdeck._errors import UsageError
from qdeck._module_discovery import import_module


def load_app(ref: str) -> App:
    """Import the module and return its app, or that of the service it names."""
    module_name, _, attribute = ref.partition(":")
    if not module_name or not attribute:
        raise UsageError(f"{ref!r} does not name an app", hint="Write MODULE:APP, such as shop.jobs:app")
    found: object = import_module(module_name)
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, App):
        found = getattr(found, "app", found)
    if not isinstance(found, App):
        raise UsageError(
            f"{ref!r} is not a qdeck.App, it is a {type(found).__name__}", hint=f"Name the App in {module_name}"
        )
    return found
