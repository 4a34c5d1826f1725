"""The API: who may ask, what it answers, and what it never tells."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections import Counter
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from characterisation.seed import fill
from characterisation.seed_native import MAIL
from qdeck import InvalidOption
from qdeck._agent.api_server import MAX_CONNECTIONS
from qdeck._agent.options import AgentOptions, ListenAddress
from qdeck._settings import Purge
from qdeck.admin import AsyncReader, Settings
from qdeck_console.__main__ import main
from support.agents import QUEUE, TOKEN, bury, claim, make_jobs, running
from support.documents import HOUR_S, action, ago, failed_task, iso, machine_letter, scheduler_letter

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck._redis import SyncClient
    from support.servers import Server

HEALTH, DLQ, PURGE = "/api/v1/queue/health", "/api/v1/queue/dlq", "/api/v1/queue/purge"
OLD = Settings(purge=Purge(max_ready_age=0, max_completed_age=0))


@pytest.mark.parametrize("path", [HEALTH, DLQ])
@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", TOKEN[:-1], "\u00e9" * 20])
async def test_without_the_token_nothing_is_told(
    run_agent: Callable[..., Any], client: SyncClient, path: str, token: str | None
) -> None:
    make_jobs(client, 1)
    async with run_agent() as agent:
        answer = await agent.ask(path, token=token)
        assert answer.code == 401
        assert answer.json["error"] == "unauthorized"
        assert "X-AUTH-TOKEN" in answer.json["hint"]
        assert answer.headers["www-authenticate"] == "Bearer"
        assert QUEUE not in answer.text


async def test_the_token_in_either_header(run_agent: Callable[..., Any]) -> None:
    async with run_agent() as agent:
        assert (await agent.ask(HEALTH)).code == 200
        for scheme in ("Bearer", "bearer"):
            answer = await agent.ask(HEALTH, token=None, headers={"Authorization": f"{scheme} {TOKEN}"})
            assert answer.code == 200
        assert (await agent.ask(HEALTH, token=None, headers={"Authorization": f"Basic {TOKEN}"})).code == 401
        assert (await agent.ask(f"{HEALTH}?token={TOKEN}", token=None)).code == 401


async def test_without_a_token_of_its_own_the_agent_answers_nobody(run_agent: Callable[..., Any]) -> None:
    async with run_agent(token=None) as agent:
        for token in ("", "x" * 20, None):
            answer = await agent.ask(HEALTH, token=token)
            assert answer.code == 403
            assert "QDECK_HTTP_TOKEN" in answer.json["hint"]
        assert (await agent.ask("/metrics", token=None)).code == 200
        assert [told for told in agent.events if told["event"] == "degraded"]


def test_a_short_token_is_refused() -> None:
    with pytest.raises(InvalidOption, match="only 5 characters"):
        AgentOptions(token="short")


async def test_health_is_the_report_of_the_command(
    run_agent: Callable[..., Any], client: SyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    """GET /api/v1/queue/health 'returns: Health metrics JSON', that of `qdeck health --json`"""
    make_jobs(client, 3)
    bury(client, claim(client))
    async with run_agent() as agent:
        answer = await agent.ask(HEALTH)
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        found = answer.json
        await asyncio.to_thread(main, ["health", "--json", "--url", agent.agent.endpoint.url])
        told = json.loads(capsys.readouterr().out)
    assert found["queues"]["ready"][f"native/{QUEUE}"]["size"] == 2
    assert found["errors"]["dlq_size"] == 1

    def names(value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        # Rates are null until an agent has sampled twice, which may come between the two.
        return {key: None if key == "processing_rate" else names(item) for key, item in value.items()}

    assert names(found) == names(told)
    assert [check["name"] for check in found["checks"]] == [check["name"] for check in told["checks"]]


async def test_dead_letters_of_queues_of_one_name(run_agent: Callable[..., Any], raw: redis.Redis) -> None:
    """Each is given with its adapter, and a bare name is refused with the choices."""
    fill(raw, ("native", "lists"))
    async with run_agent(adapters=("native", "lists")) as agent:
        every = (await agent.ask(DLQ)).json
        refused = await agent.ask(f"{DLQ}?queue={MAIL}")
        found = {adapter: (await agent.ask(f"{DLQ}?queue={adapter}/{MAIL}")).json for adapter in ("native", "lists")}
    counts = Counter(entry["adapter"] for entry in every["entries"])
    assert counts["lists"] == found["lists"]["total"] == 4
    assert counts["native"] in {4, 5}, "the agent may have trimmed the oldest"
    assert refused.code == 400
    assert refused.json["hint"] == f"Write native/{MAIL} or lists/{MAIL}."
    for adapter, one in found.items():
        assert one["total"] == len(one["entries"]) > 0
        assert {entry["adapter"] for entry in one["entries"]} == {adapter}


async def test_dead_letters_newest_first_over_all_systems(run_agent: Callable[..., Any], raw: redis.Redis) -> None:
    """The hash of IFDB and a list have no order of their own."""
    for hours in (16, 5, 25):
        failed_task(raw, f"CloneUrl({hours})", hours * HOUR_S)
        scheduler_letter(raw, f"job-{hours}", hours * HOUR_S + 60)
    action(raw, "nooble4:dev:management:actions:dead_letter", "m1", failed_at=iso(ago(6 * HOUR_S)))
    machine_letter(raw, "clone", "vm1", "centos-7", 20 * HOUR_S)
    async with run_agent() as agent:
        every = (await agent.ask(DLQ)).json["entries"]
        some = (await agent.ask(f"{DLQ}?limit=3")).json["entries"]
        by_key = (await agent.ask(f"{DLQ}?queue=scheduler:queue:dlq")).json["entries"]
    wanted = ["CloneUrl(5)", "job-5", "m1", "CloneUrl(16)", "job-16", "vm1", "CloneUrl(25)", "job-25"]
    assert [entry["name"] or entry["id"] for entry in every] == wanted
    assert [entry["name"] or entry["id"] for entry in some] == wanted[:3]
    assert [entry["id"] for entry in by_key] == ["job-5", "job-16", "job-25"]


async def test_dead_letters_newest_first_over_all_queues(run_agent: Callable[..., Any], client: SyncClient) -> None:
    queues = [f"demo:q{n}:actions" for n in range(4)]
    for turn in range(3):
        for queue in queues:
            make_jobs(client, 1, queue=queue, body=b'[[1],{"password":"hunter2"}]')
            bury(client, claim(client, queue=queue), queue=queue, message=f"at {turn} redis://u:hunter2@h/0")
            await asyncio.sleep(0.002)
    async with run_agent() as agent:
        every = (await agent.ask(DLQ)).json
        some = (await agent.ask(f"{DLQ}?limit=5")).json
        one = (await agent.ask(f"{DLQ}?queue={queues[2]}&limit=2")).json
        text = (await agent.ask(DLQ)).text
    assert (every["total"], len(every["entries"])) == (12, 12)
    assert [entry["failed_at"] for entry in every["entries"]] == sorted(
        (entry["failed_at"] for entry in every["entries"]), reverse=True
    )
    assert [entry["id"] for entry in some["entries"]] == [entry["id"] for entry in every["entries"][:5]]
    assert (one["total"], [entry["queue"] for entry in one["entries"]]) == (3, [queues[2]] * 2)
    assert "hunter2" not in text
    letter = one["entries"][0]
    names = {"id", "adapter", "queue", "queue_from", "error_class", "error_message", "failed_at", "attempts", "payload"}
    assert set(letter) >= names | {"retry_count"}
    assert (letter["error_class"], letter["attempts"], letter["retry_count"]) == ("Boom", 1, 0)
    assert letter["payload"] == [[1], {"password": "***"}]


@pytest.mark.parametrize(
    ("path", "method", "code", "words"),
    [
        (f"{DLQ}?queue=demo:mial:actions", "GET", 404, "Did you mean 'demo:mail:actions'"),
        (f"{DLQ}?limit=0", "GET", 400, "1 to 1,000"),
        (f"{DLQ}?limit=1e3", "GET", 400, "1 to 1,000"),
        (f"{DLQ}?limit={'9' * 500}", "GET", 400, "1 to 1,000"),
        (f"{DLQ}?limit=000000000001{'9' * 50}", "GET", 400, "1 to 1,000"),
        (f"{DLQ}?lmit=3", "GET", 400, "limit, queue"),
        (DLQ, "POST", 405, "POST is not allowed for"),
        (PURGE, "GET", 405, "GET is not allowed for"),
        (f"{PURGE}?dry_run=perhaps", "POST", 400, "neither true nor false"),
        (PURGE, "POST", 403, "allow_purge"),
        (f"{PURGE}?dry_run=false", "POST", 403, "allow_purge"),
        (f"{DLQ}?limit=1&limit=2", "GET", 400, "is given twice"),
        (f"{DLQ}/", "GET", 404, "unknown path"),  # no redirect: it would go to the host that the caller named
        ("/api/v1/queue", "GET", 404, "unknown path"),
        ("/", "GET", 404, "/healthz"),
    ],
)
async def test_errors_are_json_with_a_remedy(
    run_agent: Callable[..., Any], client: SyncClient, path: str, method: str, code: int, words: str
) -> None:
    make_jobs(client, 1)
    async with run_agent() as agent:
        answer = await agent.ask(path, method)
    assert answer.code == code
    assert set(answer.json) == {"error", "message", "hint"}
    assert words in answer.json["message"] + answer.json["hint"]


async def test_a_dry_run_tells_what_a_purge_would_do_and_writes_nothing(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    """POST /api/v1/queue/purge?dry_run=true 'Returns: Purge simulation results'"""
    make_jobs(client, 5)
    await asyncio.sleep(0.01)
    async with run_agent(settings=OLD, history_every=None, maintain_every=3600) as agent:
        await agent.until(lambda: raw.hget("qdeck:agent:{qdeck:maintain}", "runs"))
        before = {key: raw.dump(key) for key in raw.scan_iter()}
        answer = await agent.ask(f"{PURGE}?dry_run=true", "POST")
        assert {key: raw.dump(key) for key in raw.scan_iter()} == before
        cut = (await agent.ask(f"{PURGE}?dry_run=true&limit=2", "POST")).json
    found = answer.json
    assert answer.code == 200
    assert found["counts"] == {"ready_too_old": 5}
    assert len(found["entries"]) == 5
    assert set(found["entries"][0]) >= {"adapter", "queue", "id", "rule", "reason", "age_s", "verb"}
    assert (len(cut["entries"]), cut["more"]) == (2, 3)


async def test_a_purge_that_is_allowed_is_done_and_counted(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    make_jobs(client, 5)
    await asyncio.sleep(0.01)
    async with run_agent(settings=OLD, allow_purge=True) as agent:
        found = (await agent.ask(PURGE, "POST")).json
        again = (await agent.ask(PURGE, "POST")).json
        metrics = (await agent.ask("/metrics")).text
        [logged, *_] = [told for told in agent.events if told["event"] == "purged"]
    assert (logged["applied"], logged["batch"]) == (5, found["batch"])
    assert (found["applied"], found["skipped"]) == (5, [])
    assert found["batch"]
    assert found["undo_until"]
    assert again["applied"] in (0, 5), "cancelled jobs are old at once, too, when the threshold is 0"
    assert raw.zcard(f"{{{QUEUE}}}:ready") == 0
    assert "qdeck_purge_ready_count 5.0" in metrics


@pytest.mark.parametrize(
    ("query", "body", "words"),
    [
        ("?dry_run=true&dry_run=false", None, "is given twice"),
        ("?dry_run=false&dry_run=true", None, "is given twice"),
        ("?limit=1", None, "limit works only with dry_run=true"),
        ("", b"dry_run=true", "has a body"),
        ("", b'{"dry_run": true}', "has a body"),
    ],
)
async def test_a_request_that_could_mean_a_dry_run_purges_nothing(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis, query: str, body: bytes | None, words: str
) -> None:
    make_jobs(client, 2)
    await asyncio.sleep(0.01)
    async with run_agent(settings=OLD, allow_purge=True) as agent:
        answer = await agent.ask(PURGE + query, "POST", body=body)
    assert answer.code == 400, answer.text
    assert words in answer.json["message"]
    assert raw.zcard(f"{{{QUEUE}}}:ready") == 2


async def test_a_read_only_context_purges_nothing(run_agent: Callable[..., Any], client: SyncClient) -> None:
    make_jobs(client, 2)
    async with run_agent(settings=OLD, allow_purge=True, read_only=True) as agent:
        assert (await agent.ask(PURGE, "POST")).code == 403
        assert (await agent.ask(f"{PURGE}?dry_run=1", "POST")).json["counts"] == {"ready_too_old": 2}


async def test_healthz_needs_no_token_and_tells_nothing(run_agent: Callable[..., Any], client: SyncClient) -> None:
    make_jobs(client, 1)
    async with run_agent() as agent:
        answer = await agent.ask("/healthz", token=None)
    assert (answer.code, answer.json) == (200, {"status": "ok"})


async def test_a_lost_server_is_told_without_its_address(make_server: Callable[..., Server]) -> None:
    server = make_server(password="hunter2")
    async with running(server.url) as agent:
        server.kill9()
        answers = [
            await agent.ask(path, method) for path, method in (("/healthz", "GET"), (HEALTH, "GET"), (DLQ, "GET"))
        ]
        answers.append(await agent.ask("/metrics"))
        answers.append(await agent.ask(f"{PURGE}?dry_run=true", "POST"))
        assert [answer.code for answer in answers] == [503] * 5
        assert "127.0.0.1" not in answers[0].text
        for answer in answers:
            assert "hunter2" not in answer.text
            assert TOKEN not in answer.text
        server.relaunch()
        async with asyncio.timeout(20):
            while (await agent.ask("/healthz")).code != 200:  # noqa: ASYNC110 - another process has no event for us
                await asyncio.sleep(0.1)


async def test_a_fault_is_told_to_the_log_and_not_to_the_caller(
    run_agent: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("with a detail")

    monkeypatch.setattr("qdeck._agent.dead_letters.dead_letters", broken)
    async with run_agent() as agent:
        answer = await agent.ask(DLQ)
        assert (answer.code, "detail" in answer.text) == (500, False)
        assert any("with a detail" in told.get("error", "") for told in agent.events)


async def test_many_at_once_make_one_report(run_agent: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    report = AsyncReader.health

    async def counted(reader: AsyncReader, *args: Any) -> Any:
        nonlocal made
        made += 1
        await asyncio.sleep(0.2)
        return await report(reader, *args)

    monkeypatch.setattr(AsyncReader, "health", counted)
    async with run_agent() as agent:
        answers = await asyncio.gather(*(agent.ask(HEALTH) for _ in range(8)))
    assert {answer.code for answer in answers} == {200}
    assert made == 1


def test_addresses() -> None:
    assert ListenAddress.parse("127.0.0.1:9180") == ListenAddress(host="127.0.0.1", port=9180)
    assert ListenAddress.parse("[::1]:80") == ListenAddress(host="::1", port=80)
    assert ListenAddress.parse(":9180") == ListenAddress.parse("9180") == ListenAddress(host="127.0.0.1", port=9180)
    assert ListenAddress.parse("0.0.0.0:1").is_loopback is False
    for wrong in ("localhost", "::1", "a:b", "1.2.3.4:99999", "", "h:-1"):
        with pytest.raises(InvalidOption):
            ListenAddress.parse(wrong)


async def test_a_port_in_use_is_told(url: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidOption, match="cannot listen"):
            async with running(url, http=ListenAddress(port=port)):
                pass


async def test_metrics_beyond_this_machine_need_the_token(run_agent: Callable[..., Any]) -> None:
    async with run_agent(http=ListenAddress(host="0.0.0.0", port=0)) as agent:  # noqa: S104 - that is what is tested
        assert (await agent.ask("/metrics", token=None)).code == 401
        assert (await agent.ask("/metrics")).code == 200
        assert (await agent.ask("/healthz", token=None)).code == 200
        assert any("TLS" in told.get("error", "") for told in agent.events)


@pytest.mark.parametrize("host", ["[", "", "a" * 3000, "evil.example", "\u00e9"])
@pytest.mark.parametrize("path", ["/nope", "/healthz", DLQ])
async def test_the_host_header_may_be_anything(run_agent: Callable[..., Any], host: str, path: str) -> None:
    async with run_agent() as agent:
        answer = await agent.ask(path, headers={"Host": host})
        assert answer.code in (200, 404)
        assert not [told for told in agent.events if told["event"] == "failed"]


async def test_who_never_says_what_it_wants_is_hung_up_on(
    run_agent: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some that hold their connection would else take the room of all others"""
    async with run_agent() as agent:
        host, port = agent.agent.address.removeprefix("http://").split(":")
        with monkeypatch.context() as hasty:
            hasty.setattr("qdeck._agent.api_server.CONNECTION_S", 0.3)
            slow = [await asyncio.open_connection(host, int(port)) for _ in range(70)]
            for at, (_, writer) in enumerate(slow):
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n"[: at % 30])
            for reader, writer in slow:
                with contextlib.suppress(ConnectionError):
                    await asyncio.wait_for(reader.read(), 20)
                writer.close()
        assert (await agent.ask("/healthz")).code == 200


