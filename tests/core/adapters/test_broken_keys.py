"""Every key and field of the other systems, broken one by one: a queue of qdeck and the other systems beside it are
shown as before, what is broken is shown or reported, and nothing is written.

The slow test tries a sample: of each field some values, two minutes of one core. `QDECK_FUZZ=all` tries all of them.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from core.adapters.test_conformance import FILL
from support.breaking import HEALTHY, Break, Image, breaks, broken, states, whole_or_sample
from support.broken_looks import is_no_crash, look

if TYPE_CHECKING:
    from collections.abc import Iterable

    import redis

    from support.broken_looks import Said

QUICK: Final = 2  # of each system, in the quick run
ONE_IN: Final = 16  # values of a field, in the slow one; each field has at least one
PARTS: Final = 2
MEMBERS: Final = 100  # of a sorted set: all that there are
LOOKS: Final = (
    ["status"], ["jobs", HEALTHY], ["dead"], ["dead", "--group"], ["stuck"], ["health"], ["doctor"], ["find", "{id}"],
    ["purge"],
)  # fmt: skip
OF_ALL: Final = ("doctor", "purge")  # what they say has no part for each queue
PASSING: Final = ("oldest_s", "stuck")
# No command needs them: at most an entry or a measure is shown with less, when such a key is of another type.
UNREAD: Final = (
    "active__", "boot__", "clone__", "lastboot", "pool__", "vm__", "tasks__clone", "tasks__ond", "req-1__",
    "rq:job:", "rq:execution", "rq:results:", "rq:queue:mail:intermediate:first_seen:", "rq:worker",
    "celery-task-meta-", "_kombu.binding.", "bull:post:", "web-1:",
)  # fmt: skip
# Of these systems a queue whose key has another type is reported by that key.
TOLD: Final = tuple(
    "bull:post:" + state
    for state in ("wait", "active", "prioritized", "delayed", "failed", "completed", "waiting-children")
)


class Shown(NamedTuple):
    """What all commands said, and the queues by system with what is shown of them."""

    said: dict[str, Said]
    rows: dict[str, dict[str, Any]]


class Server:
    """A healthy queue of qdeck, and all other systems."""

    def __init__(self, url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]) -> None:
        self.url, self.raw, self._capsys = url, raw, capsys
        self.job = states(url, raw, HEALTHY)
        self.parts: dict[str, set[bytes]] = {}
        for name, filler in FILL.items():
            before = set(raw.scan_iter(count=1000))
            filler().populate(raw)
            self.parts[name] = set(raw.scan_iter(count=1000)) - before
        self.image = Image(raw)
        self.before = self.look(FILL)

    def breaks(self, adapter: str) -> list[Break]:
        """All breaks of one system."""
        return [one for one in breaks(self.raw, members=MEMBERS) if one.key in self.parts[adapter]]

    def look(self, adapters: Iterable[str]) -> Shown:
        """What all commands say; the list of each queue of these systems is read as well."""
        said = {" ".join(words): self._say(words) for words in LOOKS}
        code, _, told = said["status"]
        assert code in (0, 1), told
        rows: dict[str, dict[str, Any]] = {name: {} for name in FILL}
        for row in json.JSONDecoder().raw_decode(told)[0]["queues"]:
            rows.setdefault(row["adapter"], {})[row["name"]] = {
                name: value for name, value in row.items() if name not in PASSING
            }
        for adapter in adapters:
            for queue in list(rows[adapter])[:3]:
                name = f"{adapter}/{queue}" if queue.startswith("-") else queue  # not taken for an option
                said[f"jobs {queue}"] = self._say(["jobs", name])
        return Shown(said, rows)

    def _say(self, words: list[str]) -> Said:
        return look(self.url, [word.format(id=self.job) for word in words], self._capsys)

    def check(self, adapter: str, one: Break) -> None:
        """One field broken: looks go on, the neighbours are as before, and what is broken is not passed over."""
        with broken(self.raw, self.image, one):
            digest = self.raw.execute_command("DEBUG", "DIGEST")
            now = self.look([adapter])
            assert self.raw.execute_command("DEBUG", "DIGEST") == digest, one
        for words, (code, said, told) in now.said.items():
            where = f"{one}: {words}: {told[-600:]}"
            assert is_no_crash(told), where
            assert code in (0, 1), where
            if words in self.before.said and words not in OF_ALL:
                assert said == self.before.said[words][1], where
        for name, rows in self.before.rows.items():
            if name != adapter:
                assert now.rows[name] == rows, f"{one}: {name}: {now.rows[name]} {rows}"
        status = now.said["status"][2]
        is_told = one.key.decode() in status
        if one.value.startswith("type ") and adapter not in ("lists", "streams"):  # none of theirs then
            name = one.key.removeprefix(b"vmpooler__").decode()
            is_told = is_told or json.dumps(name)[1:-1] in status or (name.startswith(UNREAD) and name not in TOLD)
            assert is_told or (one.value == "type zset" and one.key == b"vmpooler__dlq__tasks"), f"{one}: {status}"
        else:
            assert is_told or now.rows[adapter], f"{one}: {status}"


@pytest.fixture
def server(url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]) -> Server:
    return Server(url, raw, capsys)


@pytest.mark.parametrize("adapter", FILL)
def test_a_broken_key_of_another_system_stops_nothing_beside_it(server: Server, adapter: str) -> None:
    for one in random.Random(7).sample(server.breaks(adapter), QUICK):
        server.check(adapter, one)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("adapter", FILL)
def test_every_broken_key_of_another_system_stops_nothing_beside_it(server: Server, adapter: str, part: int) -> None:
    for one in whole_or_sample(server.breaks(adapter), ONE_IN)[part::PARTS]:
        server.check(adapter, one)


@pytest.mark.parametrize("key", ["vmpooler__dlq__tasks", "vmpooler__odrequest__over"])
def test_a_key_of_vmpooler_that_is_of_another_type_is_named(server: Server, key: str) -> None:
    for one in server.breaks("vmpooler"):
        if one.key == key.encode() and one.value == "type list":
            server.check("vmpooler", one)
