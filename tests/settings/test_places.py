"""Two URLs that lead to the same data are told from two that do not."""

from __future__ import annotations

import pytest

from qdeck._settings import read_text
from qdeck._settings.places import is_same

PRODUCTION = """
[contexts.shop]
url = "rediss://ops:${SHOP_PASSWORD}@Redis.Shop.example/3"
environment = "Production"
[contexts.looking]
url = "rediss://redis.shop.example/3"
environment = "prod"
read_only = true
[contexts.staging]
url = "redis://staging.example"
environment = "staging"
"""


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("redis://h", "redis://h:6379/0", True),
        ("redis://h", "rediss://u:secret@H:6379", True),
        ("redis://localhost", "redis://127.0.0.1:6379/", True),
        ("redis://", "redis://[::1]", True),
        ("redis://h/1", "redis://h?db=1", True),
        ("redis://u:${NOT@SET}@h/1", "redis://h/1", True),
        ("unix:///run/redis.sock", "unix://u:p@/run/redis.sock?db=0", True),
        ("redis+sentinel://a:26379,b:26379/main/0", "redis+sentinel://b:26379/main/0", True),
        ("redis://h", "redis://h/1", False),
        ("redis://h", "redis://h:6380", False),
        ("redis://h", "redis://h2", False),
        ("unix:///run/redis.sock", "unix:///run/other.sock", False),
        ("redis+sentinel://a:26379/main", "redis+sentinel://a:26379/other", False),
        ("redis://[", "redis://[", False),
        ("", "", False),
    ],
)
def test_same(one: str, other: str, same: bool) -> None:
    assert is_same(one, other) is is_same(other, one) is same


@pytest.mark.parametrize("url", ["redis://redis.shop.example/3", "rediss://me:pw@redis.shop.example:6379/3"])
def test_a_url_of_a_production_context_is_that_context(url: str) -> None:
    target = read_text(PRODUCTION).target_at(url)
    assert (target.name, target.is_production, target.read_only, target.url) == ("shop", True, False, url)


@pytest.mark.parametrize("url", ["redis://redis.shop.example", "redis://staging.example", "redis://elsewhere"])
def test_another_url_is_nobodys(url: str) -> None:
    target = read_text(PRODUCTION).target_at(url)
    assert (target.name, target.is_production, target.url) == (None, False, url)
