"""`qdeck agent`: looks after queues until SIGTERM."""

from __future__ import annotations

import contextlib
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from qdeck.runtime import module_command
from qdeck_console.cli.base import command, read_only_hint, settings
from qdeck_console.cli.output import dumps, note, safe

if TYPE_CHECKING:
    from qdeck.runtime import Agent

_SECONDS = click.FloatRange(min=0, min_open=True)


@command("agent", short_help="Auto-purge, health, history, metrics.")
@click.option("--purge-every", type=_SECONDS, metavar="S", help="Purge every so many seconds; off by default.")
@click.option("--health-every", type=_SECONDS, metavar="S", help="Judge the health so often; off by default.")
@click.option("--clean-every", type=_SECONDS, metavar="S", help="Remove expired temporary queues so often.")
@click.option("--http", metavar="HOST:PORT", help="Serve the API and /metrics; the token is in QDECK_HTTP_TOKEN.")
def agent(purge_every: float | None, health_every: float | None, clean_every: float | None, http: str | None) -> None:
    """Looks after all queues until SIGTERM: takes expired leases back, delivers, trims, keeps history.

    Purge and health run at the intervals of qdeck.toml when it switches them on, or at those given here. Any number
    of agents may run at once: each run is done by one of them.
    """
    given = settings()
    made = _make(purge_every, health_every, clean_every, http)
    if made.run() == "reload":
        sys.stdout.flush()
        # A new process, because it reads its configuration anew.
        os.execv(sys.executable, module_command("qdeck_console", *sys.argv[1:]))  # noqa: S606 - ourselves
    if not given.as_json:
        sys.stdout.flush()


def _make(purge_every: float | None, health_every: float | None, clean_every: float | None, http: str | None) -> Agent:
    from qdeck.runtime import TOKEN_VARIABLE, Agent, agent_options

    given = settings()
    configuration, target = given.configuration(), given.target()
    for warning in configuration.warnings():
        note(f"qdeck: {warning}")
    options = agent_options(
        configuration,
        target,
        purge_every=purge_every,
        health_every=health_every,
        clean_every=clean_every,
        http=http,
        token=os.environ.get(TOKEN_VARIABLE),
        read_only_hint=read_only_hint(target, given.confirm),
        adapters=given.adapters,
    )
    return Agent(target.url, options, on_event=_AgentEvents(as_json=given.as_json))


class _AgentEvents:
    """Writes what an agent tells, a line each."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def __call__(self, event: dict[str, Any]) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        text = dumps({"at": at, **event}) if self._as_json else self._line(at, event)
        # Whoever reads may go away: that is no reason to stop.
        with contextlib.suppress(OSError, ValueError):
            encoding = sys.stdout.encoding or "utf-8"
            sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
            sys.stdout.flush()

    def _line(self, at: str, event: dict[str, Any]) -> str:
        shown = {name: value for name, value in event.items() if name not in ("event", "agent", "task")}
        rest = "  ".join(f"{name}={_told(value)}" for name, value in shown.items())
        return f"{at}  {safe(event.get('event', '')):9} {safe(event.get('task', '')):8} {rest}".rstrip()


def _told(value: object) -> str:
    return safe(dumps(value) if isinstance(value, dict | list | tuple | bool) or value is None else value)
