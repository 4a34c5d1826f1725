"""Finds the app that `MODULE:APP` names."""

from __future__ import annotations

from qdeck._app import App
from qdeck._discovery import import_module
from qdeck._errors import UsageError


def load_app(ref: str) -> App:
    """Imports the module and returns its app, or that of the service it names; what is wrong is told."""
    module_name, _, attribute = ref.partition(":")
    if not module_name or not attribute:
        raise UsageError(f"{ref!r} does not name an app", hint="write MODULE:APP, such as shop.jobs:app")
    found: object = import_module(module_name)
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, App):
        found = getattr(found, "app", found)
    if not isinstance(found, App):
        raise UsageError(f"{ref!r} is no qdeck.App but {type(found).__name__}", hint=f"name the App in {module_name}")
    return found
