"""What is masked in texts: the value after a well-known name, all of it, and nothing else."""

from __future__ import annotations

import json
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdeck._deck import masking, payload
from qdeck._deck.masking import MASK, mask_text
from qdeck._operations.editing import unmask

NAMES = (
    "password", "Passwords", "passwd", "PWD", "passphrase", "secret", "client_secret", "token", "access-token",
    "X-Auth-Token", "api_key", "apiKey", "API key", "access_key", "privateKey", "aws_secret_access_key", "session_id",
    "signature", "credentials", "Authorization", "token:token", "DB_PASS",
)  # fmt: skip
SIGNS = ("=", ": ", ":", " = ", "=>", " => ", " := ", " == ")
# What a token or a generated password is made of. It holds a digit and a letter, so that it is no word of a text.
values = st.text(string.ascii_letters + string.digits + "._~+/-!$%^*?#@", min_size=3, max_size=60).map(
    lambda text: f"q7{text}7q"
)
plain = st.text(st.characters(codec="utf-8"), max_size=200)


def clean(text: str) -> str:
    """Without what could be a name."""
    low = text.lower()
    return "" if any(hint in low for hint in masking._HINTS) or "://" in text else text


@given(st.sampled_from(NAMES), st.sampled_from(SIGNS), values, plain, plain)
def test_no_value_gets_through(name: str, sign: str, value: str, before: str, after: str) -> None:
    before, after = clean(before).replace(value, ""), clean(after).replace(value, "")
    for told in (value, f'"{value}"', f"'{value}'", f'\\"{value}\\"', f"b'{value}'"):
        text = f"{before} {name}{sign}{told} {after}"
        shown = mask_text(text)
        assert value not in shown
        assert MASK in shown
        assert shown.startswith(before)
        assert mask_text(shown) == shown, "what is masked stays as it is"


@given(values, plain, plain)
def test_no_quoted_value_gets_through_in_json(value: str, before: str, after: str) -> None:
    """A record as JSON in a text, and that as JSON in another: with quotes and escapes of whatever is inside."""
    secret = f"{value} {clean(before)}\"'\\{value}"
    record = json.dumps({"a": clean(after), "password": secret, "b": "seen"})
    for text in (record, json.dumps({"log": record})):
        shown = mask_text(text)
        assert value not in shown
        assert "seen" in shown


@given(values)
def test_headers_and_urls(value: str) -> None:
    for text in (
        f"Authorization: Bearer {value}", f"authorization=Basic {value}", f'-H "Authorization: token {value}"',
        f"Proxy-Authorization: Digest username=u, response={value}", f"Cookie: a=b; sid={value}",
        f"GET /x?page=2&access_token={value.replace('&', '')}&to=3", f"the key vmpooler__token__{value}",
        f"refused Bearer {'x' * 20}{value.translate(str.maketrans('', '', '!$%^*?#@'))}",
        f"redis://user:{value.translate(str.maketrans('', '', '@/'))}@host/0",
    ):  # fmt: skip
        shown = mask_text(text)
        assert value not in shown
        assert value.translate(str.maketrans("", "", "!$%^*?#@/")) not in shown
        assert MASK in shown


@given(st.sampled_from(("password", "db-password", "api-key", "auth_token", "client-secret", "credentials")), values)
def test_the_next_word_of_a_command_line_and_the_next_text_of_a_list(name: str, value: str) -> None:
    words = ["tool", f"--{name}", value, "seen"]
    for text in (" ".join(words), repr(words), json.dumps(words), json.dumps({"log": json.dumps(words)})):
        shown = mask_text(text)
        assert value not in shown
        assert "seen" in shown
        assert mask_text(shown) == shown
    assert payload.mask(words) == ["tool", f"--{name}", MASK, "seen"]
    for header in ("Authorization", "X-Api-Key", "x-auth-token", "Set-Cookie"):
        assert mask_text(repr([(header, value), ("Accept", "seen")])) == repr([(header, MASK), ("Accept", "seen")])


PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEq7\nq7==\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"read {PEM} of it", "read -----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY----- of it"),
        (json.dumps({"k": PEM}), '{"k": "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----"}'),
        (PEM[:40], "-----BEGIN RSA PRIVATE KEY-----***"),
        ("<a:Password Type='x'>q7</a:Password><b>1</b>", "<a:Password Type='x'>***</a:Password><b>1</b>"),
        ("redis://me:q@7/@host", "redis://me:***@7/@host"),  # a path begins there
        ("redis://me:q@7@host/0 <a@b>", "redis://me:***@host/0 <a@b>"),
        (f"https://{'q7' * 10}@host/x", "https://***@host/x"),
        (f"https://{'q7' * 10}:@host/x", "https://***:@host/x"),
        ("https://h/x?sig=q7&to=1&auth=q7", "https://h/x?sig=***&to=1&auth=***"),
        (f"https://h/x?key={'q7' * 8}", "https://h/x?key=***"),
        ("auth_key=q7 jwt: q7", "auth_key=*** jwt: ***"),
    ],
)  # fmt: skip
def test_keys_elements_and_logins(text: str, shown: str) -> None:
    assert mask_text(text) == shown
    assert mask_text(shown) == shown


@given(plain)
def test_texts_without_a_name_stay_as_they_are(text: str) -> None:
    text = clean(text)
    assert mask_text(text) is text


@pytest.mark.parametrize(
    "text",
    [
        "the token expired", "wrong password", "Unexpected token: <EOF>", "max_tokens: 4096", "PWD=/srv/app",
        "password=None", "password:", 'token=""', "secret://vault/x", "tokenize: yes", "the key is gone",
        "keys: a, b", "session closed", "password: ***", "a = b, c: d",
        "token ring", "token ring: broken", "passwordless: yes", "password: required", "token: expired.",
        "credentials: not found", "/etc/passwd: no such file", "use --password to give one", "--password-file /x",
        "--token --verbose", "['token', 'ring']", "<token/>", "ssh://git@host/x", "http://h/x?key=name", "secret santa",
        "http://host:80 and a@b", '{"u": "http://host:80", "m": "a@b"}', "-----BEGIN PUBLIC KEY-----\nMIIE",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask_text(text) == text


def test_only_the_value_is_replaced() -> None:
    text = 'login failed for bob (password=hunter2), retry in 5 s; {"token": "abc", "user": "bob"} at http://h/x?a=1'
    wanted = 'login failed for bob (password=***), retry in 5 s; {"token": "***", "user": "bob"} at http://h/x?a=1'
    assert mask_text(text) == wanted


def test_payloads_too_and_an_edit_puts_it_back() -> None:
    body = {"note": "token=abc123 for you", "list": ["password: x"], "n": 1}
    shown = payload.mask(body)
    assert shown == {"note": "token=*** for you", "list": ["password: ***"], "n": 1}
    assert unmask(shown, body) == body


@pytest.mark.parametrize(
    "unit",
    ["a", "token=", 'token="', "token='", 'token=\\"', 'password="\\', ":=>", "api key ", "\\", '"', "Bearer ", "pass",
     "session   id", "cookie=x\n", 'token=\\\\\\"x\n', "://a:b", "authorization: ",
     "--password ", "'--token', ", "<password>x", "-----BEGIN PRIVATE KEY-----x", "'x-", "?sig=", "://a:b@", "<a"],
)  # fmt: skip
def test_the_time_is_in_proportion_to_the_length(unit: str) -> None:
    """Ten times the length takes about ten times the work of this processor, not a hundred times."""

    def took(size: int) -> float:
        text = unit * (size // len(unit))
        best = 60.0
        for _ in range(4):
            began = time.thread_time()
            mask_text(text)
            best = min(best, time.thread_time() - began)
        return best

    assert took(100_000) < 50 * max(took(10_000), 0.000_5)
