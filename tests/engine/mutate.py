"""Drops one line of a script at a time and shows whether the tests notice: `python tests/engine/mutate.py [names…]`.

A line that no test misses is either not needed or not tested. What does not compile without the line is left out of the
score. It takes a while (some seconds a line); `--only turn:60-90` looks again at some lines, `--json FILE` keeps all.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

ROOT: Final = Path(__file__).resolve().parents[2]
PATH: Final = [str(ROOT / "tests"), str(ROOT / "core"), str(ROOT / "console")]
sys.path[:0] = PATH

from qdeck._engine import scripts  # noqa: E402 - the path has to be set first
from support.servers import Server  # noqa: E402 - the same

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import redis

HERE: Final = "tests/engine"
SMALL: Final = (
    "test_order.py",
    "test_leases.py",
    "test_retries.py",
    "test_dependencies.py",
    "test_unique.py",
    "test_limits.py",
    "test_trim.py",
    "test_outbox.py",
    "test_scripts.py",
)
MACHINE: Final = "test_machine.py"
PATIENCE_S: Final = 150
# The steps of a queue's life; what operators' batches add (act, undo, accept) is tested elsewhere.
LIFE: Final = ("init", "enqueue", "enqueue_linked", "turn", "beat", "reap", "settle", "trim", "configure", "common")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A script file without one of its lines."""

    file: str
    number: int
    line: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the tests said of a mutant: `killed`, `survived` or `does not load`."""

    file: str
    number: int
    line: str
    verdict: str
    by: str = ""
    seconds: float = 0.0


def find_mutants(file: str, lines: range | None) -> Iterator[Mutant]:
    """Every line of a file that is more than a comment or a closing word."""
    source = scripts.read_source(file).split("\n")
    for number, line in enumerate(source, 1):
        word = line.strip()
        if not word or word.startswith(("--", "#!")) or word in ("end", "else", "})", "}", "end)"):
            continue
        if lines is None or number in lines:
            text = "\n".join([*source[: number - 1], *source[number:]])
            yield Mutant(file=file, number=number, line=word, text=text)


def loads(client: redis.Redis, mutant: Mutant) -> bool:
    """Whether every script still compiles and keeps its local names."""
    import redis

    common = mutant.text if mutant.file == "common" else scripts.read_source("common")
    names = scripts.NAMES if mutant.file == "common" else (mutant.file,)
    for name in names:
        text = mutant.text if name == mutant.file else scripts.read_source(name)
        try:
            client.script_load(scripts.make(name, text, common).source)
        except (redis.ResponseError, ValueError):
            return False
    return True


def run_tests(mutant: Mutant, tests: Sequence[str], folder: str) -> str:
    """Runs tests against a mutant; gives the first that failed, or nothing."""
    changed = Path(folder) / "mutant.json"
    changed.write_text(json.dumps({mutant.file: mutant.text}), "utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", "-m", "not slow", *(f"{HERE}/{test}" for test in tests)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(PATH), "QDECK_TEST_MUTANT": str(changed)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "no end"
    if process.returncode == 0:
        return ""
    failed = [line for line in output.split("\n") if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0].rpartition("::")[2] if failed else f"exit {process.returncode}"


def judge(client: redis.Redis, mutant: Mutant, folder: str) -> Verdict:
    """The verdict on one mutant: the small tests first, the state machine for what they do not see."""
    start = time.monotonic()
    by, verdict = "", "does not load"
    if loads(client, mutant):
        by = run_tests(mutant, SMALL, folder) or run_tests(mutant, [MACHINE], folder)
        verdict = "killed" if by else "survived"
    seconds = round(time.monotonic() - start, 1)
    return Verdict(file=mutant.file, number=mutant.number, line=mutant.line, verdict=verdict, by=by, seconds=seconds)


def tell(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def show_score(verdicts: Sequence[Verdict]) -> None:
    """A table by file, and the lines that nobody missed."""
    tell(f"\n{'file':16}{'killed':>8}{'survived':>10}{'score':>8}{'does not load':>16}")
    for file in [*dict.fromkeys(one.file for one in verdicts), "all"]:
        count = dict.fromkeys(("killed", "survived", "does not load"), 0)
        for one in verdicts:
            if file in (one.file, "all"):
                count[one.verdict] += 1
        score = 100 * count["killed"] / max(1, count["killed"] + count["survived"])
        numbers = f"{count['killed']:>8}{count['survived']:>10}{score:>7.1f}%{count['does not load']:>16}"
        tell(f"{file:16}{numbers}")
    tell("\nsurvivors")
    for one in verdicts:
        if one.verdict == "survived":
            tell(f"  {one.file}.lua:{one.number}: {one.line}")


def parse_only(text: str) -> tuple[str, range]:
    """`turn:60-90` or `turn:60`."""
    file, _, numbers = text.partition(":")
    first, _, last = numbers.partition("-")
    return file, range(int(first), int(last or first) + 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=[], help="scripts without .lua; those of LIFE when none is named")
    parser.add_argument("--only", action="append", default=[], type=parse_only, metavar="FILE:FIRST-LAST")
    parser.add_argument("--json", type=Path, help="where to keep the verdicts")
    options = parser.parse_args()
    wanted: list[tuple[str, range | None]] = list(options.only)
    wanted = wanted or [(file, None) for file in options.files or LIFE]
    verdicts: list[Verdict] = []
    with Server() as server, server.client() as client, tempfile.TemporaryDirectory() as folder:
        for file, lines in wanted:
            for mutant in find_mutants(file, lines):
                verdict = judge(client, mutant, folder)
                verdicts.append(verdict)
                if verdict.verdict != "does not load":
                    place = f"{verdict.file}.lua:{verdict.number}"
                    tell(f"{verdict.verdict:9}{verdict.seconds:>6.1f} s  {place:24}{verdict.line[:70]}  {verdict.by}")
                if options.json:
                    options.json.write_text(json.dumps([asdict(one) for one in verdicts], indent=1), "utf-8")
    show_score(verdicts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
