"""What is masked in texts: the value after a well-known name, all of it, and nothing else."""

from __future__ import annotations

import json
import string
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdeck import InvalidOption
from qdeck._model import masking, payload
from qdeck._model.secret_names import MASK
from qdeck._model.unmasking import unmask
from qdeck.admin import JobRecord, mask_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = (
    "password", "Passwords", "passwd", "PWD", "passphrase", "secret", "client_secret", "token", "access-token",
    "X-Auth-Token", "api_key", "apiKey", "API key", "access_key", "privateKey", "aws_secret_access_key",
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
    return "" if masking.may_hold_secrets(text.encode()) else text


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


SECRET_FIELDS = (
    "pass", "password1", "passwordConfirm", "passwordConfirmation", "password_hash", "secret_value", "token2", "otp",
    "pin", "auth", "userPin", "pin_code", "otpCode", "db_pass", "PGPASSWORD", "MYSQL_PWD", "password_old",
    "token_github",
    "apiKey2", "API_KEY_1", "client-secret", "githubToken", "totp", "cvv", "userpassword",
    "secretForBilling", "X-Api-Key",
)  # fmt: skip
OPEN_FIELDS = (
    "session_id", "sessionId", "password_length", "passwordChangedAt", "token_type", "tokenizer", "secret_name", "key",
    "compass", "shipping", "spin", "author", "authority", "oauth_provider", "bypass", "keyboard", "monkey",
    "access_key_id", "password_reset_url", "otter", "passenger", "authenticated", "token_count", "pinned",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRET_FIELDS)
def test_fields_that_hold_secrets(name: str) -> None:
    assert payload.mask({name: "hunter2x9", "b": 1}) == {name: MASK, "b": 1}
    for text in (f"{name}=hunter2x9", f'{{"{name}": "hunter2x9"}}', f"a {name}: hunter2x9 b"):
        shown = mask_text(text)
        assert "hunter2x9" not in shown
        assert mask_text(shown) == shown


@pytest.mark.parametrize("name", OPEN_FIELDS)
def test_fields_that_are_about_something_else(name: str) -> None:
    assert payload.mask({name: "hunter2x9"}) == {name: "hunter2x9"}
    for text in (f"{name}=hunter2x9", f'{{"{name}": "hunter2x9"}}'):
        assert mask_text(text) == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"name": "password", "value": "q7", "n": 1}, {"name": "password", "value": MASK, "n": 1}),
        ([{"Key": "DB_TOKEN", "Value": ["q7"]}], [{"Key": "DB_TOKEN", "Value": MASK}]),
        ({"name": "region", "value": "eu"}, {"name": "region", "value": "eu"}),
        ({"auth": "Basic cTc6cTc="}, {"auth": MASK}),
        ({"auth": ["me", "q7"], "auths": {"user": "me"}}, {"auth": MASK, "auths": {"user": "me"}}),
        ({"auth": {"user": "me", "pass": "q7"}}, {"auth": {"user": "me", "pass": MASK}}),
        ({"pass": 12, "max_tokens": 4096, "otp": 123456}, {"pass": 12, "max_tokens": 4096, "otp": MASK}),
        ({"pass": True, "auth": None}, {"pass": True, "auth": None}),
        (["curl", "-u", "me:q7", "-X", "GET"], ["curl", "-u", f"me:{MASK}", "-X", "GET"]),
        (["/usr/bin/curl", "-ume:q7", "--user", "a"], ["/usr/bin/curl", f"-ume:{MASK}", "--user", "a"]),
        (["mysql", "-uroot", "-pq7", "-p", "db"], ["mysql", "-uroot", f"-p{MASK}", "-p", "db"]),
        (["sudo", "sshpass", "-p", "q7", "ssh"], ["sudo", "sshpass", "-p", MASK, "ssh"]),
        (["redis-cli", "-a", "q7"], ["redis-cli", "-a", MASK]),
        (["Authorization", "Basic q7"], ["Authorization", MASK]),
    ],
)  # fmt: skip
def test_values_by_what_stands_beside_them(value: object, shown: object) -> None:
    assert payload.mask(value) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("curl -u me:q7 http://h/", "curl -u me:*** http://h/"),
        ("run curl -sS --user 'me:q7' h", "run curl -sS --user 'me:***' h"),
        ("mysql -uroot -pq7 -h db shop", "mysql -uroot -p*** -h db shop"),
        ("mysqldump -p'q7 x", "mysqldump -p'*** x"),
        ("sshpass -p q7 ssh host", "sshpass -p *** ssh host"),
        ("redis-cli -h h -a q7 ping", "redis-cli -h h -a *** ping"),
        ("['curl', '-u', 'me:q7']", "['curl', '-u', 'me:***']"),
        ("got Basic cTc6cTc= from him", "got Basic *** from him"),
        ("Basic authentication is needed", "Basic authentication is needed"),
        ('[{"name": "password", "value": "q7"}, {"name": "region", "value": "eu"}]',
         '[{"name": "password", "value": "***"}, {"name": "region", "value": "eu"}]'),
        ("cp -p file mysqlx", "cp -p file mysqlx"),
        ("session_id=abc123 user=me", "session_id=abc123 user=me"),
        ("pass: 12 fail: 3", "pass: 12 fail: 3"),
    ],
)  # fmt: skip
def test_command_lines_rows_and_schemes(text: str, shown: str) -> None:
    assert mask_text(text) == shown
    assert mask_text(shown) == shown


