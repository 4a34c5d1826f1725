"""The demo: an embedded server with a lively workload and some trouble, and the console on it."""

from __future__ import annotations

from qdeck_console.demo.run import run

__all__ = ["run"]
