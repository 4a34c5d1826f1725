"""The verdict over very many queues: in steps, the same as at once, and what stays as it is shared."""

from __future__ import annotations

from dataclasses import replace

from qdeck._model import verdict
from qdeck.admin import QueueRow, ServerInfo, Snapshot
from support.verdicts import judge

QUEUES = 5 * verdict.STEP
ROWS = [
    QueueRow(name=f"demo:dev:area:task_{n:05}:actions", ready=1 + n % 3, dead=200 - n % 400, running=0, workers=0)
    for n in range(QUEUES)
]


def _seen(rows: list[QueueRow]) -> Snapshot:
    return Snapshot(at_ms=1, server=ServerInfo(), queues=tuple(rows))


def _findings(rows: list[QueueRow], known: verdict.Findings | None = None) -> tuple[verdict.Findings, int]:
    found = verdict.Findings()
    before = [finding for check in known.checks for finding in check.findings] if known else []
    recalled = sum(1 for _ in found.recall(before))
    assert recalled == -(-len(before) // verdict.STEP)
    return found, sum(1 for _ in verdict.steps(_seen(rows), None, found))


def test_steps_come_to_what_is_found_at_once() -> None:
    found, steps = _findings(ROWS)
    assert found.checks == list(judge(*ROWS).checks)
    assert steps > 2 * QUEUES / verdict.STEP
    assert sum(len(check.findings) for check in found.checks) > QUEUES, "each queue lacks a worker, some are full"


def test_a_finding_that_stays_is_the_same_one() -> None:
    before, _ = _findings(ROWS)
    rows = [replace(ROWS[0], ready=99), *ROWS[1:]]
    after, _ = _findings(rows, before)
    assert after.checks == list(judge(*rows).checks)
    old = {id(finding) for check in before.checks for finding in check.findings}
    new = [finding for check in after.checks for finding in check.findings if finding.queue and id(finding) not in old]
    assert [(finding.queue, finding.text) for finding in new] == [
        (ROWS[0].ref, f"no live worker for {ROWS[0].name}, 99 jobs waiting")
    ]
