"""Commands on a server whose queues no adapter reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck.admin import Code

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.commands import Ran

SENTENCE = "the server has keys of Resque (resque:queues), which no adapter reads"


def test_status_and_doctor_name_the_system_and_fail(raw: redis.Redis, qdeck: Callable[..., Ran]) -> None:
    raw.sadd("resque:queues", "default")
    status, doctor = qdeck("status"), qdeck("doctor", "--json")
    assert (status.code, doctor.code) == (1, 1)
    assert SENTENCE in status.out
    told = [(check["ok"], check["detail"]) for check in doctor.json["checks"] if check["code"] == Code.UNKNOWN_SYSTEM]
    assert told == [(False, SENTENCE)]
