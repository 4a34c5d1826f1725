"""Change a script a little, again and again, and show which changes no test notices.

Start it with `python tests/core/_engine/mutate.py`.

A change that no test notices is in a line that is not needed, or not tested. Those of which it is known why nothing can
notice them are in `survivors.toml`, each with the reason, and are not tried. Without arguments a seeded sample of
all scripts is tried; `--all poll reap` tries all of some, `--only poll:60-90` those of some lines, `--json FILE` keeps
the verdicts.

Each mutant is tried in a fork of a process that has the tests loaded, by the tests that call its script: those first
that noticed most before it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "core"), str(ROOT / "console")]

import pytest  # noqa: E402 - the path has to be set first
from hypothesis import HealthCheck, Phase, settings  # noqa: E402 - the same

from core._engine.mutants import Mutant, find_mutants  # noqa: E402 - the same
from qdeck._engine import scripts  # noqa: E402 - the same

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDERS: Final = ("tests/core/_engine", "tests/core/_operations")
MACHINE: Final = "tests/core/_engine/test_machine.py::test_engine_and_model_agree"
SURVIVORS: Final = Path(__file__).with_name("survivors.toml")
SAMPLE: Final = 300
SEED: Final = 20
PATIENCE_S: Final = 600
TEST_S: Final = 120  # a test that takes longer has noticed something; the machine may be busy
_DOES_NOT_LOAD: Final = 99
_PYTEST: Final = [
    "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",  # they were imported by the process before the fork
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the tests said of a mutant: `killed`, `survived`, `explained` or `does not load`."""

    name: str
    place: str
    verdict: str
    by: str = ""
    seconds: float = 0.0


def known_survivors() -> dict[str, str]:
    """Names of mutants that nothing can notice, with the reason."""
    return {one["mutant"]: one["reason"] for one in tomllib.loads(SURVIVORS.read_text("utf-8")).get("survivor", [])}


def all_mutants(files: Sequence[str] = ()) -> list[Mutant]:
    """The mutants of some scripts, else of all."""
    return [
        mutant
        for file in files or ("common", *scripts.NAMES)
        for mutant in find_mutants(file, scripts.read_source(file))
    ]


def sample(count: int = SAMPLE, seed: int = SEED) -> list[Mutant]:
    """The same mutants for the same seed: a change of a script leaves those of its other lines in the sample."""
    return sorted(all_mutants(), key=lambda one: hashlib.sha256(f"{seed} {one.name}".encode()).digest())[:count]


def scripts_of(mutant: Mutant) -> set[str]:
    """The scripts that a mutant changes."""
    if mutant.file != "common":
        return {mutant.file}
    return {name for name in scripts.NAMES if mutant.piece in _words(scripts.read_source(name), "uses")}


def _words(source: str, label: str) -> list[str]:
    return next(line for line in source.split("\n") if line.startswith(f"-- {label}:")).split()[2:]


# in a fork


class Recorder:
    """Which scripts each test calls and how long it takes, or which one failed first."""

    def __init__(self) -> None:
        self.calls: dict[str, list[str]] = {}
        self.seconds: dict[str, float] = {}
        self.failed = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        called: set[str] = set()
        load = scripts.load

        def watched(name: str) -> scripts.QueueScript:
            called.add(name)
            return load(name)

        holders = [module for module in list(sys.modules.values()) if getattr(module, "load", None) is load]
        for module in holders:
            module.load = watched  # type: ignore[attr-defined]  # those that imported it by name
        started = time.monotonic()
        try:
            return (yield)
        finally:
            self.calls[item.nodeid], self.seconds[item.nodeid] = sorted(called), time.monotonic() - started
            for module in holders:
                module.load = load  # type: ignore[attr-defined]  # the same

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


