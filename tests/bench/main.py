"""Runs the benchmarks and prints a table; options in `--help`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import console, fairness, screens, starting, worker_profile
from bench.figures import PEER_KNOWN, Figure, Sample, Setting, all_figures
from bench.machine import Pins
from bench.processes import Stalled


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure and its samples."""

    figure: Figure
    samples: list[Sample]
    error: str = ""

    @property
    def value(self) -> float | None:
        """What is compared with the aim: the share of the limit, or the figure itself."""
        if not self.samples:
            return None
        ratios = [s.ratio for s in self.samples if s.ratio is not None]
        return statistics.median(ratios or [s.reached for s in self.samples])

    @property
    def ok(self) -> bool:
        """Whether the aim is met."""
        return self.value is not None and self.figure.is_met(self.value)

    def cells(self) -> list[str]:
        """The row of the table."""
        figure = self.figure
        sign = "≥" if figure.at_least else "≤"
        aim = (
            "–" if figure.aim is None else f"{sign} {figure.aim:.2g}" if figure.aim < 10 else f"{sign} {figure.aim:.0f}"
        )
        if self.value is None:
            return [figure.title, self.error or "failed", figure.limit, "–", aim, "no"]
        reached = _number(statistics.median(s.reached for s in self.samples)) + figure.unit
        ratios = sorted(s.ratio for s in self.samples if s.ratio is not None)
        limit = ratio = "–"
        if ratios:
            limits = [statistics.mean(s.limit) for s in self.samples if s.limit]
            limit = f"{figure.limit} {_number(statistics.median(limits))}/s"
            ratio = f"{self.value:.2f}" + (f" ({ratios[0]:.2f}–{ratios[-1]:.2f})" if len(ratios) > 1 else "")
        return [figure.title, reached, limit, ratio, aim, "yes" if self.ok else "no"]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| figure | reached | limit | ratio | aim | ok |", "|---|--:|--:|--:|--:|---|"]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    return "\n".join(lines)


def notes(rows: list[Row], setting: Setting) -> list[str]:
    """What the table has no column for."""
    said = []
    for row in rows:
        if row.error:
            said.append(f"{row.figure.title}: {row.error}")
        if row.samples and row.samples[-1].more:
            shown = ", ".join(f"{name} {_shown(value)}" for name, value in _medians(row.samples).items())
            said.append(f"{row.figure.title}: {shown}")
        said += [
            f"{row.figure.title}: the limit moved from {s.limit[0]:,.0f} to {s.limit[1]:,.0f}/s"
            for s in row.samples
            if s.limit and max(s.limit) > 1.25 * min(s.limit)
        ]
    if any(row.figure.key == "sync" for row in rows) and setting.peer_python is None:
        said.append(
            f"dramatiq reached {PEER_KNOWN} of the same limit when measured side by side (--peers-venv measures it)"
        )
    return said


def _medians(samples: list[Sample]) -> dict[str, Any]:
    last = samples[-1].more
    return {
        name: statistics.median(s.more[name] for s in samples) if isinstance(value, int | float) else value
        for name, value in last.items()
    }


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "+".join(f"{name}:{count}" for name, count in sorted(value.items())) or "none"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def measure(figure: Figure, setting: Setting, repeat: int) -> Row:
    """Measures a figure, several times when it is one that wavers."""
    samples: list[Sample] = []
    for number in range(1 if figure.once else repeat):
        try:
            sample = figure.measure(setting)
        except Stalled as error:
            return Row(figure=figure, samples=samples, error=str(error))
        share = "" if sample.ratio is None else f", {sample.ratio:.3f} of {figure.limit}"
        _say(f"{figure.key} {number + 1}: {_number(sample.reached)}{figure.unit}{share}")
        samples.append(sample)
    return Row(figure=figure, samples=samples)


def _say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="Shares of what this machine allows; only ratios count.")
    parser.add_argument("--only", default="", help="figures, comma separated; a wrong one tells which there are")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each rate of an enqueue and of a limit")
    parser.add_argument("--repeat", type=int, default=3, help="times that each throughput is measured; medians count")
    parser.add_argument("--pin", default="0,1", help="CPU of the server, CPU of the client; or none")
    parser.add_argument(
        "--realtime",
        action="store_true",
        help="go before all other processes, on a busy machine (Linux, root)",
    )
    parser.add_argument("--server", type=Path, help="another server than the one in the wheel")
    parser.add_argument(
        "--peers-venv", type=Path, help="an environment with dramatiq[redis] and hiredis, to compare with"
    )
    parser.add_argument("--json", type=Path, help="write every sample to this file")
    parser.add_argument("--profile", choices=["async", "sync"], help="show where a worker's time goes instead")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """The command line. Ends with 1 when an aim is not met."""
    options = _options(argv)
    if options.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))  # inherited by server and workers
    setting = Setting(
        pins=Pins.parse(options.pin), seconds=options.seconds, binary=options.server, peers=options.peers_venv
    )
    if options.profile:
        print(worker_profile.report(setting, f"noop_{options.profile}"))
        return
    with setting.server() as server:
        version = server.version()
    figures = [
        *all_figures(setting, server_is_valkey="valkey" in version),
        *fairness.figures(), *console.figures(), *starting.figures(), *screens.figures(),
    ]  # fmt: skip
    wanted = set(filter(None, options.only.split(",")))
    if unknown := wanted - {figure.key for figure in figures}:
        raise SystemExit(f"no figure {', '.join(sorted(unknown))}; there are {' '.join(f.key for f in figures)}")
    rows = [measure(f, setting, options.repeat) for f in figures if not wanted or f.key in wanted]
    where = f"{version}, Python {platform.python_version()}, {os.cpu_count()} CPUs, {setting.pins}"
    if options.realtime:
        where += ", real-time scheduling"
    print(f"{table(rows)}\n\n{where}")
    for note in notes(rows, setting):
        print(f"- {note}")
    if options.json:
        _write(options.json, where, rows)
    sys.exit(not all(row.ok for row in rows))


def _write(path: Path, where: str, rows: list[Row]) -> None:
    found = {
        row.figure.key: {
            "title": row.figure.title,
            "limit": row.figure.limit,
            "aim": row.figure.aim,
            "value": row.value,
            "ok": row.ok,
            "error": row.error,
            "samples": [asdict(sample) | {"ratio": sample.ratio} for sample in row.samples],
        }
        for row in rows
    }
    path.write_text(json.dumps({"where": where, "figures": found}, indent=1, ensure_ascii=False) + "\n", "utf-8")
