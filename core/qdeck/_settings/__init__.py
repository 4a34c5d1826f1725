"""The configuration: `qdeck.toml` with named contexts and the settings of purge, health, dead letters and agent."""

from __future__ import annotations

from qdeck._settings.configuration import Configuration
from qdeck._settings.load import load, read_file, read_text
from qdeck._settings.model import (
    AdapterSettings,
    AgentSettings,
    ContextSettings,
    DeadLetters,
    Health,
    Purge,
    Settings,
    Target,
)
from qdeck._settings.thresholds import Thresholds

__all__ = [
    "AdapterSettings",
    "AgentSettings",
    "Configuration",
    "ContextSettings",
    "DeadLetters",
    "Health",
    "Purge",
    "Settings",
    "Target",
    "Thresholds",
    "load",
    "read_file",
    "read_text",
]
