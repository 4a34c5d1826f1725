"""Where the commands of a request go, without a server: what each answer of a cluster leads to."""

from __future__ import annotations

import time
from typing import Any

import pytest
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    ReadOnlyError,
    TryAgainError,
)

from qdeck import OutcomeUnknown, ServerUnreachable
from qdeck._redis import Endpoint
from qdeck._redis.address import Node
from qdeck._redis.cluster import ClusterRoutes
from qdeck._redis.commands import Command, Request, pack
from qdeck._redis.keyless_commands import KeylessScope, place_of
from qdeck._redis.retries import RetryTimer
from qdeck._redis.routes import LostExchange, SentinelRoutes


def commands(*given: Command, key: bytes = b"") -> Request:
    return Request(given, key)


A, B, C = Node("a", 1), Node("b", 2), Node("c", 3)
SLOTS = [[0, 5460, [b"a", 1]], [5461, 10922, [b"b", 2]], [10923, 16383, [b"c", 3]]]
ON_A, ON_B, ON_C = b"{b}:x", b"{c}:x", b"{a}:x"


def test_the_keys_are_where_the_slots_say() -> None:
    assert [key_slot(key) // 5461 for key in (ON_A, ON_B, ON_C)] == [0, 1, 2]


class Net:
    """A cluster made of answers: each command's own words, or what is put into `said` for them, first in first out."""

    def __init__(self, *, patience: float = 5.0) -> None:
        self.endpoint = Endpoint("redis+cluster://a:1,b:2")
        self.routes = ClusterRoutes(self.endpoint)
        self.patience = patience
        self.said: dict[tuple[Node, bytes], list[Any]] = {}
        self.rounds: list[list[tuple[Node, list[bytes]]]] = []
        self.waited: list[float] = []

    def send(self, request: Request) -> list[Any]:
        retries = RetryTimer(self.endpoint, self.patience, was_connected=True)
        steps = self.routes.exchange(request, retries)
        came: Any = None
        try:
            while True:
                wish = steps.send(came)
                if isinstance(wish, float):
                    self.waited.append(wish)
                    came = None
                    continue
                names = [[b" ".join(_words(pack([one]))) for one in exchange.request.commands] for exchange in wish]
                if names != [[b"CLUSTER SLOTS"]]:
                    self.rounds.append([(exchange.node, said) for exchange, said in zip(wish, names, strict=True)])
                came = [self._answer(exchange.node, said) for exchange, said in zip(wish, names, strict=True)]
        except StopIteration as stop:
            replies: list[Any] = stop.value
            return replies

    def _answer(self, node: Node, said: list[bytes]) -> list[Any] | LostExchange:
        replies: list[Any] = []
        for words in said:
            queue = self.said.get((node, words), [])
            reply = queue.pop(0) if queue else (SLOTS if words == b"CLUSTER SLOTS" else words)
            if isinstance(reply, LostExchange):
                return reply
            replies.append(reply)
        return replies


def _words(data: bytes) -> list[bytes]:
    return data.split(b"\r\n")[2::2]


def test_reads_go_to_all_servers_at_once_and_come_back_in_order() -> None:
    net = Net()
    asked = [(b"GET", ON_B), (b"GET", ON_A), (b"TIME",), (b"GET", ON_C), (b"HGET", ON_A, b"f")]
    assert net.send(commands(*asked)) == [b" ".join(words) for words in asked]
    assert len(net.rounds) == 1
    assert {node for node, _ in net.rounds[0]} == {A, B, C}


def test_writes_with_a_key_keep_their_order() -> None:
    net = Net()
    net.send(commands((b"SET", ON_A), (b"INCR", ON_A), (b"SET", ON_B), (b"DEL", ON_A), key=ON_A))
    assert [[(node, len(said)) for node, said in exchanges] for exchanges in net.rounds] == [
        [(A, 2)],
        [(B, 1)],
        [(A, 1)],
    ]


def test_writes_without_a_key_have_no_order_to_keep() -> None:
    net = Net()
    net.send(commands((b"SET", ON_A), (b"SET", ON_B), (b"DEL", ON_A)))
    assert len(net.rounds) == 1


def test_what_moved_alone_is_sent_on() -> None:
    net = Net()
    net.said[A, b"GET {b}:x"] = [MovedError(f"{key_slot(ON_A)} c:3")]
    assert net.send(commands((b"GET", ON_A), (b"GET", ON_B))) == [b"GET {b}:x", b"GET {c}:x"]
    assert net.rounds[1] == [(C, [b"GET {b}:x"])]
    assert not net.waited
    net.send(commands((b"GET", ON_A)))
    assert net.rounds[2][0][0] == C  # it is remembered, until the slots are asked for again


def test_a_slot_on_its_way_is_asked_for_at_its_new_place_once() -> None:
    net = Net()
    net.said[A, b"SET {b}:x"] = [AskError(f"{key_slot(ON_A)} c:3")]
    assert net.send(commands((b"SET", ON_A), key=ON_A)) == [b"SET {b}:x"]
    assert net.rounds[1] == [(C, [b"ASKING", b"SET {b}:x"])]
    net.send(commands((b"SET", ON_A), key=ON_A))
    assert net.rounds[2] == [(A, [b"SET {b}:x"])]


@pytest.mark.parametrize("error", [MovedError, AskError])
def test_servers_that_send_on_and_on_are_asked_ever_more_slowly(error: type[AskError]) -> None:
    net = Net(patience=0.0)
    sent_on = error(f"{key_slot(ON_A)} c:3")
    for node in (A, C):
        net.said[node, b"SET {b}:x"] = [sent_on] * 50
    assert net.send(commands((b"SET", ON_A), key=ON_A)) == [sent_on]
    assert len(net.rounds) < 20


def test_a_server_without_a_name_is_the_one_that_was_asked() -> None:
    net = Net()
    net.said[A, b"GET {b}:x"] = [MovedError(f"{key_slot(ON_A)} :9")]
    net.send(commands((b"GET", ON_A)))
    assert net.rounds[1][0][0] == Node("a", 9)


@pytest.mark.parametrize("error", [TryAgainError("no"), ClusterDownError("down")])
def test_what_is_too_early_is_sent_again_after_a_while(error: Exception) -> None:
    net = Net()
    net.said[A, b"SET {b}:x"] = [error, error]
    assert net.send(commands((b"SET", ON_A), key=ON_A)) == [b"SET {b}:x"]
    assert len(net.waited) == 2


def test_after_patience_the_program_reads_what_the_server_said() -> None:
    net = Net(patience=0.0)
    error = ClusterDownError("down")
    net.said[A, b"SET {b}:x"] = [error]
    assert net.send(commands((b"SET", ON_A), key=ON_A)) == [error]


def test_what_was_lost_on_the_way_is_sent_again_and_nothing_else() -> None:
    net = Net()
    net.said[A, b"SET {b}:x"] = [LostExchange(ConnectionResetError(), sent=True)]
    assert net.send(commands((b"SET", ON_A), (b"SET", ON_B))) == [b"SET {b}:x", b"SET {c}:x"]
    assert net.rounds[1] == [(A, [b"SET {b}:x"])]


@pytest.mark.parametrize(("name", "error"), [(b"GET", ServerUnreachable), (b"SET", OutcomeUnknown)])
def test_a_server_that_stays_away(name: bytes, error: type[Exception]) -> None:
    net = Net(patience=0.0)
    net.said[A, name + b" {b}:x"] = [LostExchange(ConnectionResetError(), sent=True)]
    with pytest.raises(error):
        net.send(commands((name, ON_A)))


def test_scripts_are_loaded_everywhere_also_where_the_first_slot_is_on_its_way() -> None:
    net = Net()
    net.said[A, b"SET {b}:x"] = [AskError(f"{key_slot(ON_A)} d:4")]
    net.send(commands((b"SET", ON_A), key=ON_A))
    net.send(commands((b"SCRIPT", b"LOAD", b"return"), key=ON_A))
    assert {node for node, _ in net.rounds[-1]} == {A, B, C, Node("d", 4)}


def test_a_walk_through_the_keys_goes_from_server_to_server() -> None:
    net = Net()
    for node, cursors in ((A, [b"5", b"0"]), (B, [b"0"]), (C, [b"9", b"0"])):
        for given, cursor in zip([b"0", *cursors], cursors, strict=False):
            net.said[node, b"SCAN " + given] = [[cursor, [str(node).encode()]]]
    cursor, found = b"0", []
    for _ in range(5):
        [(cursor, names)] = net.send(commands((b"SCAN", cursor)))
        found += names
    assert found == [b"a:1", b"a:1", b"b:2", b"c:3", b"c:3"]
    assert cursor == b"0"


def test_a_walk_goes_on_where_a_server_left() -> None:
    net = Net()
    net.said[B, b"SCAN 0"] = [[b"0", [b"b"]]]
    [(cursor, found)] = net.send(commands((b"SCAN", b"aa:9/77")))
    assert (cursor, found) == (b"c:3/0", [b"b"])


def test_amounts_of_all_servers_are_added_and_the_worst_is_told() -> None:
    net = Net()
    say = b"redis_mode:cluster\r\nused_memory:%d\r\nmaxmemory:%d\r\nmaxmemory_policy:%b\r\nloading:%d"
    for node, policy, loading in ((A, b"noeviction", 0), (B, b"allkeys-lru", 1), (C, b"noeviction", 0)):
        net.said[node, b"INFO"] = [say % (10, 100, policy, loading)]
    [info] = net.send(commands((b"INFO",)))
    assert set(info.split(b"\r\n")) == {
        b"redis_mode:cluster", b"used_memory:30", b"maxmemory:300", b"maxmemory_policy:allkeys-lru", b"loading:1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("call", "place"),
    [
        ((b"EVALSHA", b"d", 2, ON_A, b"{b}:y", b"arg"), key_slot(ON_A)),
        ((b"eval", b"return 1", 0), KeylessScope.HOME),
        ((b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", ON_B, b">"), key_slot(ON_B)),
        ((b"XINFO", b"STREAM", ON_C), key_slot(ON_C)),
        ((b"MEMORY", b"USAGE", ON_C), key_slot(ON_C)),
        ((b"PING",), KeylessScope.HOME),
        ((b"INFO",), KeylessScope.ALL),
    ],
)
def test_where_the_key_of_a_command_is(call: tuple[Any, ...], place: object) -> None:
    assert place_of(call) == place


class Watch:
    """A master under Sentinels, made of answers: who the Sentinel names, and what each server replies."""

    def __init__(self, named: list[Node], replies: dict[Node, list[Any]]) -> None:
        self.endpoint = Endpoint("redis+sentinel://s:26379/main")
        self.routes = SentinelRoutes(self.endpoint)
        self.named = named
        self.replies = replies
        self.asked: list[Node] = []

    def send(self, request: Request, *, patience: float = 5.0) -> list[Any]:
        steps = self.routes.exchange(request, RetryTimer(self.endpoint, patience, was_connected=True))
        came: Any = None
        try:
            while True:
                wish = steps.send(came)
                if isinstance(wish, float):
                    time.sleep(wish)
                    came = None
                else:
                    came = [[self._reply(wish[0].node)]]
        except StopIteration as stop:
            replies: list[Any] = stop.value
            return replies

    def _reply(self, node: Node | None) -> Any:
        assert node is not None
        if node.port == 26379:
            master = self.named.pop(0) if len(self.named) > 1 else self.named[0]
            return [master.host.encode(), str(master.port).encode()]
        self.asked.append(node)
        return self.replies[node].pop(0)


@pytest.mark.parametrize("refusal", [ReadOnlyError("READONLY no"), MasterDownError("MASTERDOWN no")])
@pytest.mark.parametrize("name", [b"GET", b"SET"])
def test_a_request_that_a_former_master_refuses_goes_to_the_new_one(refusal: Exception, name: bytes) -> None:
    """Its connection outlived the change of roles: nothing was written there, so the same request may be sent again."""
    watch = Watch([A, B], {A: [b"1", refusal], B: [b"2"]})
    step = commands((name, b"x", b"1"))
    assert watch.send(step) == [b"1"]
    assert watch.send(step) == [b"2"]
    assert watch.asked == [A, A, B]


def test_a_refusal_is_returned_when_no_other_master_appears_in_time() -> None:
    watch = Watch([A], {A: [ReadOnlyError("READONLY no")] * 1000})
    [reply] = watch.send(commands((b"SET", b"x", b"1")), patience=0.2)
    assert isinstance(reply, ReadOnlyError)
    assert len(watch.asked) > 2, "it was tried again until the time was over"
