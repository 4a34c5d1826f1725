"""What is stored is never loaded: a pickle in any field of any system is shown as bytes, and no module that loads such
things can be imported by the core or the console.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from core.adapters.test_strange_values import LOOKS, NAMES
from support.breaking import BROKEN, HEALTHY, fill

if TYPE_CHECKING:
    import redis

ROOT: Final = Path(__file__).parents[2]
BANNED: Final = (
    "import pickle", "from pickle import loads", "import marshal", "import shelve", "import dill", "import _pickle",
    "eval('1')", "exec('1')",
)  # fmt: skip
# Runs commands under an audit hook that ends the process when a class of a pickle is looked for.
RUN: Final = """
import json, os, sys
def watch(event, args):
    if event in ("pickle.find_class", "os.system", "shelve.open"):
        os.write(2, ("LOADED " + event).encode())
        os._exit(99)
sys.addaudithook(watch)
from qdeck_console.__main__ import main
for words in json.loads(sys.argv[1]):
    main(words)
"""


@pytest.mark.parametrize("line", BANNED)
@pytest.mark.parametrize("package", ["core/qdeck", "console/qdeck_console"])
def test_a_module_that_loads_code_from_data_is_refused(line: str, package: str) -> None:
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "-q",
        "--output-format",
        "concise",
        "--select",
        "TID251,S307,S102",
    ]
    done = subprocess.run(
        [*command, "--stdin-filename", f"{package}/x.py", "-"], input=f"{line}\n", capture_output=True, text=True,
        cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert any(rule in done.stdout for rule in ("TID251", "S307", "S102")), done.stdout


def pickle_of(path: Path) -> bytes:
    """A pickle that makes a file when it is loaded, written without the module."""
    command = f"touch {path}".encode()
    return b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c%c%b\x85R." % (len(command), command)


def plant(raw: redis.Redis, evil: bytes) -> None:
    """The pickle in the values of every system's keys."""
    for key in list(raw.scan_iter(count=1000)):
        kind = raw.type(key)
        if kind == b"hash" and not key.endswith(b":meta"):
            for field in list(raw.hkeys(key)):
                raw.hset(key, field, evil)
    raw.rpush("shop:sub:actions", evil)
    raw.rpush("shop:sub:actions:dead_letter", evil)
    raw.hset("ifdb:task_data", mapping={"t1": evil, "t2": b'{"pending": true, "log": "x"}'})
    raw.zadd("ifdb:task_queue", {b"t1": 1, evil: 2})
    raw.zadd("scheduler:queue:dlq", {evil: 5})
    raw.hset("scheduler:processing", "p", evil)
    raw.zadd("vmpooler__dlq__clone", {evil: 5})
    raw.sadd("vmpooler__pools", "p")
    raw.hset("vmpooler__vm__v", mapping={"pool": evil, "clone": evil})
    raw.sadd("vmpooler__ready__p", "v", evil)


def test_the_pickle_would_touch_a_file(tmp_path: Path) -> None:
    mark = tmp_path / "touched"
    done = subprocess.run(
        [sys.executable, "-c", f"import pickle; pickle.loads({pickle_of(mark)!r})"], check=False, capture_output=True
    )
    assert mark.exists(), done.stderr


@pytest.mark.timeout(120)
def test_no_command_loads_a_pickle(url: str, raw: redis.Redis, tmp_path: Path) -> None:
    ids = fill(url, raw)
    mark = tmp_path / "touched"
    plant(raw, pickle_of(mark))
    queues = [HEALTHY, BROKEN]
    words = [[word.format(queue=queue, id=ids[queue]) for word in look] for look in LOOKS for queue in queues] + [
        ["workers"],
        ["activity"],
        ["schedule", "list"],
        ["queues"],
        ["doctor"],
        ["clean", "--orphans"],
    ]
    every = [[*some, "--url", url, *more] for some in words for more in ([], ["--json"])]
    every += [[*look, "--url", url, "--adapter", name] for look in LOOKS if "{queue}" not in look for name in NAMES]
    done = subprocess.run([sys.executable, "-c", RUN, json.dumps(every)], check=False, capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr[-500:]
    assert b"LOADED" not in done.stderr
    assert not mark.exists()
