"""What goes wrong while the console is open: it is told as it is, what was seen stays, and it goes on by itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from support.proxy import FaultProxy
from support.screens import app_of, console, fill, lines, text, until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.servers import Server

RIGHTS = ["+@read", "+@connection", "+time", "+info", "+hello", "+scan", "+hscan"]


async def test_rights_that_are_taken_away_are_told_and_come_back(url: str, raw: redis.Redis) -> None:
    fill(url)
    raw.acl_setuser("looker", enabled=True, passwords=["+pass"], keys=["*"], commands=RIGHTS, reset=True)
    with_user = url.replace("redis://", "redis://looker:pass@")
    async with console(with_user) as pilot:
        await until(pilot, "watch")
        raw.execute_command("ACL", "SETUSER", "looker", "-@read", "-scan", "-hscan")
        await until(pilot, lambda: app_of(pilot).shown.is_lost)
        shown = text(app_of(pilot))
        assert "watch" in shown, "what was seen stays"
        assert "rights" in shown or "allow" in shown or "read" in lines(app_of(pilot))[1]
        assert "pass" not in shown
        raw.execute_command("ACL", "SETUSER", "looker", *RIGHTS)
        await until(pilot, lambda: not app_of(pilot).shown.is_lost)
    raw.acl_deluser("looker")


async def test_a_slow_server_shows_as_age_while_keys_are_answered(make_server: Callable[..., Server]) -> None:
    server = make_server()
    fill(server.url)
    with FaultProxy(server.port, target_url=server.url) as proxy:
        async with console(proxy.url) as pilot:
            await until(pilot, "watch")
            proxy.latency(1.2)
            await until(pilot, lambda: app_of(pilot).shown.age_s() > 3)
            view = app_of(pilot).screen.query_one("#list")
            started = time.monotonic()
            await pilot.press("g", "j", "k", "j")
            assert time.monotonic() - started < 7, "four answers take longer"
            assert view.has_focus
            proxy.heal()
            await until(pilot, lambda: app_of(pilot).shown.age_s() < 1.5 and not app_of(pilot).shown.is_lost)


async def test_a_failover_is_followed_and_a_replica_is_named(make_server: Callable[..., Server]) -> None:
    first, second = make_server(), make_server()
    fill(first.url)
    with second.client() as raw, FaultProxy(first.port, target_url=first.url) as proxy:
        raw.execute_command("REPLICAOF", "127.0.0.1", first.port)
        async with console(proxy.url) as pilot:
            await until(pilot, "watch")
            while raw.info("replication").get("master_link_status") != "up":
                await pilot.pause(0.05)
            proxy.retarget(second.port)
            first.kill9()
            await until(pilot, "replica")
            assert "watch" in text(app_of(pilot))
            raw.execute_command("REPLICAOF", "NO", "ONE")
            await until(pilot, lambda: "replica" not in text(app_of(pilot)))
            assert not app_of(pilot).shown.is_lost
