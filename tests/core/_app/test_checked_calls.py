"""What an enqueue checks before anything is sent, chains of groups, and schedules declared without a server."""

from __future__ import annotations

import asyncio
import time
import warnings
from typing import Any

import pytest

import qdeck

SILENT = "redis://192.0.2.1:6379"  # an address of documentation: nothing answers there


@pytest.fixture
def shop() -> qdeck.App:
    return qdeck.App(SILENT, queue="shop:mail:actions", patience=0.0)


def refs(calls: list[Any]) -> dict[str, set[str]]:
    """Task → tasks that its call waits for."""
    names = {call.id: call.job.template.split("\n")[0].split(" ")[2] for call in calls}
    return {names[call.id]: {names[ref] for ref in call.job.after} for call in calls}


def steps(app: qdeck.App, *names: str) -> list[Any]:
    def none() -> None:
        return

    return [app.task(name=name)(none).call() for name in names]


def test_arguments_are_checked_against_the_handler(shop: qdeck.App) -> None:
    @shop.task
    def send(to: str, *, subject: str = "") -> None: ...

    for call in (
        send.enqueue,
        lambda: send.enqueue("a", "b"),
        lambda: send.enqueue("a", other=1),
        lambda: shop.enqueue("send"),
        lambda: send.call(_delay=1),
    ):
        with pytest.raises(qdeck.InvalidOption, match="task 'send'") as refused:
            call()
        assert "send(to: " in str(refused.value.hint)
    assert send.call("a", subject="x").queue == "shop:mail:actions"


def test_an_option_without_its_underscore_is_named(shop: qdeck.App) -> None:
    @shop.task
    def send(to: str) -> None: ...

    with pytest.raises(qdeck.InvalidOption, match="'delay'") as refused:
        send.enqueue("a", delay=3)
    assert "_delay=3" in str(refused.value.hint)


def test_a_handler_may_have_an_argument_of_that_name(shop: qdeck.App) -> None:
    @shop.task
    def wait(delay: int) -> None: ...

    @shop.task
    def anything(*args: Any, **kwargs: Any) -> None: ...

    assert b'"delay":3' in wait.call(delay=3).job.body
    assert b'"queue":1' in anything.call(1, 2, queue=1).job.body


def test_a_failure_handler_takes_the_failure(shop: qdeck.App) -> None:
    @shop.task
    def mend(failure: qdeck.Failure) -> None: ...

    @shop.task(on_failure=mend)
    def breaks() -> None: ...

    assert breaks.call().queue


def test_a_schedule_at_import_sends_nothing(shop: qdeck.App) -> None:
    @shop.task
    def fetch() -> None: ...

    began = time.monotonic()
    for number in range(5):
        assert shop.schedule(f"feeds-{number}", fetch, cron="*/5 * * * *") == "declared"
    assert time.monotonic() - began < 0.5
    assert sorted(shop.schedules) == [f"feeds-{number}" for number in range(5)]


def test_a_blocking_enqueue_on_a_loop_warns_once(url: str) -> None:
    app = qdeck.App(url, queue="shop:mail:actions")

    @app.task
    def send() -> None: ...

    async def twice() -> None:
        send.enqueue()
        send.enqueue()

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        asyncio.run(twice())
        send.enqueue()
    [warning] = [one for one in seen if "aenqueue" in str(one.message)]
    assert warning.filename == __file__
    app.close()


def test_a_group_in_a_chain(shop: qdeck.App) -> None:
    first, a, b, then, last = steps(shop, "first", "a", "b", "then", "last")
    calls = qdeck.chain(first, qdeck.group([a, b], then), last)
    assert refs(calls) == {"first": set(), "a": {"first"}, "b": {"first"}, "then": {"a", "b"}, "last": {"then"}}


def test_a_group_of_groups_and_chains(shop: qdeck.App) -> None:
    a, b, ab, c, d, end = steps(shop, "a", "b", "ab", "c", "d", "end")
    calls = qdeck.group([qdeck.group([a, b], ab), qdeck.chain(c, d)], end)
    assert refs(calls) == {"a": set(), "b": set(), "ab": {"a", "b"}, "c": set(), "d": {"c"}, "end": {"ab", "d"}}


def test_a_group_whose_end_is_a_chain(shop: qdeck.App) -> None:
    a, b, c, d = steps(shop, "a", "b", "c", "d")
    calls = qdeck.group([a, b], qdeck.chain(c, d))
    assert refs(calls) == {"a": set(), "b": set(), "c": {"a", "b"}, "d": {"c"}}


@pytest.mark.parametrize("wrong", [None, 3, "job", [], {"a": 1}])
def test_what_cannot_be_chained_is_named(shop: qdeck.App, wrong: Any) -> None:
    [first] = steps(shop, "first")
    with pytest.raises(qdeck.InvalidOption, match="chain"):
        qdeck.chain(first, wrong)
    with pytest.raises(qdeck.InvalidOption, match="group"):
        qdeck.group([first, wrong], first)
    with pytest.raises(qdeck.InvalidOption, match="group"):
        qdeck.group([first], wrong)


def test_nested_groups_run_in_their_order(url: str) -> None:
    from support.beside import Beside
    from support.waiting import wait_until

    app = qdeck.App(url, queue="shop:mail:actions")
    order: list[str] = []

    @app.task
    async def step(name: str) -> None:
        order.append(name)

    call = step.call
    inner = qdeck.group([call("a"), call("b")], call("ab"))
    app.enqueue_many(qdeck.chain(call("first"), qdeck.group([inner, call("c")], call("then")), call("last")))
    with Beside(app):
        wait_until(lambda: len(order) == 7)
    assert (order[0], order[-2:]) == ("first", ["then", "last"])
    assert order.index("ab") > max(order.index("a"), order.index("b"))
    app.close()
