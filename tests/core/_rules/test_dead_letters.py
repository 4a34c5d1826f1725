"""Dead letters as the document on queue reliability wants them, made by a worker and read by everybody."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import qdeck
from support.beside import Beside
from support.waiting import wait_until

if TYPE_CHECKING:
    import redis

MAIL, BILLS = "demo:mail:actions", "demo:bills:actions"


def letters(url: str, *args: str) -> Any:
    ran = subprocess.run(
        [sys.executable, "-m", "qdeck_console", "dead", *args, "--json", "--url", url], capture_output=True, check=True
    )
    return json.loads(ran.stdout)


def test_what_fails_is_moved_to_the_dead_letters_of_its_queue(url: str, raw: redis.Redis) -> None:
    """'Failed VMs are automatically moved to appropriate DLQ'
    'DLQ entries contain complete failure context (error, timestamp, retry count)'
    'DLQ entries are queryable via Redis CLI or API': here with plain Redis commands and with `qdeck dead --json`
    """
    app = qdeck.App(url, queue=MAIL)

    @app.task(retries=2, retry_delay=0.01)
    def clone(pool: str) -> None:
        raise LookupError(f"template of {pool} does not exist")

    @app.task(queue=BILLS, retries=0)
    def bill(number: int) -> None:
        raise TimeoutError(f"bill {number} timed out")

    made, other = clone.enqueue("centos-7"), bill.enqueue(7)
    with Beside(app, {MAIL: 1, BILLS: 1}):
        wait_until(lambda: all(raw.zcard(f"{{{queue}}}:dead_letter") == 1 for queue in (MAIL, BILLS)))
    app.close()
    assert raw.zrange(f"{{{MAIL}}}:dead_letter", 0, -1) == [made.id.encode()]
    assert raw.zrange(f"{{{BILLS}}}:dead_letter", 0, -1) == [other.id.encode()]
    assert raw.zcard(f"{{{MAIL}}}:ready") == raw.zcard(f"{{{MAIL}}}:running") == raw.zcard(f"{{{MAIL}}}:delayed") == 0
    [letter] = letters(url, MAIL)
    assert (letter["id"], letter["queue_from"]) == (made.id, MAIL)
    assert letter["error_class"] == "LookupError"
    assert letter["error_message"] == "template of centos-7 does not exist"
    assert letter["attempts"] == 3, "the first run and two retries"
    assert letter["payload"] == [["centos-7"], {}]
    failed_ms = datetime.fromisoformat(letter["failed_at"]).timestamp() * 1000
    score = raw.zscore(f"{{{MAIL}}}:dead_letter", made.id)
    assert isinstance(score, float)
    assert abs(failed_ms - score) < 1000
    assert {entry["id"] for entry in letters(url)} == {made.id, other.id}
    assert [entry["id"] for entry in letters(url, "--where", "error:Timeout* payload.0:7")] == [other.id]
