"""`qdeck worker`."""

from __future__ import annotations

import contextlib
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

import click

from qdeck.runtime import module_command
from qdeck_console.cli.base import command, explicit_url, need_writable, settings
from qdeck_console.cli.output import dumps, note, safe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qdeck import App


_LEVELS = ("debug", "info", "warning", "error")


@command("worker", short_help="Runs jobs until SIGTERM.")
@click.argument("app_ref", metavar="MODULE:APP")
@click.option("-q", "--queue", "queues", multiple=True, metavar="QUEUE[=WEIGHT]", help="A queue to serve; repeats.")
@click.option("-c", "--concurrency", type=int, default=50, metavar="N", show_default=True, help="Jobs at once.")
@click.option("--tasks", "modules", multiple=True, metavar="MODULE", help="A module of tasks, or shop.*; repeats.")
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    help="Least severe log line on stderr; info has each job.",
)
@click.option("--log-json", is_flag=True, help="Log lines are JSON.")
def worker(
    app_ref: str,
    queues: tuple[str, ...],
    concurrency: int,
    modules: tuple[str, ...],
    log_level: str | None,
    log_json: bool,
) -> None:
    """Runs the jobs of an app until SIGTERM; what runs then is finished or given back. SIGHUP starts it anew."""
    weights = dict(_read_queue(text) for text in queues)
    given, url = settings(), explicit_url()
    if url or given.confirm:  # an app that brings its own server was meant for it
        need_writable()
    if url:
        os.environ["QDECK_URL"] = url
    if log_level or log_json:
        from qdeck_console.cli.logs import log_to_stderr

        log_to_stderr(log_level or "warning", as_json=log_json)
    with _stdout_for_events(as_json=given.as_json) as out:
        ended = _work(app_ref, modules, weights, concurrency, url, _WorkerEvents(out, as_json=given.as_json))
    if ended == "reload":
        sys.stdout.flush()
        # A new process, because modules that changed cannot be loaded anew with certainty.
        os.execv(sys.executable, module_command("qdeck_console", *sys.argv[1:]))  # noqa: S606 - ourselves


def _work(
    app_ref: str,
    modules: tuple[str, ...],
    weights: dict[str, int],
    concurrency: int,
    url: str | None,
    tell: _WorkerEvents,
) -> str:
    from qdeck import UsageError
    from qdeck.runtime import Worker

    app = load(app_ref, modules)
    if not any(True for _ in app.tasks) and not app.beside:
        raise UsageError(
            f"{app_ref} declares no tasks",
            hint='name the modules that declare them: --tasks shop.tasks, or app.autodiscover("shop.*")',
        )
    if url and app.endpoint.url != url:
        raise UsageError(
            f"{app_ref} names its own server, {app.endpoint}: --url does not change it",
            hint="leave the URL out of the App, and it takes that of the environment or --url",
        )
    return Worker(app, weights or None, concurrency=concurrency, app_ref=app_ref, on_event=tell).run()


def load(app_ref: str, modules: tuple[str, ...]) -> App:
    """The app with its tasks. Of a module that fails to import the traceback goes to stderr."""
    from qdeck.runtime import ImportFailed, load_app

    try:
        app = load_app(app_ref)
        app.autodiscover(*modules)
    except ImportFailed as error:
        for line in error.trace.splitlines():
            note(line)
        raise
    return app


@contextlib.contextmanager
def _stdout_for_events(*, as_json: bool) -> Iterator[TextIO]:
    """Where events go. With `--json` stdout holds nothing else: what handlers print goes to stderr for as long."""
    if not as_json:
        yield sys.stdout
        return
    sys.stdout.flush()
    before, kept = sys.stdout, os.dup(1)
    try:
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        with open(kept, "w", encoding="utf-8", closefd=False) as out:
            yield out
    finally:
        sys.stdout = before
        os.dup2(kept, 1)
        os.close(kept)


def _read_queue(text: str) -> tuple[str, int]:
    name, _, weight = text.partition("=")
    if weight and not (weight.isdecimal() and int(weight) > 0):
        raise click.UsageError(f"-q {text!r}: the weight is a whole number from 1 up", click.get_current_context())
    return name, int(weight or 1)


class _WorkerEvents:
    """Writes what a worker tells, a line each, past whatever captures the output of its handlers."""

    def __init__(self, out: TextIO, *, as_json: bool) -> None:
        self._out = out
        self._as_json = as_json

    def __call__(self, event: dict[str, Any]) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._as_json:
            text = dumps({"at": at, **event})
        else:
            rest = "  ".join(
                f"{name}={safe(value)}" for name, value in event.items() if name not in ("event", "worker")
            )
            text = f"{at}  {safe(event.get('worker', ''))}  {safe(event.get('event', '')):9} {rest}".rstrip()
        encoding = self._out.encoding or "utf-8"
        # Whoever reads may go away: that is no reason to stop working.
        with contextlib.suppress(OSError, ValueError):
            self._out.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
            self._out.flush()
