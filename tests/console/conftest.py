"""Commands on the shared server, far from the settings of whoever runs the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest

from support.commands import Ran, runner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path


@pytest.fixture
def qdeck(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Ran]:
    """Runs a command on the shared server, in an empty directory and without a configuration."""
    monkeypatch.setenv("QDECK_URL", url)
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return runner(capsys)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A browser's connections and cookies."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as made:
        yield made
