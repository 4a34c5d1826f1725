"""What a worker writes to `logging`: failures with their trace, and at INFO a line per start and end of a job."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from qdeck._engine import keys
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    import qdeck
    from support.beside import Beside

QUEUE = "test:actions"


def of_worker(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in list(caplog.records) if record.name == "qdeck.worker"]


def test_a_failure_has_its_trace_and_says_which_job(
    app: qdeck.App, start: Callable[..., Beside], caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(retries=0)
    def breaks() -> None:
        raise KeyError("the reason")

    @app.task(retries=0)
    async def abreaks() -> None:
        raise KeyError("the reason")

    caplog.set_level(logging.WARNING)
    jobs = [breaks.enqueue(), abreaks.enqueue(_name="mine")]
    start()
    wait_until(lambda: all(job.state() == "dead" for job in jobs) and len(of_worker(caplog)) == 2)
    for record in of_worker(caplog):
        facts: Any = record
        assert record.levelno == logging.ERROR
        assert record.exc_info is not None
        assert record.exc_info[0] is KeyError
        assert (facts.job in {job.id for job in jobs}, facts.queue, facts.attempt) == (True, QUEUE, 1)
        assert facts.task in record.getMessage()


def test_at_info_each_job_has_a_line_at_its_start_and_one_at_its_end(
    app: qdeck.App, raw: Any, start: Callable[..., Beside], caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    def quick() -> None: ...

    caplog.set_level(logging.INFO)
    job = quick.enqueue()
    start()
    wait_until(lambda: len(of_worker(caplog)) == 2)
    lines: list[Any] = of_worker(caplog)
    assert [(line.outcome, line.job, line.levelno) for line in lines] == [
        ("started", job.id, logging.INFO), ("done", job.id, logging.INFO)
    ]  # fmt: skip
    assert not raw.hexists(keys.key(QUEUE, "log"), job.id), "the worker's lines are not the job's output"


def test_a_filter_that_raises_does_not_stop_the_worker(
    app: qdeck.App, start: Callable[..., Beside], monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task(retries=0)
    def breaks() -> None:
        raise ValueError

    def refuse(_: logging.LogRecord) -> bool:
        raise RuntimeError

    monkeypatch.setattr(logging.getLogger("qdeck.worker"), "filters", [refuse])
    first, second = breaks.enqueue(), breaks.enqueue()
    start()
    wait_until(lambda: first.state() == second.state() == "dead")


def test_the_log_is_json_with_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    from qdeck_console.cli.logs import log_to_stderr

    root, logger = logging.getLogger(), logging.getLogger("qdeck.worker")
    before = (list(root.handlers), root.level, logger.level)
    try:
        log_to_stderr("error", as_json=True)
        logger.info("not this")
        try:
            raise ValueError("x")
        except ValueError:
            logger.exception("send failed", extra={"job": "1", "queue": QUEUE})
    finally:
        root.handlers, _, _ = before
        root.setLevel(before[1])
        logger.setLevel(before[2])
    [line] = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert (told["job"], told["queue"], told["level"], told["message"]) == ("1", QUEUE, "error", "send failed")
    assert "ValueError: x" in told["traceback"]
