"""What this machine allows: a queue stripped to the least that one could be, a ready list and a hash per job.

No queue can be much faster than these on the same machine with the same client library, so the share of them that is
reached says more than jobs per second. They drift from minute to minute: measure them before and after what is
compared with them.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any, Final

import redis

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.machine import BenchServer

PAYLOAD: Final = b'{"f":"noop","a":[],"k":{}}' + b"x" * 100

ENQUEUE_ONE: Final = """
redis.call('HSET',ARGV[1]..ARGV[2],'p',ARGV[4],'s','r')
return redis.call('ZADD',KEYS[1],ARGV[3],ARGV[2])
"""
ENQUEUE_MANY: Final = """
for i=2,#ARGV,3 do
  redis.call('HSET',ARGV[1]..ARGV[i],'p',ARGV[i+2],'s','r')
  redis.call('ZADD',KEYS[1],ARGV[i+1],ARGV[i])
end
return 1
"""
CLAIM_MANY: Final = """
local z=redis.call('ZPOPMIN',KEYS[1],ARGV[2])
local o={}
local n=0
for i=1,#z,2 do
  local id=z[i]
  redis.call('ZADD',KEYS[2],ARGV[3],id)
  redis.call('HSET',ARGV[1]..id,'s','p')
  n=n+1
  o[n]=id
  n=n+1
  o[n]=redis.call('HGET',ARGV[1]..id,'p')
end
return o
"""
ACK_MANY: Final = """
for i=2,#ARGV do
  redis.call('ZREM',KEYS[1],ARGV[i])
  redis.call('DEL',ARGV[1]..ARGV[i])
end
return #ARGV-1
"""


def rate_of(call: Callable[[], Any], seconds: float, *, per_call: int = 1) -> float:
    """Jobs per second of a call that makes `per_call` of them, after a few to warm up."""
    for _ in range(20):
        call()
    burst = 50 if per_call == 1 else 2
    count, start = 0, time.perf_counter()
    while True:
        for _ in range(burst):
            call()
        count += burst
        spent = time.perf_counter() - start
        if spent >= seconds:
            return count * per_call / spent


def core_enq1(client: redis.Redis, seconds: float) -> float:
    """One call per enqueue."""
    sha, number = client.script_load(ENQUEUE_ONE), itertools.count()

    def call() -> None:
        n = next(number)
        args: list[Any] = ["ready", "j:", n, n, PAYLOAD]
        client.evalsha(sha, 1, *args)

    return rate_of(call, seconds)


def core_enq_batch100(client: redis.Redis, seconds: float) -> float:
    """A hundred jobs per call."""
    sha, number = client.script_load(ENQUEUE_MANY), itertools.count()

    def call() -> None:
        args: list[Any] = ["ready", "j:"]
        for _ in range(100):
            n = next(number)
            args += (n, n, PAYLOAD)
        client.evalsha(sha, 1, *args)

    return rate_of(call, seconds, per_call=100)


def core_claim50_ack50(client: redis.Redis, seconds: float) -> float:
    """One call claims fifty jobs, one acknowledges them."""
    _fill(client, int(110_000 * seconds) // 5000 * 5000 + 5000)
    claim, ack = client.script_load(CLAIM_MANY), client.script_load(ACK_MANY)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        rows: Any = client.evalsha(claim, 2, "ready", "proc", "j:", "50", "999")
        if not rows:
            break
        client.evalsha(ack, 1, "proc", "j:", *rows[::2])
        count += len(rows) // 2
    return count / (time.perf_counter() - start)


def _fill(client: redis.Redis, count: int) -> None:
    for first in range(0, count, 5000):
        pipe = client.pipeline(transaction=False)
        for n in range(first, first + 5000):
            pipe.hset(f"j:{n}", mapping={"p": PAYLOAD, "s": b"r"})
        pipe.zadd("ready", {str(n): n for n in range(first, first + 5000)})
        pipe.execute()


LIMITS: Final = {limit.__name__: limit for limit in (core_enq1, core_enq_batch100, core_claim50_ack50)}


def measure(name: str, server: BenchServer, seconds: float) -> float:
    """Measures a limit on an empty server with a new connection, and leaves the server empty."""
    server.empty()
    with redis.Redis.from_url(server.url) as client:
        rate = LIMITS[name](client, seconds)
    server.empty()
    return rate
