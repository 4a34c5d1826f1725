"""Each verb with its connection cut after each of its commands: what is done in the end is the same, and so its undo.

Either the next connection works, and the command itself goes on; or none does, it ends there, and the operator gives
the same command again.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from characterisation.contents import contents, difference, without_own
from characterisation.cutting import Cutter
from characterisation.seed import POOL
from characterisation.seed_native import BILLS, MAIL
from characterisation.verbs import REQUESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from characterisation.conftest import World
    from support.commands import Ran
    from support.servers import Server

MOST: Final = 200  # commands of one operation: more would be a change of their order
# What several entries make together, and what is on its way to another queue.
_SUM: Final = re.compile(r"}:(meta|groups|outbox)\b|vmpooler__odcreate__task  ")
# That a job came from another queue, kept for a while: how long differs when its delivery was not confirmed at first.
_ARRIVAL: Final = re.compile(r"}:removed .*<now>-<n>$")
_ID: Final = re.compile(r"<(id|digest)\d+>")
QUICK: Final = {
    "native": f"dead retry {MAIL}",
    "vmpooler": f"jobs cancel {REQUESTS}",
    "ifdb": "dead retry ifdb",
    "scheduler": "requeue scheduler",
    "lists": f"bury {MAIL} --state ready",
}
FULL: Final = {
    "native": [
        f"dead discard {MAIL}",
        f"jobs cancel {MAIL}",
        f"jobs discard {MAIL}",
        f"jobs move {MAIL} --to {BILLS}",
        f"jobs run {MAIL}",
        f"jobs reprioritise {MAIL} --priority HIGH",
        f"requeue {MAIL}",
        f"bury {MAIL} --state ready",
        "purge",
    ],
    "vmpooler": [
        f"dead retry {POOL}",
        f"dead discard {POOL}",
        f"jobs discard {POOL} --state ready",
        f"jobs complete {POOL}",
        f"bury {POOL}",
        "purge",
    ],
    "ifdb": [
        "dead discard ifdb",
        "jobs run ifdb",
        "jobs complete ifdb",
        "jobs reprioritise ifdb --priority 7",
        "bury ifdb --state ready",
        "purge",
    ],
    "scheduler": [
        "dead retry scheduler",
        "dead discard scheduler",
        "jobs run scheduler",
        "jobs reprioritise scheduler --priority HIGH",
        "bury scheduler --state ready",
        "purge",
    ],
    "lists": [f"dead retry {MAIL}", f"dead discard {MAIL}", f"requeue {MAIL} --id oldest", f"jobs discard {MAIL}"],
}


class States(NamedTuple):
    """What the server holds before, after and when it was undone, if nothing goes wrong."""

    before: list[str]
    after: list[str]
    undone: list[str]


class Operation:
    """One operation, with its connection cut and without."""

    def __init__(self, world: World, cutter: Cutter, adapter: str, line: str) -> None:
        self.world, self.cutter, self.adapter = world, cutter, adapter
        self.words = shlex.split(line)
        self.plan = ""
        self.struck = False  # whether a connection was cut

    def run(self, *words: str, after: int | None = None, for_good: bool = False) -> Ran:
        """Runs a command whose connection breaks after so many commands."""
        self.cutter.arm(after, for_good=for_good)
        ran = self.world.run(*words, "--json", "--adapter", self.adapter, "--url", self.cutter.url)
        self.struck |= self.cutter.struck
        return ran

    def begin(self) -> list[str]:
        """Fills the server and makes the plan; returns what there is then."""
        self.world.fill([self.adapter])
        plan = self.run(*self.words).json
        assert plan["count"] > 0, "there is something to do"
        self.plan = plan["plan"]
        return self.look()

    def apply(self, **cut: Any) -> Ran:
        """Applies the plan."""
        verb = self.words[:1] if self.words[0] in ("purge", "requeue", "bury") else self.words[:2]
        return self.run(*verb, "--apply", self.plan, *(() if verb == ["purge"] else ("--yes",)), **cut)

    def undo(self, **cut: Any) -> Ran:
        """Takes the batch back."""
        return self.run("undo", f"b-{self.plan}", "--yes", **cut)

    def look(self) -> list[str]:
        """What the server holds now."""
        self.world.normal.ids.clear()
        lines = without_own(contents(self.world.raw, self.world.normal))
        return [line for line in lines if not _ARRIVAL.search(line)]

    def uncut(self) -> tuple[States, Ran, Ran]:
        """What happens when nothing goes wrong."""
        before = self.begin()
        applied = self.apply()
        after = self.look()
        back = self.undo()
        return States(before, after, self.look()), applied, back


@pytest.fixture
def cutter(ordered_server: Server) -> Iterator[Cutter]:
    with Cutter(ordered_server.port) as cutter:
        yield cutter


def facts(ran: Ran) -> dict[str, Any]:
    """What a batch or an undo tells, but for when."""
    return {name: value for name, value in ran.json.items() if name not in ("batch", "undo_until")}


def check_same(found: list[str], wanted: list[str], where: str) -> None:
    assert difference(wanted, found) == "no difference", where


def _entries(lines: list[str]) -> Counter[str]:
    """The lines that are about one entry; what has no id of its own has no number."""
    return Counter(_ID.sub("<id>", line) for line in lines if not _SUM.search(line))


def check_between(half: list[str], before: list[str], after: list[str], cut: int) -> None:
    """Each entry is as it was or as it will be; several steps may be between."""
    neither = _entries(half) - (_entries(before) | _entries(after))
    assert not neither, (cut, difference(before, half))


def insist(act: Callable[..., Ran], cut: int) -> Ran:
    """Does it with a cut. A client that never heard of the server says so at once: then it is done again."""
    ran = act(after=cut)
    return act() if ran.code == 69 else ran


def check_goes_on(operation: Operation) -> int:
    """The next connection works: the command itself finishes, and says the same; returns how many cuts there were."""
    states, applied, back = operation.uncut()
    for cut in range(1, MOST):
        operation.begin()
        operation.struck = False
        ran = insist(operation.apply, cut)
        check_same(operation.look(), states.after, f"applied with a cut after command {cut}")
        assert (ran.code, facts(ran)) == (applied.code, facts(applied)), cut
        ran = insist(operation.undo, cut)
        check_same(operation.look(), states.undone, f"undone with a cut after command {cut}")
        assert (ran.code, facts(ran)) == (back.code, facts(back)), cut
        if not operation.struck:
            return cut - 1
    raise AssertionError(f"it takes over {MOST} commands")


def check_goes_on_when_given_again(operation: Operation) -> int:
    """No connection works any more: the command fails, and given again it does the rest, once."""
    states, applied, back = operation.uncut()
    for cut in range(1, MOST):
        operation.begin()
        struck = fails(operation, operation.apply(after=cut, for_good=True), applied, cut)
        check_between(operation.look(), states.before, states.after, cut)
        ran = operation.apply()
        check_same(operation.look(), states.after, f"applied again after a cut after command {cut}")
        assert (ran.code, facts(ran)) == (applied.code, facts(applied)), cut
        struck |= fails(operation, operation.undo(after=cut, for_good=True), back, cut)
        check_between(operation.look(), states.after, states.undone, cut)
        ran = operation.undo()
        check_same(operation.look(), states.undone, f"undone again after a cut after command {cut}")
        if ran.json["undone_by"]:  # only its answer was lost
            assert (ran.code, ran.json["restored"]) == (0, 0), (cut, ran)
        else:
            assert ran.code == back.code, (cut, ran)
            # An undo of other systems tells what it did itself, one of native jobs all that the batch lost.
            told = facts(ran)
            assert 0 <= told.pop("restored") <= back.json["restored"]
            assert told == {name: value for name, value in facts(back).items() if name != "restored"}, cut
        if not struck:
            return cut - 1
    raise AssertionError(f"it takes over {MOST} commands")


def fails(operation: Operation, ran: Ran, uncut: Ran, cut: int) -> bool:
    """Whether the connection was cut; then the command says that it failed, or it had done all already."""
    if operation.cutter.struck:
        assert ran.code in (2, 69, 77, uncut.code), (cut, ran)
    else:
        assert (ran.code, facts(ran)) == (uncut.code, facts(uncut)), cut
    return operation.cutter.struck


@pytest.mark.parametrize("adapter", QUICK)
def test_a_command_goes_on_after_a_cut(world: World, cutter: Cutter, adapter: str) -> None:
    assert check_goes_on(Operation(world, cutter, adapter, QUICK[adapter])) > 3


@pytest.mark.parametrize("adapter", QUICK)
def test_a_command_given_again_after_a_cut_does_the_rest(world: World, cutter: Cutter, adapter: str) -> None:
    assert check_goes_on_when_given_again(Operation(world, cutter, adapter, QUICK[adapter])) > 3


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("adapter", "line"), [(adapter, line) for adapter, lines in FULL.items() for line in lines])
def test_every_verb_with_every_cut(world: World, cutter: Cutter, adapter: str, line: str) -> None:
    operation = Operation(world, cutter, adapter, line)
    assert check_goes_on(operation) > 3
    assert check_goes_on_when_given_again(operation) > 3
