"""What runs qdeck's own processes: workers and agents, and how they are started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._lazy import attach

if TYPE_CHECKING:
    from qdeck._agent.agent import Agent
    from qdeck._agent.options import TOKEN_VARIABLE, host_and_port, is_forwarded, is_loopback
    from qdeck._agent.options import from_configuration as agent_options
    from qdeck._discovery import ImportFailed
    from qdeck._python import module_command
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
    "qdeck._discovery": "ImportFailed",
    "qdeck._python": "module_command",
    "qdeck._worker.app_loader": "load_app",
    "qdeck._worker.worker": "Worker",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, _HOMES)
