"""Shows where a worker's time goes: server, worker and waiting per job, then the worker's own time by layer.

The split per job comes from a run without the profiler, since the profiler itself takes half of the time; only the
shares of the second run count.
"""

from __future__ import annotations

import pstats
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import figures, processes

if TYPE_CHECKING:
    from bench.figures import Setting

_WAITING: Final = "waiting for events"
# The first that a function's place contains names its layer.
_LAYERS: Final = (
    (_WAITING, ("select.epoll", "select.kqueue", "select.poll")),
    ("socket calls of the kernel", ("_socket.socket",)),
    ("the job itself", ("bench/jobs.py",)),
    ("worker", ("qdeck/_worker/",)),
    ("engine: calls and replies", ("qdeck/_engine/",)),
    ("connection", ("qdeck/_connection.py",)),
    ("app", ("qdeck/",)),
    ("redis-py and hiredis", ("redis/", "hiredis")),
    ("JSON", ("msgspec",)),
    ("threads and locks", ("threading.py", "_thread.", "_queue.")),
    ("asyncio", ("asyncio/", "_asyncio", "selectors.py", "contextvars", "Context")),
)


def layer_of(place: str) -> str:
    """The layer of a function, by where it is."""
    return next((name for name, marks in _LAYERS if any(mark in place for mark in marks)), "Python itself")


def report(setting: Setting, task: str) -> str:
    """Measures and describes."""
    with setting.server() as server, tempfile.TemporaryDirectory(prefix="qdeck-bench-") as name:
        folder = Path(name)
        plain = figures.drain(server, task, folder)
        server.empty()
        output = folder / "profile"
        profiled = figures.drain(server, task, folder, processes.worker_command(output))
        shares = _read(output)
    cost = plain.per_job()
    waiting = cost["wall_us"] - cost["worker_cpu_us"]
    return "\n".join(
        [
            f"{task}: {plain.rate:,.0f} jobs/s ({profiled.rate:,.0f}/s under the profiler)",
            "",
            "| a job's time | µs |",
            "|---|--:|",
            f"| from one to the next | {cost['wall_us']:.2f} |",
            f"| of it the worker computes | {cost['worker_cpu_us']:.2f} |",
            f"| of it the worker waits for the server or its processor | {max(waiting, 0):.2f} |",
            f"| meanwhile the server computes | {cost['server_cpu_us']:.2f} |",
            f"| of it inside scripts | {cost['server_script_us']:.2f} |",
            "",
            shares,
        ]
    )


def _read(path: Path) -> str:
    loaded: Any = pstats.Stats(str(path))
    by_layer: dict[str, float] = defaultdict(float)
    functions: list[tuple[float, int, str]] = []
    for (file, line, name), (_, calls, own, _, _) in loaded.stats.items():
        place = name if file == "~" else f"{file}:{line} {name}"
        by_layer[layer_of(place)] += own
        short = name if file == "~" else f"{'/'.join(Path(file).parts[-2:])}:{line} {name}"
        functions.append((own, calls, short))
    functions = [entry for entry in functions if layer_of(entry[2]) != _WAITING]
    idle = by_layer.pop(_WAITING, 0.0)
    busy = sum(by_layer.values()) or 1.0
    lines = [f"Under the profiler the main thread waits {100 * idle / (idle + busy):.0f} % of the time.", ""]
    lines += ["| layer (main thread) | share of its busy time |", "|---|--:|"]
    for name, seconds in sorted(by_layer.items(), key=lambda item: -item[1]):
        lines.append(f"| {name} | {100 * seconds / busy:.1f} % |")
    lines += ["", "| function | calls | share |", "|---|--:|--:|"]
    for own, calls, short in sorted(functions, reverse=True)[:25]:
        lines.append(f"| {short.replace('|', '/')} | {calls:,} | {100 * own / busy:.1f} % |")
    return "\n".join(lines)
