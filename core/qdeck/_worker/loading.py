"""Finds the app that `MODULE:APP` names."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from qdeck._app import App
from qdeck._errors import UsageError


def load_app(ref: str) -> App:
    """Imports the module and returns its app, or that of the service it names; what is wrong is told."""
    module_name, _, attribute = ref.partition(":")
    if not module_name or not attribute:
        raise UsageError(f"{ref!r} does not name an app", hint="write MODULE:APP, such as shop.jobs:app")
    here = str(Path.cwd())
    if here not in sys.path:
        # As with `python -m`: modules of the folder that one stands in can be named.
        sys.path.insert(0, here)
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise UsageError(f"there is no module {module_name!r}", hint=f"looked in {here} and sys.path") from error
        raise
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, App):
        found = getattr(found, "app", found)
    if not isinstance(found, App):
        raise UsageError(f"{ref!r} is no qdeck.App but {type(found).__name__}", hint=f"name the App in {module_name}")
    return found
