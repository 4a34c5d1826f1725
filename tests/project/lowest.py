"""Print the lowest versions that pyproject.toml allows as constraints for pip: `make test-lowest` installs these."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_BOUND: Final = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[^]]*\])?\s*>=\s*([0-9][^,; ]*)")


def lowest(text: str) -> list[str]:
    """Return `name==version` for each dependency of a distribution, extras included, in the order of the file."""
    project = tomllib.loads(text)["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    found = [_BOUND.match(line) for lines in groups for line in lines if not line.startswith(f"{project['name']}[")]
    if None in found:
        raise ValueError("each dependency needs a lower bound: name>=version")
    return [f"{match[1]}=={match[2]}" for match in found if match]


if __name__ == "__main__":
    sys.stdout.write("\n".join(lowest((ROOT / "pyproject.toml").read_text(encoding="utf-8"))) + "\n")
