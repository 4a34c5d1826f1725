"""The rights that each role needs on the server, as lines for `ACL SETUSER`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._adapter_names import ADAPTERS, NATIVE
from qdeck.adapters import make_all
from qdeck.adapters.unknown_systems import ACL_KEYS

if TYPE_CHECKING:
    from collections.abc import Sequence

ROLES: Final = ("viewer", "operator", "worker", "producer", "agent")
_OF_QUEUES: Final = ("worker", "producer")  # they use native queues only
_OWN: Final = ("qdeck:*", "{qdeck:*")  # lists of queues and workers, schedules, the log of operations
_CONNECT: Final = (
    "+ping +hello +auth +select +echo +client|setname +client|setinfo +client|info +client|no-touch +client|no-evict "
    "+acl|whoami"
)
_READ: Final = "+@read -@dangerous +time +info +slowlog|get +slowlog|len +script|exists +config|get"
_WRITE: Final = "+@read +@write -@dangerous +time +info +evalsha +eval +script|load"
_COMMANDS: Final = {
    "viewer": _READ,
    "operator": f"{_WRITE} +slowlog|get +slowlog|len +script|exists +config|get +restore",
    "worker": f"{_WRITE} +wait +waitaof",
    "producer": f"{_WRITE} -@blocking +blmove +blpop +wait +waitaof",
    "agent": f"{_WRITE} +slowlog|get +slowlog|len +script|exists +config|get",
}
# With messages, workers and producers use plain lists and streams beside the queues.
_MESSAGES: Final = ("task_queues:*", "*:actions", "*:actions:*", "*:responses*", "*:callbacks*", "*:notifications*")


def line(role: str, adapters: Sequence[str] = ADAPTERS, user: str | None = None) -> str:
    """Return the command that gives a user the rights of a role."""
    read = "%R" if role == "viewer" else ""
    keys = [f"{read}~{pattern}" for pattern in patterns(role, adapters)]
    if role not in _OF_QUEUES:
        keys += [f"%R~{pattern}" for pattern in ACL_KEYS]
    rules = f"{_CONNECT} {_COMMANDS[role]}"
    return f"ACL SETUSER {user or f'qdeck-{role}'} on resetkeys {' '.join(keys)} resetchannels -@all {rules}"


def patterns(role: str, adapters: Sequence[str] = ADAPTERS) -> list[str]:
    """Return the patterns of the keys that a role uses."""
    names = [*(name for name in ADAPTERS if name in adapters), *adapters]
    made = make_all([NATIVE] if role in _OF_QUEUES else dict.fromkeys(names))
    return list(dict.fromkeys([*_OWN, *(key for adapter in made for key in adapter.acl_keys), *_MESSAGES]))