def in_fork(folder: str, mutant: Mutant | None, tests: Sequence[str]) -> int:
    """Runs tests in a fork, with a mutant in place of its script; gives the id of the process."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        code = _try(Path(folder) / f"{os.getpid()}.json", mutant, tests)
    finally:
        os._exit(code)


def _try(out: Path, mutant: Mutant | None, tests: Sequence[str]) -> int:
    options = [*_PYTEST, "-o", f"timeout={TEST_S}"]
    if mutant is not None:
        _put_in(mutant)
        if not _loads(mutant):
            return _DOES_NOT_LOAD
        options.append("-x")
    recorder = Recorder()
    os.chdir(ROOT)
    code = int(pytest.main([*options, *tests], plugins=[recorder]))
    out.write_text(json.dumps({"calls": recorder.calls, "seconds": recorder.seconds, "failed": recorder.failed}))
    return code


def _put_in(mutant: Mutant) -> None:
    read = scripts.read_source
    scripts.read_source = lambda name: mutant.text if name == mutant.file else read(name)
    scripts.load.cache_clear()
    # A mutant has to be found, not explained; and the same tests have to find it again.
    settings.register_profile(
        "mutant", phases=[Phase.generate], derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    settings.load_profile("mutant")


def _loads(mutant: Mutant) -> bool:
    """Whether every script that has it still compiles."""
    import redis

    from support.servers import Server

    with Server() as server, server.client() as client:
        for name in scripts_of(mutant):
            try:
                client.script_load(scripts.load(name).source)
            except (redis.ResponseError, ValueError):
                return False
    return True


# in the process that forks


@dataclass(slots=True)
class Try:
    """A mutant that is being tried."""

    mutant: Mutant
    started: float = field(default_factory=time.monotonic)
    limit: float = field(default_factory=lambda: time.monotonic() + PATIENCE_S)
    machine: bool = False


class Trial:
    """Tries mutants, several at a time."""

    def __init__(self, folder: str, jobs: int) -> None:
        self.folder, self._jobs = folder, jobs
        self._known = known_survivors()
        self._calls: dict[str, list[str]] = {}
        self._seconds: dict[str, float] = {}
        self._kills: dict[str, Counter[str]] = {}
        self._running: dict[int, Try] = {}

    def learn(self) -> None:
        """Loads the tests into this process, runs them without a mutant, and notes which scripts each calls."""
        os.chdir(ROOT)
        quiet = os.open(os.devnull, os.O_WRONLY)
        kept = os.dup(1)
        os.dup2(quiet, 1)
        pytest.main([*_PYTEST, "--collect-only", *FOLDERS])
        os.dup2(kept, 1)
        pid = in_fork(self.folder, None, FOLDERS)
        _, status = os.waitpid(pid, 0)
        found = self._read(pid)
        if os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"the tests fail without a mutant: {found.get('failed')}")
        self._calls, self._seconds = found["calls"], found["seconds"]

    def _read(self, pid: int) -> dict[str, Any]:
        path = Path(self.folder) / f"{pid}.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        path.unlink(missing_ok=True)
        return found

    def tests_for(self, mutant: Mutant) -> list[str]:
        """The tests that call its script; first those that noticed most, then the shortest."""
        wanted = scripts_of(mutant)
        kills = self._kills.get(mutant.file, Counter())
        found = [test for test, called in self._calls.items() if wanted.intersection(called) and test != MACHINE]
        return sorted(found, key=lambda test: (-kills[test], self._seconds[test]))

    def run(self, mutants: Sequence[Mutant]) -> Iterator[Verdict]:
        """The verdicts, in the order in which they come."""
        waiting = list(reversed(mutants))
        while waiting or self._running:
            while waiting and len(self._running) < self._jobs:
                mutant = waiting.pop()
                if mutant.name in self._known:
                    yield self._verdict(Try(mutant), "explained")
                    continue
                self._start(Try(mutant), self.tests_for(mutant))
            yield from self._poll()

    def _start(self, one: Try, tests: Sequence[str]) -> None:
        self._running[in_fork(self.folder, one.mutant, tests)] = one

    def _poll(self) -> Iterator[Verdict]:
        time.sleep(0.02)
        for pid, one in list(self._running.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done and time.monotonic() < one.limit:
                continue
            if not done:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            del self._running[pid]
            code = os.waitstatus_to_exitcode(status) if done else -1
            by = self._read(pid).get("failed") or f"exit {code}"
            if code == _DOES_NOT_LOAD:
                yield self._verdict(one, "does not load")
            elif code != 0:
                self._kills.setdefault(one.mutant.file, Counter())[by] += 1
                yield self._verdict(one, "killed", by)
            elif not one.machine:
                one.machine, one.limit = True, time.monotonic() + PATIENCE_S
                self._start(one, [MACHINE])
            else:
                yield self._verdict(one, "survived")

    def _verdict(self, one: Try, verdict: str, by: str = "") -> Verdict:
        return Verdict(
            name=one.mutant.name, place=f"{one.mutant.file}.lua:{one.mutant.number}", verdict=verdict,
            by=by.rpartition("::")[2], seconds=round(time.monotonic() - one.started, 1),
        )  # fmt: skip


def score(verdicts: Sequence[Verdict]) -> float:
    """The share of mutants that were noticed, of those that something can notice."""
    count = Counter(one.verdict for one in verdicts)
    return count["killed"] / max(1, count["killed"] + count["survived"])


def show(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def show_score(verdicts: Sequence[Verdict]) -> None:
    """A table by file, and what nothing noticed."""
    words = ("killed", "survived", "explained", "does not load")
    show(f"\n{'file':18}" + "".join(f"{word:>15}" for word in words) + f"{'score':>9}")
    for file in [*sorted({one.place.partition(".")[0] for one in verdicts}), "all"]:
        part = [one for one in verdicts if file in (one.place.partition(".")[0], "all")]
        count = Counter(one.verdict for one in part)
        show(f"{file:18}" + "".join(f"{count[word]:>15}" for word in words) + f"{100 * score(part):>8.1f}%")
    for word in ("survived", "explained"):
        show(f"\n{word}")
        for one in verdicts:
            if one.verdict == word:
                show(f"  {one.place}: {one.name}")


def try_all(mutants: Sequence[Mutant], jobs: int = 2, path: Path | None = None) -> list[Verdict]:
    """Tries mutants and shows each verdict as it comes."""
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(folder, jobs)
        trial.learn()
        for verdict in trial.run(mutants):
            verdicts.append(verdict)
            show(f"{verdict.verdict:14}{verdict.seconds:>6.1f} s  {verdict.place:24}{verdict.name}  {verdict.by}")
            if path is not None:
                path.write_text(json.dumps([asdict(one) for one in verdicts], indent=1), "utf-8")
    return verdicts


def parse_only(text: str) -> tuple[str, range]:
    """`poll:60-90` or `poll:60`."""
    file, _, numbers = text.partition(":")
    first, _, last = numbers.partition("-")
    return file, range(int(first), int(last or first) + 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", nargs="*", metavar="SCRIPT", help="all mutants of these scripts (of all scripts)")
    parser.add_argument("--only", action="append", default=[], type=parse_only, metavar="SCRIPT:FIRST-LAST")
    parser.add_argument("--sample", type=int, default=SAMPLE)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where to keep the verdicts")
    options = parser.parse_args()
    mutants = sample(options.sample, options.seed)
    if options.all is not None:
        mutants = all_mutants(options.all)
    elif options.only:
        mutants = [one for file, lines in options.only for one in all_mutants([file]) if one.number in lines]
    verdicts = try_all(mutants, options.jobs, options.json)
    show_score(verdicts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
