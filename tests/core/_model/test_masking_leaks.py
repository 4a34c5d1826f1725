"""Secrets as people have them in payloads, messages, logs and command lines, as programs write them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from qdeck import UsageError
from qdeck._model import masking, payload
from qdeck._model.secret_names import MASK
from qdeck._model.unmasking import unmask
from qdeck.admin import mask_text

Q7 = "S3cr3tQ9xZ"
LONG = Q7 * 4

COMMANDS = (
    "mongo -u me -p {q} --authenticationDatabase admin", "mongodump -p={q} shop",
    "ldapsearch -x -D cn=a -w {q} -b dc=x",
    "ldapmodify -w '{q}' x", "docker login -u me -p {q} registry", "docker login -u me -p{q} registry",
    "helm registry login -u me -p {q} h", "az login -u me -p {q}", "curl -sSu me:{q} http://h", 'curl -su "me:{q}" h',
    "curl -sS \\\n  -u me:{q} http://h", "aws configure set aws_secret_access_key {q}", "sqlcmd -U sa -P {q}",
    "bcp -P{q}",
    "smbclient -U me%{q} //h/x", "twine upload -u me -p {q}", "redis-cli --pass {q}", "valkey-cli -a {q}",
    "rclone --ftp-pass {q} ls", "sqlplus scott/{q}@db", "jdbc:oracle:thin:scott/{q}@//db:1521/x",
    "me:{q}@tcp(db:3306)/shop", "machine h login me password {q}", "ALTER USER me WITH PASSWORD '{q}'",
    "CREATE USER me IDENTIFIED BY '{q}'", "CONFIG SET requirepass {q}",
)  # fmt: skip
VALUES = (
    "  password: |\n    {q}\n    {q}\nx: 1", "  password: >-\n    {q}", 'password = """\n{q}\n"""',
    '{{\n  "password":\n    "{q}"\n}}', '"passwords": ["a", "{q}"]', "passwords: [a, {q}]",
    '{{"credentials": {{"user": "me", "x": "{q}"}}}}', "[('user', 'me'), ('api_key', '{q}')]", "auth=('me', '{q}')",
    "auth=HTTPBasicAuth('me', '{q}')", "password=os.getenv('X', '{q}')", "password: 'abc''{q}'",
    'password="abc""{q}"',
    "token: str = '{q}'", "password: Optional[str] = '{q}'", 'token != "{q}"', "token=({q})", "token: [{q}]",
    "authorization: [ 'Bearer {q}' ]", "'authorization': ['Bearer {q}']", "Authorization: Bot {q}",
    "Authorization: SSWS {q}", "Authorization: AWS AKID:{q}", 'Authorization: Token token="{q}", email="x"',
    "Ocp-Apim-Subscription-Key: {q}", "password -> {q}", "password \u2192 {q}", "password\uff1a{q}",
    "password            : {q}", "user%3Dme%26password%3D{q}%26x", "%22password%22%3A%22{q}%22",
    "user%5Bpassword%5D={q}",
    "password[0]={q}", "DETAIL:  Key (api_token)=({q}) already exists.", "Incorrect API key provided: {q}. See",
    'wrong password "{q}" for me', "the password is {q}", "your PIN was {q}", "pswd={q}", 'db_creds: "{q}"',
    "ssh_key={q}",
    "HmacKey: {q}", "client-key-data: {q}", "amqps://me:S3/{q}@mq:5672/v", "SharedAccessSignature sr=x&sig={q}&se=1",
)  # fmt: skip
TABLES = (
    "<password><![CDATA[{q}]]></password>", '<add key="password" value="{q}"/>',
    "<add name='DbPassword' value='{q}'/>",
    '<property name="hibernate.connection.password">{q}</property>', "<otp>{q}</otp>", "<pass>{q}</pass>",
    '{{"value": "{q}", "name": "password"}}', '{{"key": "password", "type": "string", "value": "{q}"}}',
    "- name: DB_PASSWORD\n  value: {q}", '- name: DB_PASSWORD\n  value: "{q}"', "name=password value={q}",
    "ParameterKey=DbPassword,ParameterValue={q}",
)  # fmt: skip
TOKENS = (
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{q}", "sk_live_51{q}", "ghp_{q}", "github_pat_11AB_{q}",
    "glpat-{q}",
    "xoxb-123456789012-{q}", "AIza{q}", "sk-proj-{q}", "AGE-SECRET-KEY-1{q}",
)  # fmt: skip


@pytest.mark.parametrize("text", [*COMMANDS, *VALUES, *TABLES])
def test_no_secret_is_shown(text: str) -> None:
    plain = text.format(q=Q7)
    inside = () if "\n" in plain or '""' in plain else (json.dumps({"log": plain}, ensure_ascii=False),)
    for told in (plain, *inside):
        shown = mask_text(told)
        assert Q7 not in shown
        assert MASK in shown
        assert mask_text(shown) == shown, "what is masked stays as it is"
        assert masking.may_hold_secrets(told.encode())


@pytest.mark.parametrize("text", TOKENS)
def test_a_token_that_is_known_by_its_look_needs_no_name(text: str) -> None:
    token = text.format(q=LONG)
    assert mask_text(f"got {token} from it") == f"got {MASK} from it"
    assert mask_text(token) == MASK
    assert masking.may_hold_secrets(token.encode())
    assert "services/***" in mask_text(f"POST https://hooks.slack.com/services/T00/B00/{LONG}")


def test_json_in_json_as_deep_as_it_is_found() -> None:
    text = json.dumps({"password": Q7, "b": "seen"})
    for _ in range(5):
        assert Q7 not in mask_text(text)
        assert "seen" in mask_text(text)
        text = json.dumps({"log": text})


@pytest.mark.parametrize(
    "text",
    [
        "def f(token: str, password: Optional[str] = None)", "auth: ok", "auth: enabled", "password: ${DB_PASSWORD}",
        "token={{ vault.token }}", "docker run -p 8080:80 x; docker login", "docker run -u 1000:1000 curl",
        "sudo -u postgres:x curl -o y", "tokens: [1, 2, 3]", "password is too short", "the token is expired",
        "Unexpected token 'x'", 'secret "db" not found', "Authorization: required for this", "<token/>", "a - b -c",
        "('password', 'required', 3)", "sk-learn is here", "the key is 4096 bits", "curl -u admin: h",
        "http://host:80/a/b@c", "key: {a}",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask_text(text) == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({f"token={Q7} for": 1}, {"token=*** for": MASK}),
        ({f"redis://u:{Q7}@h": 1, "redis://u:other@h": 2}, {"redis://u:***@h": 1, "redis://u:***@h (2)": 2}),
        ({"label": "password", "value": Q7}, {"label": "password", "value": MASK}),
        ({"ParameterKey": "DbPassword", "ParameterValue": Q7}, {"ParameterKey": "DbPassword",
    "ParameterValue": MASK}),
        ({"type": "password", "data": {"a": Q7}}, {"type": "password", "data": MASK}),
        ([["api_key", Q7], ["n", 1]], [["api_key", MASK], ["n", 1]]),
        (["ldapsearch", "-w", Q7], ["ldapsearch", "-w", MASK]),
        (["sudo", "docker", "login", f"-p{Q7}"], ["sudo", "docker", "login", f"-p{MASK}"]),
        (["docker", "run", "-p", "80:80"], ["docker", "run", "-p", "80:80"]),
        ({"has_password": True, "token_ids": [1], "max_tokens": [1, 2]},
         {"has_password": True, "token_ids": [1], "max_tokens": [1, 2]}),
        (base64.b64encode(json.dumps([[1], {"password": Q7}]).encode()).decode(), MASK),
        (base64.b64encode(json.dumps({"password": Q7}).encode()).decode(), MASK),
        (base64.b64encode(b'{"a": "seen by all"}').decode(), base64.b64encode(b'{"a": "seen by all"}').decode()),
    ],
)  # fmt: skip
def test_values_of_payloads(value: Any, shown: Any) -> None:
    assert payload.mask(value) == shown
    assert unmask(payload.mask(value), value) == value


ROWS = [{"name": "password", "value": "A"}, {"name": "token", "value": "B"}, {"name": "region", "value": "eu"}]


def test_an_edit_restores_rows_that_moved() -> None:
    shown: Any = payload.mask(ROWS)
    assert unmask(shown[::-1], ROWS) == ROWS[::-1]
    assert unmask(shown[1:], ROWS) == ROWS[1:]
    assert unmask([{"name": "new", "value": 1}, *shown], ROWS) == [{"name": "new", "value": 1}, *ROWS]
    assert unmask([{**shown[1], "n": 2}, {**shown[0], "n": 1}], ROWS) == [{**ROWS[1], "n": 2}, {**ROWS[0], "n": 1}]
    words = ["--password", "A", "--token", "B", "-v"]
    masked: Any = payload.mask(words)
    assert unmask(["-x", *masked], words) != ["-x", "--password", "B", "--token", "A", "-v"]
    same = [{"password": "A"}, {"password": "A"}]
    assert unmask([{"password": MASK}], same) == [{"password": "A"}]


@pytest.mark.parametrize(
    ("value", "before"),
    [
        ([{"password": MASK}], [{"password": "A"}, {"password": "B"}]),
        ([{"password": MASK}] * 3, [{"password": "A"}, {"password": "B"}]),
        ({"pass_of_it": MASK}, {"password": "A"}),
        ({"note": "token=*** and more"}, {"note": "token=A"}),
        ([MASK, "x", MASK], [1]),
    ],
)
def test_an_edit_never_guesses_which_secret_is_meant(value: Any, before: Any) -> None:
    with pytest.raises(UsageError, match=r"masked|secret"):
        unmask(value, before)


def test_stars_that_hide_nothing_are_text() -> None:
    assert unmask({"note": "*** new ***"}, {"note": "*** old ***"}) == {"note": "*** new ***"}
    assert unmask({"more": "a *** b"}, {}) == {"more": "a *** b"}
