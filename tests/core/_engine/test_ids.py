"""Ids: unique without asking anyone, and in the order in which they were made."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from qdeck import InvalidOption
from qdeck._engine import job_ids

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def test_ids_are_unique_and_in_order() -> None:
    made = [job_ids.new_id() for _ in range(20_000)]
    assert made == sorted(set(made))
    assert {len(job_id) for job_id in made} == {20}
    assert all(job_ids.check_id(job_id) == job_id for job_id in made)


def test_threads_make_no_id_twice() -> None:
    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(lambda _: [job_ids.new_id() for _ in range(2_000)], range(8)))
    assert all(batch == sorted(batch) for batch in batches)
    assert len({job_id for batch in batches for job_id in batch}) == 16_000


def _send_ids(pipe: Connection) -> None:
    pipe.send([job_ids.new_id() for _ in range(1_000)])


@pytest.mark.filterwarnings(
    "ignore:This process:DeprecationWarning"
)  # it is about forks with threads: none is used here
def test_a_fork_makes_other_ids() -> None:
    context = multiprocessing.get_context("fork")
    job_ids.new_id()
    job_ids._maker._last_us += 1_000_000  # so far ahead of the clock that both sides go on from the same number
    pipes = [context.Pipe() for _ in range(3)]
    children = [context.Process(target=_send_ids, args=(pipe[1],)) for pipe in pipes]
    for child in children:
        child.start()
    made = [*(job_ids.new_id() for _ in range(1_000)), *(job_id for pipe in pipes for job_id in pipe[0].recv())]
    for child in children:
        child.join()
    assert len(set(made)) == 4_000


@pytest.mark.parametrize("text", ["a", "A1", "order-42", "a.b_c:d-e", "0" * 128])
def test_ids_of_the_caller(text: str) -> None:
    assert job_ids.check_id(text) == text


@pytest.mark.parametrize(
    "text", ["", "-a", ".a", "a b", "a@b", "a\n", "a\n1", "é", "a" * 129, "a/b", "<a", ">a", "a#1"]
)
def test_ids_that_scripts_could_not_carry(text: str) -> None:
    with pytest.raises(InvalidOption, match="job id") as caught:
        job_ids.check_id(text)
    assert caught.value.hint
