"""Every form of URL: what is read from it, what is wrong with it, and that no password is ever shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdeck import QdeckError
from qdeck._redis import Endpoint
from qdeck._redis.address import Node, Topology, read_url
from qdeck.admin import mask_url

SECRET = "S3CRET"


def test_a_url_of_sentinels() -> None:
    address = read_url(
        "redis+sentinel://u:pw@h1,h2:7000,[::1]:7001/my%20master/3?sentinel_password=sp&socket_timeout=2"
    )
    assert address.kind is Topology.SENTINEL
    assert address.seeds == (Node("h1", 26379, True), Node("h2", 7000, True), Node("::1", 7001, True))
    assert address.service == "my master"
    assert (address.options["username"], address.options["password"], address.options["db"]) == ("u", "pw", 3)
    assert address.options["socket_timeout"] == 2.0
    assert "db" not in address.sentinel_options
    assert (address.sentinel_options.get("username"), address.sentinel_options["password"]) == (None, "sp")


def test_a_url_of_a_cluster() -> None:
    address = read_url("redis+cluster://:pw@h1:7000,h2/0")
    assert (address.kind, address.seeds) == (Topology.CLUSTER, (Node("h1", 7000), Node("h2", 6379)))
    assert address.options["password"] == "pw"
    assert Endpoint("redis+cluster://h1").is_cluster
    assert not Endpoint("redis://h1").is_cluster


@pytest.mark.parametrize("scheme", ["rediss+sentinel://h/s", "rediss+cluster://h"])
def test_tls_is_for_all_of_them(scheme: str) -> None:
    endpoint = Endpoint(f"{scheme}?ssl_ca_certs=/etc/ca.pem")
    assert endpoint.address.seeds
    for seed in endpoint.address.seeds:
        connection = endpoint.blocking_connection(seed)
        assert type(connection).__name__ == "SSLConnection"
        assert connection.ca_certs == "/etc/ca.pem"  # type: ignore[attr-defined]  # an SSLConnection has it


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis+cluster://h/3", "no databases"),
        ("redis+cluster://h,,i", "host is missing"),
        ("redis://h%00x", "null character"),
        ("unix:///run/redis.sock%00x", "null character"),
        ("redis+sentinel://h,i%00/s", "null character"),
        ("redis+cluster://h:0", "port is not a number"),
        ("redis+cluster://h:70000", "port is not a number"),
        ("redis+cluster://h:x", "port is not a number"),
        ("redis+sentinel://h", "name of the service is missing"),
        ("redis+sentinel://h/s/x", "database is not a number"),
        ("redis+other://h", "no server URL"),
        ("http+cluster://h", "no server URL"),
        ("redis+cluster://", "host is missing"),
        ("redis://h/x", "database is not a number"),
        ("redis://h/²", "database is not a number"),
        ("redis://h?db=x", "database is not a number"),
        ("redis+cluster://h?db=3", "no databases"),
        ("redis+cluster://::1", "needs brackets"),
        ("redis+sentinel://::1:26379/s", "needs brackets"),
        ("unix://", "path of the socket file is missing"),
        ("redis://h?colour=red", "colour is not an option"),
        ("redis://h?connection_class=x", "connection_class is not an option"),
        ("redis+cluster://h?sentinel_password=x", "sentinel_password works only with redis+sentinel"),
        ("redis://h?ssl_ca_certs=/ca.pem", "ssl_ca_certs needs TLS"),
        ("rediss://h?ssl_cert_reqs=sometimes", "ssl_cert_reqs is not one of"),
        ("redis://h?socket_timeout=0", "socket_timeout is not a number of seconds"),
        ("redis://h?socket_connect_timeout=inf", "socket_connect_timeout is not a number of seconds"),
        ("redis://:pa?secret=b@h", "something else is not an option"),
        ("h:6379", "no server URL"),
    ],
)
def test_what_is_wrong_is_told(url: str, why: str) -> None:
    with pytest.raises(QdeckError) as caught:
        Endpoint(url)
    if why != "no server URL":
        assert why in str(caught.value)
    assert "redis+sentinel://" in caught.value.hint


def test_options_of_other_programs_do_no_harm() -> None:
    url = "redis://h?max_connections=9&timeout=2&retry_on_timeout=yes&protocol=3&decode_responses=yes&encoding=latin-1"
    for connection in (Endpoint(url).blocking_connection(), Endpoint(url).async_connection()):
        assert connection.encoder.decode_responses is False
        assert connection.encoder.encoding == "utf-8"


def test_a_time_out_that_the_url_names_holds_for_both_clients() -> None:
    assert Endpoint("redis+cluster://h?socket_timeout=17").timeout == 17.0
    assert Endpoint("redis://h?socket_timeout=17", timeout=3.0).timeout == 17.0
    assert Endpoint("redis://h", timeout=3.0).timeout == 3.0


def test_what_is_shown_can_be_read_again() -> None:
    for url in ("unix:///run/redis.sock", "redis://h:1/2", "redis://[::1]:1/2", "redis+sentinel://h,i:2/m/3"):
        assert mask_url(url) == url
        Endpoint(mask_url(url))


@pytest.mark.parametrize("scheme", ["redis", "rediss", "unix", "redis+sentinel", "redis+cluster", "rediss+cluster"])
@pytest.mark.parametrize("torn", ["", "/", "?", "#", "@", ":", "//", "[", "]"])
@pytest.mark.parametrize("user", ["", "me"])
def test_a_password_is_never_shown(scheme: str, torn: str, user: str) -> None:
    """Also where it holds characters that should have been escaped and are not."""
    half = SECRET[:3] + torn + SECRET[3:]
    for url in (
        f"{scheme}://{user}:{half}@host:1/name",
        f"{scheme}://{user}:{half}@host:1/name?sentinel_password={half}",
    ):
        shown = mask_url(url)
        try:
            shown += str(Endpoint(url)) + repr(Endpoint(url)) + repr(Endpoint(url).address)
        except QdeckError as error:
            shown += f"{error}{error.hint}{error.__cause__}"
        assert SECRET[:3] not in shown
        assert SECRET[3:] not in shown


@pytest.mark.parametrize(
    "text",
    [SECRET, f"{SECRET}:6379", f"me:{SECRET}", f"{SECRET}@host:6379", f"redis:{SECRET}", f"redis:/{SECRET}",
     f"//{SECRET}", f"http://{SECRET}@host", f"redis://{SECRET}@host", f"{SECRET}://host"],
)  # fmt: skip
def test_a_word_that_is_no_url_is_not_echoed(text: str) -> None:
    """It may be the password, put in the place of the URL."""
    shown = mask_url(text)
    try:
        shown += str(Endpoint(text)) + repr(Endpoint(text))
    except QdeckError as error:
        shown += f"{error}{error.hint}{error.__cause__}"
    assert SECRET not in shown


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    mask_url(text)
    try:
        Endpoint(text)
    except QdeckError:
        return
