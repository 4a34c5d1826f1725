"""Whether this process draws into a browser instead of a terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def is_served(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether `qdeck serve` started it: then a pipe to the browser takes the place of the terminal."""
    return environment.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")
