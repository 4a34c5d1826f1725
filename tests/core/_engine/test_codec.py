"""What is written comes back, whatever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdeck import PayloadNotSerializable, PayloadTooLarge
from qdeck._engine import codec

if TYPE_CHECKING:
    from core._engine.harness import Rig

# What the app lets through: a name of a task is an identifier with dots, a tag has no comma, no text has a line break.
_line = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), min_size=1, max_size=30)
_word = st.from_regex(r"[a-z_][a-z0-9_.]{0,20}", fullmatch=True)
_ms = st.integers(0, 10**15 - 1)
_heads = st.builds(
    codec.JobHead,
    enqueued_ms=_ms,
    priority=st.integers(0, 899),
    retries=st.integers(0, 10_000),
    task=_word,
    name=st.none() | _line,
    unique=st.booleans(),
    tags=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r,"), min_size=1), max_size=4).map(tuple),
    expires_ms=st.none() | _ms,
    lease_ms=st.none() | _ms,
    limit_ms=st.none() | _ms,
    backoff=st.none() | st.sampled_from(("F 10 20", "E 1 2")),
    on_failure=st.none() | st.sampled_from(("mend", "mend shop:other:actions")),
    run_anyway=st.booleans(),
    keep_ms=st.none() | _ms,
    origin=st.none() | _word,
)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_heads)
def test_heads_round_trip(head: codec.JobHead) -> None:
    raw = f"{head.enqueued_ms} {head.template()}".encode()
    assert codec.read_head(raw) == head


def test_a_head_of_a_newer_version_is_read() -> None:
    head = codec.read_head(b"1 2 3 task\nzwhat is this\nnname\n\nqmore")
    assert (head.task, head.name, head.priority, head.retries) == ("task", "name", 2, 3)


def test_an_expiry_after_the_enqueueing() -> None:
    template = codec.JobHead(enqueued_ms=0, priority=1, retries=0, task="t", expires_after_ms=50).template()
    assert codec.read_head(f"1000 {template}".encode()).expires_ms == 1_050


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_tries_round_trip(attempts: int, crashes: int, outages: int) -> None:
    raw = f"{attempts} {crashes} {outages}".encode()
    assert codec.read_attempts(raw) == codec.Attempts(attempts, crashes, outages)


def test_no_tries() -> None:
    assert codec.read_attempts(None) == codec.read_attempts(b"") == codec.Attempts(0, 0, 0)


@pytest.mark.parametrize(
    ("flags", "warned", "asked"), [("", False, False), (" ?", True, False), (" c", False, True), (" ?c", True, True)]
)
def test_leases(flags: str, warned: bool, asked: bool) -> None:
    lease = codec.read_lease(f"host:42:ab:17 1800000000000 30000 1001800000000000{flags}".encode())
    assert (lease.worker, lease.token) == ("host:42:ab", "host:42:ab:17")
    assert (lease.claimed_ms, lease.lease_ms, lease.ready_ms) == (1_800_000_000_000, 30_000, 1_800_000_000_000)
    assert (lease.expired_once, lease.cancel_requested) == (warned, asked)


@given(st.lists(st.tuples(_ms, _word, st.dictionaries(st.text(), _json, max_size=3)), max_size=5))
def test_events_round_trip(events: list[tuple[int, str, dict[str, Any]]]) -> None:
    raw = b"\n".join(b"%d %s %s" % (at, kind.encode(), codec.encode_json(data)) for at, kind, data in events)
    assert codec.read_events(raw) == [codec.Event(at, kind, data) for at, kind, data in events]


@given(st.binary(max_size=300))
def test_any_bytes_are_read_as_events(raw: bytes) -> None:
    """A foreign or torn history is shown, never fatal."""
    for event in codec.read_events(raw):
        assert isinstance(event.data, dict)


@given(st.lists(st.binary(max_size=50), max_size=6))
def test_netstrings_round_trip(parts: list[bytes]) -> None:
    raw = b"".join(b"%d:%s," % (len(part), part) for part in parts)
    assert codec.read_netstrings(raw) == parts


@given(st.lists(_json, max_size=4), st.dictionaries(st.text(), _json, max_size=3))
def test_calls_round_trip(args: list[Any], kwargs: dict[str, Any]) -> None:
    assert codec.decode_call(codec.encode_call("t", tuple(args), kwargs)) == (args, kwargs)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_call_or_a_value_error(raw: bytes) -> None:
    try:
        args, kwargs = codec.decode_call(raw)
    except ValueError:
        return
    assert isinstance(args, list)
    assert isinstance(kwargs, dict)


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"[]", b"[1]", b"[[],{},1]", b"[{},[]]", b"null", b'["ab",{}]', b"[[],[]]"]
)
def test_json_that_is_no_call(raw: bytes) -> None:
    with pytest.raises(ValueError, match="not a call"):
        codec.decode_call(raw)


def _loop() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    "value",
    [
        object(),
        lambda: None,
        float("nan"),
        float("inf"),
        b"raw",
        {1j: 2},
        _loop(),
        b"\xff".decode("utf-8", "surrogateescape"),
    ],
)
def test_what_json_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises(PayloadNotSerializable, match="'mail'") as caught:
        codec.encode_call("mail", (value,), {})
    assert caught.value.hint


def test_a_payload_over_the_limit_is_refused() -> None:
    assert len(codec.encode_call("mail", ("x" * 91,), {}, limit=100)) <= 100
    with pytest.raises(PayloadTooLarge, match=r"'mail'.* 1,0.* 100") as caught:
        codec.encode_call("mail", ("x" * 1_000,), {}, limit=100)
    assert caught.value.hint


@given(body=st.binary(max_size=200), log=st.binary(max_size=50), result=st.binary(max_size=50))
def test_payloads_are_opaque_to_the_server(rig_once: Rig, body: bytes, log: bytes, result: bytes) -> None:
    rig = rig_once
    job_id = rig.add(body=body, retries=1)
    job = rig.claim_one()
    assert job.body == body
    rig.end(job, delay_ms=0, log=log)
    again = rig.claim_one()
    assert again.body == body
    rig.end(again, "done", result=result)
    hashes = rig.picture().hashes
    assert hashes["log"].get(job_id, b"") == log
    assert hashes["result"].get(job_id, b"") == result


@pytest.fixture(scope="module")
def rig_once(request: pytest.FixtureRequest) -> Any:
    """A rig for all examples of a property; each makes a job of its own."""
    from core._engine.harness import Rig

    server = request.getfixturevalue("shared_server")
    with server.client() as raw:
        raw.flushall()
        rig = Rig(server.url, raw)
        yield rig
        rig.client.close()
