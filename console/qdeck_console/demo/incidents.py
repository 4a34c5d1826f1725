"""Five incidents to practise on: what is reported, when it is solved, and the data that it starts from."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from qdeck import QdeckError
from qdeck.admin import ADAPTERS, Reader, duration
from qdeck_console.demo import names, tasks
from qdeck_console.demo.seed import HOUR_MS, MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qdeck.admin import QueueRow
    from qdeck_console.app import ConsoleApp
    from qdeck_console.demo.seed import Seeder

_CHECK_S: Final = 1.0
_UNDELIVERED: Final = ("ready", "delayed", "running", "dead")
_SCHEDULER: Final = "scheduler"
_FEEDS: Final = tuple(f"https://feeds.example/{number:02d}.xml" for number in range(96))
_TOO_OLD_MS: Final = 9 * 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Incident:
    """A problem of the demo's server, as somebody reports it, and the state that solves it."""

    report: str
    goal: str
    seed: Callable[[Seeder], None]
    is_solved: Callable[[Reader], bool]
    kinds: tuple[str, ...] = ("mail", "audit", "thumbnail")
    """The calls that its producer makes."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the demo's worker is given besides."""
    other_systems: bool = False


def _row(reader: Reader, queue: str) -> QueueRow:
    return next(row for row in reader.snapshot(visible=()).queues if row.name == queue)


def _is_delivered(reader: Reader) -> bool:
    return not list(reader.jobs(names.WEBHOOKS, state=_UNDELIVERED, where="payload.0:*globex*", limit=1))


def _are_invoices_issued(reader: Reader) -> bool:
    row = _row(reader, names.BILLING)
    return not row.paused and not row.ready and not row.running


def _are_feeds_imported(reader: Reader) -> bool:
    row = _row(reader, names.IMPORTS)
    return not (row.ready or row.running or row.dead)


def _is_nothing_stuck(reader: Reader) -> bool:
    return not list(reader.jobs(_SCHEDULER, state="running", where="age>1h", limit=1))


def _is_nothing_too_old(reader: Reader) -> bool:
    return not list(reader.jobs(names.MAIL, state="dead", where="age>7d", limit=1))


def _feeds(seeder: Seeder) -> None:
    seeder.stuck([tasks.import_feed.call(url) for url in _FEEDS], lease_ms=10_000)


def _old_letters(seeder: Seeder) -> None:
    for number in range(200):
        call = tasks.send_mail.call(f"reader{number}@example.org", "receipt")
        seeder.die(call, _TOO_OLD_MS // MINUTE_MS + number, lambda: "Dear {reader}".format_map({}), runs=1)


INCIDENTS: Final[tuple[Incident, ...]] = (
    Incident(
        report="Globex: we received no orders for half an hour. Our server was down and is up again.",
        goal="Deliver all failed webhooks of Globex.",
        seed=lambda seeder: seeder.webhooks(),
        is_solved=_is_delivered,
        kinds=("mail", "audit", "thumbnail", "webhook"),
        environment={tasks.PARTNER_IS_UP: "1"},
    ),
    Incident(
        report="Accounting: no invoice was issued for two hours. INC-2291 is closed, the VAT is right again.",
        goal="Issue the invoices that wait.",
        seed=lambda seeder: seeder.paused(),
        is_solved=_are_invoices_issued,
    ),
    Incident(
        report="Partners: our feeds are not imported.",
        goal="Find out why, and have all feeds imported.",
        seed=_feeds,
        is_solved=_are_feeds_imported,
    ),
    Incident(
        report="Sales: the report of the scheduler has been running for three hours; its worker was replaced.",
        goal="Requeue the job that no worker runs any more.",
        seed=lambda seeder: None,
        is_solved=_is_nothing_stuck,
        other_systems=True,
    ),
    Incident(
        report="Privacy: mails that failed more than 7 days ago must not be kept.",
        goal="Remove the dead letters older than 7 days.",
        seed=_old_letters,
        is_solved=_is_nothing_too_old,
    ),
)


def text_of(number: int) -> str:
    """Return an incident as text, by its number from 1 on."""
    incident = INCIDENTS[number - 1]
    return f"Incident {number} of {len(INCIDENTS)}\n  {incident.report}\n  Goal: {incident.goal}"


class IncidentCheck:
    """Checks every second whether an incident is solved, and shows it in the console."""

    def __init__(self, url: str, incident: Incident) -> None:
        self._url, self._incident = url, incident
        self._began = time.monotonic()
        self._solved_s: float | None = None
        self._app: ConsoleApp | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="qdeck-demo-incident", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def result(self) -> str:
        """A line on whether the incident is solved."""
        if self._solved_s is None:
            return f"Not solved. Goal: {self._incident.goal}"
        return f"Solved in {duration(1000 * self._solved_s)}."

    def attach(self, app: ConsoleApp) -> None:
        """Use this console to show that the incident is solved."""
        self._app = app

    def _run(self) -> None:
        with contextlib.suppress(QdeckError), Reader(self._url, adapters=ADAPTERS) as reader:
            while not self._over.wait(_CHECK_S):
                if self._incident.is_solved(reader):
                    self._solved_s = time.monotonic() - self._began
                    if self._app is not None:
                        with contextlib.suppress(RuntimeError):  # the console was closed meanwhile
                            self._app.call_from_thread(self._app.say, self.result, "ok", "✓")
                    return
