"""What runs qdeck's own processes: workers and agents, and how they are started."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from qdeck._agent.agent import Agent
    from qdeck._agent.options import TOKEN_VARIABLE, host_and_port, is_loopback, is_passed_on
    from qdeck._agent.options import from_configuration as agent_options
    from qdeck._discovery import ImportFailed
    from qdeck._python import module_command
    from qdeck._worker.loading import load_app
    from qdeck._worker.worker import Worker

__all__ = [
    "TOKEN_VARIABLE",
    "Agent",
    "ImportFailed",
    "Worker",
    "agent_options",
    "host_and_port",
    "is_loopback",
    "is_passed_on",
    "load_app",
    "module_command",
]

# Imported when first asked for: a command takes what it needs, and starts as quickly as before.
_HOMES: Final = {
    "qdeck._agent.agent": "Agent",
    "qdeck._agent.options": "TOKEN_VARIABLE agent_options=from_configuration host_and_port is_loopback is_passed_on",
    "qdeck._discovery": "ImportFailed",
    "qdeck._python": "module_command",
    "qdeck._worker.loading": "load_app",
    "qdeck._worker.worker": "Worker",
}
_HOME_OF: Final = {
    name: (module, attribute or name)
    for module, names in _HOMES.items()
    for name, _, attribute in (word.partition("=") for word in names.split())
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOME_OF[name]
    value = globals()[name] = getattr(import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
