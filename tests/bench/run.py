"""Starts the benchmarks: `python tests/bench/run.py --help`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # The folder of this file would come first otherwise, with modules that are only meant to be found inside `bench`.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from bench.main import main

    main()
