"""`qdeck agent`: run maintenance, purges, health checks and metrics."""

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


@command("agent", examples=("qdeck agent --purge-every 3600 --health-every 60", "qdeck agent --http 127.0.0.1:9090"))
@click.option("--purge-every", type=_SECONDS, metavar="S", help="Purge every S seconds. Default: qdeck.toml, else off.")
@click.option(
    "--health-every",
    type=_SECONDS,
    metavar="S",
    help="Check the health every S seconds. Default: qdeck.toml, else off.",
)
@click.option(
    "--clean-every",
    type=_SECONDS,
    metavar="S",
    help="Remove expired temporary queues every S seconds. Default: qdeck.toml, else off.",
)
@click.option(
    "--http", metavar="HOST:PORT", help="Serve the API and /metrics; the token is $QDECK_HTTP_TOKEN. Default: off."
)
def agent(purge_every: float | None, health_every: float | None, clean_every: float | None, http: str | None) -> None:
    """Run maintenance, purges, health checks and metrics.

    The agent runs until SIGTERM. It requeues jobs with expired leases, delivers jobs between queues, trims histories
    and runs schedules. Several agents can run at once: each task is done by one of them.
    """
    given = settings()
    made = _make(purge_every, health_every, clean_every, http)
    if made.run() == "reload":
        sys.stdout.flush()
        # A new process, to read the configuration again.
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
    """Write the events of an agent, one per line."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def __call__(self, event: dict[str, Any]) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        text = dumps({"at": at, **event}) if self._as_json else self._line(at, event)
        # The reader may exit: the agent goes on.
        with contextlib.suppress(OSError, ValueError):
            encoding = sys.stdout.encoding or "utf-8"
            sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
            sys.stdout.flush()

    def _line(self, at: str, event: dict[str, Any]) -> str:
        shown = {name: value for name, value in event.items() if name not in ("event", "agent", "task")}
        rest = "  ".join(f"{name}={_shown(value)}" for name, value in shown.items())
        return f"{at}  {safe(event.get('event', '')):9} {safe(event.get('task', '')):8} {rest}".rstrip()


def _shown(value: object) -> str:
    return safe(dumps(value) if isinstance(value, dict | list | tuple | bool) or value is None else value)