def test_names_and_tags_of_jobs_are_masked_like_texts() -> None:
    shown = JobRecord(
        id="1", key="native/a/1", queue="a", state="dead", native_state="dead_letter", name="login password=q7",
        tags=("tier:free", "token:q7", "plain"),
    )  # fmt: skip
    assert (shown.name, shown.tags) == ("login password=***", ("tier:free", "token:***", "plain"))
    assert "q7" not in shown.text()


@pytest.fixture
def configured() -> Iterator[Callable[..., None]]:
    yield masking.configure
    masking.configure()


def test_patterns_of_a_configuration(configured: Callable[..., None]) -> None:
    configured(add=["session_id", "*_iban"], exempt=["idempotency_token", "*_csrf_token"])
    value = {
        "sessionId": "q7",
        "customer_iban": "q7",
        "idempotency-token": "seen",
        "my_csrf_token": "seen",
        "token": "q7",
    }
    shown = {**dict.fromkeys(value, MASK), "idempotency-token": "seen", "my_csrf_token": "seen"}
    assert payload.mask(value) == shown
    assert mask_text("session_id=q7 customer_iban: q7x idempotency_token=seen token=q7") == (
        "session_id=*** customer_iban: *** idempotency_token=seen token=***"
    )
    assert masking.may_hold_secrets(b'[[], {"sessionId": "q7"}]')
    configured()
    assert payload.mask({"session_id": "seen", "idempotency_token": "q7"}) == {
        "session_id": "seen",
        "idempotency_token": MASK,
    }


@pytest.mark.parametrize("wrong", ["", "*", "**", "a*b*c*d", "(a+)+$", "x" * 101, "é", "[a]"])
def test_a_pattern_that_could_take_long_or_match_all_is_refused(configured: Callable[..., None], wrong: str) -> None:
    with pytest.raises(InvalidOption, match=r"masking\.exempt"):
        configured(exempt=[wrong])


# Beginnings of secrets, names, quotes, flags and blanks that lead nowhere: what is tried at each and given up.
UNITS = (
    "a", "token=", 'token="', "token='", 'token=\\"', 'password="\\', ":=>", "api key ", "\\", '"', "Bearer ", "pass",
    "session   id", "cookie=x\n", 'token=\\\\\\"x\n', "://a:b", "authorization: ",
    "--password ", "'--token', ", "pin", "otp_", "auth:", "curl -u a:b ", "mysql -p",
    '"name": "password", "value": "x', "key ", "basic YTpi ", "<password>x",
    "-----BEGIN PRIVATE KEY-----x", "'x-", "?sig=", "://a:b@", "<a",
    "key.", "token_", "a_password_", '"name": "password", "value": ', "curl -u ", "Basic aaaa", "-u a", 'pass"',
    "pass   ", "pass\\\\", "otp:", "--password-", "curl -u" + "x" * 60, "sshpass -p '", "auth",
    "token=f((", "token=(", "token={", "token=['", "password: |\n  x\n", "<a key='password' value=", "<a name='token'>",
    "('token', ", "name: password\n value: ", '"value": "x", "name": "token", ', '"name": "token", "type": "x", ',
    "curl -u", "docker login -p", "docker ", "smbclient -U a%", "eyJabcdefgh.", "sk-", "sqlplus -a ", "a:b@",
    "://a:b/c@", "login a password ", "token is ", "password '", "%22token%22%3A", "--a b ", "token: Optional[",
    "authorization: a b ", "token=${a", '"token":\n', "e", "token[",
)  # fmt: skip


def mask_values(text: str) -> None:
    payload.mask({text: text, "l": ["curl", text], "name": text, "value": text})


@pytest.mark.parametrize("mask", [mask_text, mask_values])
@pytest.mark.parametrize("unit", UNITS)
def test_the_time_is_in_proportion_to_the_length(unit: str, mask: Callable[[str], object]) -> None:
    """Ten times the length takes about ten times the work of this processor, not a hundred times."""

    def took(size: int) -> float:
        text = unit * (size // len(unit))
        best = 60.0
        for _ in range(3):
            began = time.thread_time()
            mask(text)
            best = min(best, time.thread_time() - began)
        return best

    assert took(50_000) < 50 * max(took(5_000), 0.000_5)
