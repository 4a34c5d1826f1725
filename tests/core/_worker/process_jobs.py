"""An app whose jobs run in child processes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from typing import Any

import qdeck

app = qdeck.App(queue="test:actions")


@app.task(process=True)
def pid(seconds: float = 0.0) -> int:
    print("in", os.getpid())  # noqa: T201 - what is tested
    time.sleep(seconds)
    return os.getpid()


@app.task(process=True)
async def apid() -> int:
    await asyncio.sleep(0)
    logging.getLogger("x").warning("from a child")
    return os.getpid()


@app.task(process=True, retries=1, retry_delay=0.01)
def fails(what: str) -> Any:
    match what:
        case "error":
            raise ValueError("no")
        case "exit":
            raise SystemExit(4)
        case "reject":
            raise qdeck.Reject("never")
        case "nan":
            return float("nan")
    return None


@app.task(process=True, retries=5)
def retries() -> int:
    if qdeck.current_job().attempt < 3:
        raise qdeck.Retry("later", delay=0.02)
    return qdeck.current_job().attempt


@app.task(process=True, retries=0)
def dies(code: int) -> None:
    os._exit(code)


@app.task(process=True)
def dies_once(path: str) -> str:
    try:
        with open(path, "x", encoding="ascii"):  # noqa: PTH123 - plain
            pass
    except FileExistsError:
        return f"crashes {qdeck.current_job().crashes}"
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@app.task(process=True)
def terminated() -> int:
    os.kill(os.getpid(), signal.SIGTERM)
    return subprocess.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 15)"], check=False).returncode


@app.task(process=True)
def about() -> list[Any]:
    job = qdeck.current_job()
    return [job.id, job.queue, job.task, job.attempt, job.retries, job.name, list(job.tags), job.worker]


@app.task(process=True, retries=0)
def cure(failure: qdeck.Failure) -> list[Any]:
    return [failure.task, failure.args, failure.error_class, failure.reason, failure.crashes]


@app.task
async def on_loop() -> int:
    return os.getpid()
