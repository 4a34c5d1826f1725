"""Public names for programs that start workers and agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._lazy_imports import attach

if TYPE_CHECKING:
    from qdeck._agent.agent import Agent
    from qdeck._agent.options import TOKEN_VARIABLE, host_and_port, is_forwarded, is_loopback
    from qdeck._agent.options import from_configuration as agent_options
    from qdeck._module_discovery import ImportFailed
    from qdeck._subprocess_command import module_command
    from qdeck._worker.app_loader import load_app
    from qdeck._worker.worker import Worker

__all__ = [
    "TOKEN_VARIABLE",
    "Agent",
    "ImportFailed",
    "Worker",
    "agent_options",
    "host_and_port",
    "is_forwarded",
    "is_loopback",
    "load_app",
    "module_command",
]

_HOMES: Final = {
    "qdeck._agent.agent": "Agent",
    "qdeck._agent.options": "TOKEN_VARIABLE agent_options=from_configuration host_and_port is_loopback is_forwarded",
    "qdeck._module_discovery": "ImportFailed",
    "qdeck._subprocess_command": "module_command",
    "qdeck._worker.app_loader": "load_app",
    "qdeck._worker.worker": "Worker",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, _HOMES)
