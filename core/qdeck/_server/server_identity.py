"""Identity of a server, whatever its address: the second check that a server to write to is not production.

A tunnel, a forwarded port, a Sentinel's master or a node of a cluster leads to production under an address that no
configuration names. Such a server can still be recognised: by the run of its process, its replication, its cluster.
"""

from __future__ import annotations

import shlex
import threading
import time
from typing import TYPE_CHECKING, Final

from qdeck._errors import NotAllowed, QdeckError
from qdeck._redis import Endpoint, SyncClient
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import ReplyCode, code_of, good, is_error
from qdeck._server.server_info import info_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program
    from qdeck._settings import Target

PROBE_S: Final = 1.0  # for all servers of production together
_FIELDS: Final = ("run_id", "master_replid")


def read_identity() -> Program[frozenset[str]]:
    """Return what identifies this server, as far as it may be read; replicas and cluster nodes share some of it."""
    replies = yield with_errors((b"INFO", b"server"), (b"INFO", b"replication"), (b"CLUSTER", b"NODES"))
    *infos, nodes = replies
    for info in infos:
        if is_error(info) and code_of(info) is ReplyCode.BUSY:
            good(info)  # it will answer later: do not continue without its answer
    found = {f"{name} {value}" for info in infos for name, value in info_fields(info).items() if name in _FIELDS}
    if isinstance(nodes, bytes):
        found |= {f"node {line.split()[0]}" for line in nodes.decode("utf-8", "replace").splitlines() if line.strip()}
    return frozenset(found)


def check(endpoint: Endpoint, production: Sequence[Target]) -> None:
    """Raise `NotAllowed` when the server is production; one that cannot be reached is not compared."""
    rivals = [target for target in production if _db(target.url) == endpoint.db]
    if not rivals:
        return
    # First, because a server that was unreachable for a moment, and may be production, answers both later.
    own = _identify(endpoint, patience=PROBE_S)
    known: dict[int, frozenset[str]] = {}

    def probe(at: int) -> None:
        try:
            known[at] = _identify(Endpoint(rivals[at].url, timeout=PROBE_S), patience=0)
        except (QdeckError, OSError):
            return

    threads = [threading.Thread(target=probe, args=(at,), daemon=True) for at in range(len(rivals))]
    until = time.monotonic() + PROBE_S
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    for at, target in enumerate(rivals):
        if own & known.get(at, frozenset()):
            name = shlex.quote(str(target.name))  # as it can be pasted
            raise NotAllowed(
                f"{endpoint} is the server of the production context {target.name!r}, and this command writes",
                hint=f"To write there, use --context {name} --confirm {name}",
            )


def _identify(endpoint: Endpoint, *, patience: float) -> frozenset[str]:
    client = SyncClient(endpoint, patience=patience)
    try:
        return client.run(read_identity())
    finally:
        client.close()


def _db(url: str) -> int | None:
    try:
        return Endpoint(url).db
    except QdeckError:
        return None  # no connection can be made to it