async def test_idle_connections_take_no_room_from_others(run_agent: Callable[..., Any]) -> None:
    """Neither those that never send a request, nor those that stay open after an answer."""
    async with run_agent() as agent:
        host, port = agent.agent.address.removeprefix("http://").split(":")
        held = [await asyncio.open_connection(host, int(port)) for _ in range(330)]  # a sixth is answered and closed
        for at, (_, writer) in enumerate(held):
            writer.write((b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"", b"", b"")[at % 6])
        began = asyncio.get_running_loop().time()
        assert [(await agent.ask("/healthz")).code for _ in range(3)] == [200] * 3
        assert asyncio.get_running_loop().time() - began < 5  # well before idle connections time out
        await agent.until(lambda: len(_served_at(int(port))) <= MAX_CONNECTIONS)
        for _, writer in held:
            writer.transport.abort()


async def test_callers_that_read_no_answers_take_no_room_from_others(
    run_agent: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck._agent.api_server.CONNECTION_S", 5.0)
    monkeypatch.setattr("qdeck._agent.api_server.MAX_REQUESTS", 6)
    monkeypatch.setattr("qdeck._agent.metrics.expose", lambda *_: "# " + "x" * 20_000_000 + "\n")
    async with run_agent() as agent:
        host, port = agent.agent.address.removeprefix("http://").split(":")
        held = [await asyncio.open_connection(host, int(port), limit=64) for _ in range(6)]
        for _, writer in held:
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for reader, _ in held:
            assert await reader.read(8) == b"HTTP/1.1"  # and reads no more
        assert (await agent.ask("/healthz")).code == 200
        await agent.until(lambda: not _served_at(int(port)))
        for _, writer in held:
            writer.transport.abort()


async def test_garbage_is_not_logged(run_agent: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    """Callers without a token must not fill the log, which has a JSON object on each line."""
    async with run_agent() as agent:
        host, port = agent.agent.address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\xff\r\n\r\n")
        assert b" 400 " in await reader.readline()
        writer.close()
    assert not caplog.records


def _served_at(port: int) -> list[Any]:
    """Connections of this process to callers at that port."""
    mine = psutil.Process().net_connections("tcp")
    return [each for each in mine if each.raddr and each.laddr.port == port and each.status == "ESTABLISHED"]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9180",
        "127.0.0.1.evil.example",
        "localhost.",
        "[",
        "",
        "[::1]evil",
        "localhost:evil",
        "[localhost]",
    ],
)
async def test_metrics_answer_other_names_with_the_token_only(run_agent: Callable[..., Any], host: str) -> None:
    """A page in a browser on this machine can let its own name lead here (DNS rebinding)."""
    async with run_agent() as agent:
        assert (await agent.ask("/metrics", token=None, headers={"Host": host})).code == 401
        assert (await agent.ask("/metrics", headers={"Host": host})).code == 200


