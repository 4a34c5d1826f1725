"""`qdeck worker`: run the jobs of an application."""

from __future__ import annotations

import contextlib
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

import click

from qdeck.runtime import module_command
from qdeck_console.cli.base import command, explicit_url, need_writable, settings, suggesting
from qdeck_console.cli.output import dumps, note, safe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qdeck import App


_LEVELS = ("debug", "info", "warning", "error")


@command("worker", examples=("qdeck worker shop:app", "qdeck worker shop:app -q mail=3 -q imports -c 10"))
@click.argument("app_ref", metavar="MODULE:APP", help="The qdeck.App, such as shop:app.")
@click.option(
    "-q",
    "--queue",
    "queues",
    shell_complete=suggesting("queues"),
    multiple=True,
    metavar="QUEUE[=WEIGHT]",
    help="Queue to serve; repeatable. Default: the queues of the tasks.",
)
@click.option(
    "-c",
    "--concurrency",
    type=int,
    default=50,
    metavar="N",
    show_default=True,
    help="Run at most this many jobs at once.",
)
@click.option(
    "--tasks",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="Import tasks from this module, or from shop.*; repeatable.",
)
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    metavar="LEVEL",
    help="Log to stderr from this level on: debug, info (each job), warning, error. Default: off.",
)
@click.option("--log-json", is_flag=True, help="Write log lines as JSON.")
def worker(
    app_ref: str,
    queues: tuple[str, ...],
    concurrency: int,
    modules: tuple[str, ...],
    log_level: str | None,
    log_json: bool,
) -> None:
    """Run the jobs of an application.

    The worker runs until SIGTERM. Then running jobs finish or are requeued. SIGHUP restarts the worker.
    """
    weights = dict(_read_queue(text) for text in queues)
    given, url = settings(), explicit_url()
    if url or given.confirm:  # an app with its own URL is for that server
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
        # A new process: changed modules cannot be reloaded reliably.
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
            hint='Give their modules: --tasks shop.tasks, or app.autodiscover("shop.*").',
        )
    if url and app.endpoint.url != url:
        raise UsageError(
            f"{app_ref} has its own server, {app.endpoint}, which --url does not change",
            hint="Leave the URL out of the App to use --url or the environment.",
        )
    return Worker(app, weights or None, concurrency=concurrency, app_ref=app_ref, on_event=tell).run()


def load(app_ref: str, modules: tuple[str, ...]) -> App:
    """Return the app with its tasks. Write the traceback of a failed import to stderr."""
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
    """Yield the stream for events. With `--json` it is stdout alone; the output of handlers goes to stderr."""
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
        raise click.UsageError(f"-q {text!r}: the weight must be an integer of at least 1", click.get_current_context())
    return name, int(weight or 1)


class _WorkerEvents:
    """Write the events of a worker, one per line, apart from the output of its handlers."""

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
        # The reader may exit: the worker goes on.
        with contextlib.suppress(OSError, ValueError):
            self._out.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
            self._out.flush()
