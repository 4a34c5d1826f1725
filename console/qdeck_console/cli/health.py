"""`qdeck health`: the health report, for people, programs and Nagios."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from qdeck.admin import byte_size, counted
from qdeck_console.check_labels import check_label
from qdeck_console.cli.base import command, settings
from qdeck_console.cli.columns import TextCell, TextColumn
from qdeck_console.cli.output import (
    age,
    line,
    note_once,
    number,
    safe,
    say,
    status_role,
    table,
    worst_first,
    write_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qdeck.admin import Check, Finding, HealthReport

_NAGIOS: Final = {"healthy": ("OK", 0), "degraded": ("WARNING", 1), "unhealthy": ("CRITICAL", 2)}
_UNREACHABLE: Final = 2
_UNKNOWN: Final = 3
_SHOWN: Final = 5  # findings on the one line that Nagios takes


@command("health", examples=("qdeck health", "qdeck health --nagios"))
@click.option("--nagios", is_flag=True, help="Print one line, with the exit codes of a Nagios plugin.")
@click.option("--no-orphans", is_flag=True, help="Do not count orphaned records; that takes longest.")
@click.pass_context
def health(ctx: click.Context, *, nagios: bool, no_orphans: bool) -> None:
    """Check the health of the queues and of the server.

    Exit code 0: healthy, 1: degraded, 2: unhealthy.
    """
    if nagios:
        ctx.exit(_nagios(orphans=not no_orphans))
    given = settings()
    report = _report(orphans=not no_orphans)
    for notice in report.notices:
        note_once(f"qdeck: {notice}")
    if given.as_json:
        from qdeck.admin import health_document

        write_json(health_document(report))
    else:
        _print(report)
    ctx.exit(report.status.exit_code)


def _report(*, orphans: bool) -> HealthReport:
    from qdeck.admin import Limits

    given = settings()
    with given.reader() as reader:
        return reader.health(Limits.of(given.configuration().settings), orphans=orphans)


def _nagios(*, orphans: bool) -> int:
    from qdeck import QdeckError, ServerUnreachable, UsageError

    try:
        report = _report(orphans=orphans)
    except UsageError:
        raise
    except ServerUnreachable as error:
        line(f"QDECK CRITICAL - {_plain(str(error))}")
        return _UNREACHABLE
    except QdeckError as error:
        line(f"QDECK UNKNOWN - {_plain(str(error))}")
        return _UNKNOWN
    word, code = _NAGIOS[report.status.value]
    shown = [finding.text for finding in report.findings[:_SHOWN]]
    if len(report.findings) > _SHOWN:
        shown.append(f"{len(report.findings) - _SHOWN} more")
    line(f"QDECK {word} - {_plain('; '.join(shown) or report.status.value)} | {_perfdata(report)}")
    return code


def _plain(text: str) -> str:
    return safe(text).replace("|", "/")


def _perfdata(report: HealthReport) -> str:
    limits, totals = report.thresholds, report.snapshot.totals
    facts = [
        ("dead", report.errors.dead, f";{limits.dlq_max_warning};{limits.dlq_max_critical}"),
        ("stuck", report.errors.stuck, f";0;{limits.stuck_vm_max_critical}"),
        ("late", report.errors.late, f";{limits.stuck_vm_max_warning};{limits.stuck_vm_max_critical}"),
        ("ready", totals.ready, ""),
        ("delayed", totals.delayed, ""),
        ("running", totals.running, ""),
        ("queues", len(report.snapshot.queues), ""),
    ]
    return " ".join(f"{name}={value}{limit}" for name, value, limit in facts if value is not None)


def _since(report: HealthReport, finding: Finding) -> str:
    """Return how long a finding holds; empty where no agent noted it."""
    if finding.since_ms is None:
        return ""
    passed = age((report.at_ms - finding.since_ms) / 1000)
    return f", for {passed}" if finding.since_exact else f", for at least {passed}"


def _print(report: HealthReport) -> None:
    seen, errors = report.snapshot, report.errors
    say((report.status.value, status_role(report.status)), (f"  {seen.server.address}", ""))
    for finding in report.findings:
        say((f"{finding.text}{_since(report, finding)}", status_role(finding.severity)), indent=2, hang=2)
    line()
    table(_CHECK_COLUMNS, map(_check_cells, worst_first(report.checks, _check_rank)))
    found = [(ref, state, row) for state, rows in report.queues.items() for ref, row in rows.items() if row.size]
    if found:
        line()
        rows = worst_first(found, lambda one: (-(one[2].stuck_count or 0), -(one[2].oldest_age or 0)))
        cells: Iterator[list[TextCell | str]] = (
            [ref.label(seen.shared), state, number(row.size), age(row.oldest_age), age(row.avg_age),
             TextCell(number(row.stuck_count), "warn" if row.stuck_count else "")]
            for ref, state, row in rows
        )  # fmt: skip
        table(_QUEUE_COLUMNS, cells)
    line()
    line(
        f"{number(errors.dead)} dead, {number(errors.stuck)} stuck, {number(errors.late)} late, "
        + ("? orphaned records" if errors.orphaned is None else counted(errors.orphaned, "orphaned record"))
        + ("" if report.rates is None else f"; {report.rates.ended:,.0f} ended/min")
    )


def _check_cells(check: Check) -> list[TextCell | str]:
    status = "unknown" if check.status is None else check.status.value
    shown = byte_size if check.name == "memory" else number
    value, limit = (shown(at) if isinstance(at, int) else at or "" for at in (check.value, check.threshold))
    return [check_label(check.name), TextCell(status, status_role(check.status)), value, limit, check.detail]


def _check_rank(check: Check) -> int:
    return 1 if check.status is None else -check.status.exit_code or 2


_CHECK_COLUMNS: Final = (
    TextColumn("check"),
    TextColumn(""),
    TextColumn("value", right=True, drop=1),
    TextColumn("threshold", right=True, drop=2),
    TextColumn("detail", most=200, wraps=True),
)
_QUEUE_COLUMNS: Final = (
    TextColumn("queue", most=100),
    TextColumn("state"),
    TextColumn("jobs", right=True),
    TextColumn("oldest", right=True),
    TextColumn("average", right=True, drop=1),
    TextColumn("stuck", right=True),
)