@pytest.mark.parametrize("host", ["localhost:9180", "LOCALHOST", "127.0.0.1:1", "127.3.2.1", "[::1]:9180"])
async def test_metrics_on_this_machine_need_no_token(run_agent: Callable[..., Any], host: str) -> None:
    async with run_agent() as agent:
        assert (await agent.ask("/metrics", token=None, headers={"Host": host})).code == 200


async def test_metrics_that_a_proxy_passes_on_need_the_token(run_agent: Callable[..., Any]) -> None:
    async with run_agent() as agent:
        for name in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"):
            assert (await agent.ask("/metrics", token=None, headers={name: "192.0.2.7"})).code == 401


async def test_answers_hold_nothing_that_a_terminal_obeys(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    """JSON escapes it, and metrics write it out: names of other systems' queues hold anything."""
    hostile = "\x9b2J\u202e\x7f\u200b\U000e0041"
    make_jobs(client, 1, body=json.dumps([[hostile], {}], ensure_ascii=False).encode())
    bury(client, claim(client), message=hostile)
    raw.sadd("vmpooler__pools", f"pool{hostile}")
    raw.sadd(f"vmpooler__ready__pool{hostile}", "vm-1")
    async with run_agent() as agent:
        letters = (await agent.ask(DLQ)).text
        metrics = (await agent.ask("/metrics")).text
    assert hostile in json.loads(letters)["entries"][0]["error_message"]
    assert "pool" in metrics
    for text in (letters, metrics):
        assert not any(char in text for char in hostile if char not in "2J")
