"""Servers and Sentinels that want passwords, which are never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import qdeck
from qdeck.admin import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.clusters import Cluster, Trio

pytestmark = pytest.mark.slow
OURS, THEIRS = "S3CRET-of-servers", "S3CRET-of-sentinels"


def use(url: str) -> None:
    """An enqueue and a look."""
    app = qdeck.App(url, queue="gate:actions")
    assert app.task(name="step")(print).enqueue().state() == "ready"
    app.close()
    with Writer(url) as writer:
        seen = writer.snapshot()
        assert seen.totals.ready == 1
        assert "S3CRET" not in str(seen)
        assert "S3CRET" not in f"{writer!r}{app!r}"


def refuses(url: str) -> None:
    """A wrong or missing password is told as one, without it."""
    with pytest.raises(qdeck.NotAllowed) as caught:
        Writer(url).snapshot()
    assert "S3CRET" not in f"{caught.value}{caught.value.hint}"


def test_of_a_cluster(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(password=OURS)
    use(cluster.url.replace("://", f"://:{OURS}@"))
    refuses(cluster.url.replace("://", f"://:{OURS}-wrong@"))
    refuses(cluster.url)


def test_of_sentinels_and_of_the_servers_behind_them(make_trio: Callable[..., Trio]) -> None:
    trio = make_trio(passwords=(OURS, THEIRS))
    with_ours = trio.url.replace("://", f"://:{OURS}@")
    use(f"{with_ours}?sentinel_password={THEIRS}")
    refuses(with_ours)
    refuses(f"{with_ours}?sentinel_password={THEIRS}-wrong")
    refuses(f"{trio.url}?sentinel_password={THEIRS}")
