"""The processes of the load with kills: `python -m core.messages.load_parts PART …`.

Each notes what it does as it does it. A note is one line by one `write`, so a process that is killed in the middle
leaves whole lines.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import qdeck
from qdeck.messages import DomainAction, Messenger, Service, SyncDomainQueueManager
from qdeck.messages import _registry as registry

if TYPE_CHECKING:
    from collections.abc import Callable

WORKER_QUEUE = "load:test:echo:actions"
CLIENT_QUEUE = "load:test:client:actions"
CLIENTS = 20
TASKS = 50
TIMEOUT_S = 5.0
SHORT_S = 0.05
AT_WORK = "at work"  # said by a process when it did its first piece; before, there is little that a kill could break


def is_bad(number: int) -> bool:
    """Whether this action fails, for good."""
    return number % 50 == 7


def is_slow(number: int) -> bool:
    """Whether the answer comes after its reader gave up."""
    return number % 97 == 3


def timeout_of(number: int) -> float:
    """How long its client waits, in seconds."""
    return SHORT_S if is_slow(number) else TIMEOUT_S


def response_name(number: int) -> str:
    """Where the answer to a request goes."""
    return f"load:test:client:responses:back:c-{number}"


def notebook(folder: str, name: str) -> Callable[..., None]:
    """A function that notes words."""
    file = os.open(Path(folder) / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(*words: object) -> None:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())

    return note


def read_notes(folder: str | Path, start: str) -> list[list[str]]:
    """All notes of the files whose names start so."""
    found: list[list[str]] = []
    for path in sorted(Path(folder).glob(f"{start}*")):
        text = path.read_text("utf-8")
        found += [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]
    return found


def worker(folder: str) -> None:
    """Echoes; its lease is short, so that what a killed one had comes back soon."""
    service = Service(qdeck.App(queue=WORKER_QUEUE))
    note = notebook(folder, f"worker-{os.getpid()}")

    @service.on_action("echo.back")
    async def back(action: DomainAction) -> dict[str, Any]:
        number = action.data["n"]
        note("run", number)
        _say_once()
        if is_bad(number):
            raise ValueError("bad by design")
        if is_slow(number):
            await asyncio.sleep(0.2)
        return action.data

    service.run(concurrency=25, lease=1.0)


def cleaner(folder: str) -> None:
    """Cleans without pause, also tasks that are at work, and notes what it removed and when."""
    manager = SyncDomainQueueManager(qdeck.App(queue="load:test:cleaner:actions"))
    note = notebook(folder, f"cleaner-{os.getpid()}")
    turns: list[Callable[[], Any]] = [
        manager.clean_expired_queues,
        lambda: manager.clean_orphaned_queues(idle=1),
        *[lambda: manager.report_task_queues(f"task-{random.randrange(TASKS)}", dry_run=False)] * 8,
    ]
    while True:
        for turn in turns:
            _say_once()
            before = time.time()
            report = turn()
            for one in report.samples:
                if one.outcome == "removed":
                    note("removed", one.name, before, time.time(), one.messages or 0)
            time.sleep(0.02)


def client(folder: str, first: str, threads: str, pairs: str) -> None:
    """Several clients of one process; each goes on where its predecessor was killed."""
    with ThreadPoolExecutor(int(threads)) as pool:
        for done in [pool.submit(_ask, folder, int(first) + n, int(pairs)) for n in range(int(threads))]:
            done.result()


def _ask(folder: str, me: int, pairs: int) -> None:
    messenger = Messenger(qdeck.App(queue=CLIENT_QUEUE))
    name = f"client-{me:02}"
    notes = read_notes(folder, name)
    ended = {int(words[1]) for words in notes if words[0] in "ATF"}
    begun = {int(words[1]) for words in notes if words[0] == "B"}
    note = notebook(folder, name)
    for number in range(me, pairs, CLIENTS):
        while number not in ended:
            # A request that was begun before the client was killed is sent again under the same ids.
            action = messenger.new_action(
                "echo.back", {"n": number}, action_id=f"load-{number}", correlation_id=f"c-{number}",
                task_id=f"task-{number % TASKS}",
            )  # fmt: skip
            note("B", number, time.time())
            if number in begun:
                # Its predecessor's queue may be going, rightly. From the next note on it is waited on, and must stay.
                if messenger.app.client.run(_wait_before(number)) < 0:
                    time.sleep(0.05)
                    continue
                note("W", number, time.time())
            begun.add(number)
            try:
                outcome = _pair(messenger, action, number)
            except (qdeck.OutcomeUnknown, qdeck.ServerUnreachable):
                continue  # the machine stood still for too long: the same as a client that was killed
            note(outcome, number, time.time())
            ended.add(number)
            _say_once()
    messenger.close()


def _wait_before(number: int) -> Any:
    wait_ms = round(TIMEOUT_S * 1000)
    task, ttl_ms = f"task-{number % TASKS}", 3 * wait_ms
    name = response_name(number)
    return registry.register(name, "responses", "client", task=task, tier="", ttl_ms=ttl_ms, wait_ms=wait_ms)


@cache
def _say_once() -> None:
    sys.stdout.write(AT_WORK + "\n")
    sys.stdout.flush()


def _pair(messenger: Messenger, action: DomainAction, number: int) -> str:
    try:
        answer = messenger.request(action, timeout=timeout_of(number), retries=1, retry_delay=0.05)
    except qdeck.ResultTimeout:
        return "T"
    if not answer.success:
        return "F"
    return "A" if answer.data == {"n": number} else "WRONG"


PARTS: dict[str, Callable[..., None]] = {"worker": worker, "cleaner": cleaner, "client": client}

if __name__ == "__main__":
    PARTS[sys.argv[1]](*sys.argv[2:])
