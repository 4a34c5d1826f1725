"""Who may open the console in a browser: a token, or users with passwords. Secrets come from files or the environment,
never from an argument, which other users of the machine can read.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from qdeck import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN_VARIABLE: Final = "QDECK_SERVE_TOKEN"  # noqa: S105 - the name of a variable
USERS_VARIABLE: Final = "QDECK_SERVE_USERS"
SECRETS: Final = (TOKEN_VARIABLE, USERS_VARIABLE)
SESSION_S: Final = 12 * 3600
LEAST_SECRET: Final = 16  # characters of a token
LEAST_PASSWORD: Final = 10
MOST_SECRET: Final = 1024
FAILURES: Final = 10  # of one address in a minute; then it has to wait
_MINUTE: Final = 60.0
_MOST_SESSIONS: Final = 200
_MOST_ADDRESSES: Final = 1000
_MOST_FILE: Final = 1 << 20
_COST: Final = (1 << 15, 8, 1)  # of a new hash: 32 MB and a tenth of a second
_LINE: Final = re.compile(
    r"([^\s:$]{1,64}):scrypt\$(\d{1,8})\$(\d{1,3})\$(\d{1,3})\$([\w+/=-]{16,128})\$([\w+/=-]{32,200})", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Password:
    """The scrypt hash of a password."""

    n: int
    r: int
    p: int
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    def fits(self, text: str) -> bool:
        """Return whether the password is right, in the same time either way."""
        return hmac.compare_digest(_scrypt(text, self.salt, self.n, self.r, self.p, len(self.digest)), self.digest)


def hash_password(user: str, password: str) -> str:
    """A line for the file of users."""
    if len(password) < LEAST_PASSWORD:
        hint = f"Give at least {LEAST_PASSWORD} characters"
        raise InvalidOption(f"the password has only {len(password)} characters", hint=hint)
    salt = secrets.token_bytes(16)
    digest = _scrypt(password, salt, *_COST, 32)
    n, r, p = _COST
    line = f"{user}:scrypt${n}${r}${p}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
    _ = read_users(line, "the user name")
    return line


def read_users(text: str, where: str) -> dict[str, Password]:
    """The users of lines `NAME:scrypt$N$R$P$SALT$HASH`; errors name the line, never what it holds."""
    users: dict[str, Password] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        hint = "Make one with qdeck serve --new-user NAME."
        if found is None:
            raise InvalidOption(f"{where}: line {number} is not NAME:scrypt$N$R$P$SALT$HASH", hint=hint)
        name, n, r, p = found[1], int(found[2]), int(found[3]), int(found[4])
        if not (1 << 14 <= n <= 1 << 20 and n & (n - 1) == 0 and 8 <= r <= 32 and 1 <= p <= 16 and n * r <= 1 << 21):
            raise InvalidOption(f"{where}: line {number} has a scrypt cost out of range", hint=hint)
        if name in users:
            raise InvalidOption(f"{where}: line {number} repeats a user", hint="Keep one line for each user.")
        try:
            users[name] = Password(n, r, p, base64.b64decode(found[5]), base64.b64decode(found[6]))
        except binascii.Error as error:
            raise InvalidOption(f"{where}: line {number} is not base64", hint=hint) from error
    return users


def _scrypt(text: str, salt: bytes, n: int, r: int, p: int, length: int) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(raw, salt=salt, n=n, r=r, p=p, dklen=length, maxmem=256 * r * (n + p) + (1 << 20))


def _read_secret_file(path: str) -> str:
    """The text of a file that other users of the machine cannot read or change."""
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise InvalidOption(f"{path} is not a file")
            if mode & (stat.S_IRWXO | stat.S_IWGRP):
                hint = f"Run chmod 600 {path}"
                raise InvalidOption(f"{path} can be read or changed by other users: mode {mode & 0o777:o}", hint=hint)
            return file.read(_MOST_FILE).decode("utf-8")
    except OSError as error:
        raise InvalidOption(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidOption(f"{path} is not UTF-8") from error


class Login:
    """Checks tokens and passwords, and keeps the sessions of those who logged in."""

    def __init__(self, token: str | None = None, users: Mapping[str, Password] | None = None) -> None:
        if token is not None and not LEAST_SECRET <= len(token) <= MOST_SECRET:
            hint = f"Give {LEAST_SECRET} to {MOST_SECRET:,} characters, such as the output of `openssl rand -hex 32`"
            raise InvalidOption(f"the token has {len(token):,} characters", hint=hint)
        self._token = None if token is None else _digest(token)
        self._users = dict(users or {})
        self._nobody = Password(*_COST, secrets.token_bytes(16), secrets.token_bytes(32))
        self._sessions: dict[bytes, float] = {}
        self._failures: dict[str, list[float]] = {}
        self._hashing = asyncio.Semaphore(1)  # a password check takes 32 MB: one at a time
        self._waiting = 0

    @classmethod
    def read(cls, token_file: str | None, users_file: str | None, environment: Mapping[str, str] = os.environ) -> Login:
        """The login that files and the environment name; an empty variable is none."""
        token = _read_secret_file(token_file).strip() if token_file else environment.get(TOKEN_VARIABLE) or None
        if users_file:
            users = read_users(_read_secret_file(users_file), users_file)
            if not users:
                raise InvalidOption(f"{users_file} has no user", hint="Add one with qdeck serve --new-user NAME.")
        else:
            users = read_users(environment.get(USERS_VARIABLE, ""), USERS_VARIABLE)
        return cls(token, users)

    @property
    def is_needed(self) -> bool:
        """Whether anything has to be given."""
        return self._token is not None or bool(self._users)

    @property
    def has_users(self) -> bool:
        """Whether there are users with passwords."""
        return bool(self._users)

    def fits_token(self, text: str) -> bool:
        """Return whether that is the token."""
        return self._token is not None and hmac.compare_digest(_digest(text[:MOST_SECRET]), self._token)

    async def check(self, address: str, user: str, secret: str) -> str | None:
        """Why this is not accepted; None when it is."""
        if not user and self.fits_token(secret):
            # Also while others guess: behind a proxy all have one address. A token is too long to guess.
            return None
        address = _network(address)
        if self._is_blocked(address) or self._waiting >= 8:
            return "Too many failed logins. Wait a minute."
        self._waiting += 1
        try:
            async with self._hashing:
                fits = await self._fits(user, secret) if len(secret) <= MOST_SECRET else False
        finally:
            self._waiting -= 1
        if fits:
            return None
        if len(self._failures) >= _MOST_ADDRESSES:
            self._failures.pop(next(iter(self._failures)))
        self._failures.setdefault(address, []).append(time.monotonic())
        return "Wrong token, name or password."

    async def _fits(self, user: str, secret: str) -> bool:
        if not self._users:
            return False
        # An unknown user takes as long as a known one.
        known = self._users.get(user)
        return await asyncio.to_thread((known or self._nobody).fits, secret) and known is not None

    def _is_blocked(self, address: str) -> bool:
        recent = [at for at in self._failures.pop(address, ()) if at > time.monotonic() - _MINUTE]
        if recent:
            self._failures[address] = recent
        return len(recent) >= FAILURES

    def open_session(self) -> str:
        """A new session: what the browser keeps."""
        while len(self._sessions) >= _MOST_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        word = secrets.token_urlsafe(32)
        self._sessions[_digest(word)] = time.monotonic() + SESSION_S
        return word

    def session(self, word: str) -> bytes | None:
        """The session of that word while it is open."""
        digest = _digest(word[:MOST_SECRET])
        return digest if self._sessions.get(digest, 0.0) > time.monotonic() else None

    def left_s(self, session: bytes) -> float:
        """Return how long a session stays open."""
        return max(0.0, self._sessions.get(session, 0.0) - time.monotonic())

    def close_session(self, session: bytes) -> None:
        """End a session."""
        self._sessions.pop(session, None)


def _network(address: str) -> str:
    """What counts as one address: of IPv6 its network, in which a machine can take any number of addresses."""
    with contextlib.suppress(ValueError):
        parsed = ipaddress.ip_address(address)
        if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
            return f"{int(parsed) >> 64:x}::/64"
    return address


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
