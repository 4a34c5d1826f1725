"""Users with the published rights on a test's server, and the commands that they were refused."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from qdeck._rules import role_rights

if TYPE_CHECKING:
    import redis


class Roles:
    """The users of one database of a server; `url` is the administrator's."""

    def __init__(self, url: str, raw: redis.Redis) -> None:
        self.url, self.raw = url, raw

    def make(self, role: str, *, prefix: str = "", **options: Any) -> str:
        """Return the url of a user with the published line of a role; what was refused before is forgotten.

        The prefix is written into the patterns as docs/how-to/give-rights.md says.
        """
        line = role_rights.line(role, **options)
        if prefix:
            line = line.replace("~{*}", f"~{{{prefix}:*}}").replace("~*:", f"~{prefix}:*:")
        user = f"qdeck-{role}"
        self.raw.execute_command("ACL", "DELUSER", user)
        self.raw.execute_command(*shlex.split(line), ">pw")
        self.raw.execute_command("ACL", "LOG", "RESET")
        return self.url.replace("redis://", f"redis://{user}:pw@")

    def denied(self) -> set[str]:
        """Return what the server refused since the last user was made."""
        log: list[dict[str, Any]] = self.raw.acl_log()
        return {f"{entry['username']}: {entry['reason']} {entry['object']}" for entry in log}
