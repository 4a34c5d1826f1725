"""Passwords on command lines, where a program takes them without a name: `curl -u user:…`, `mysql -p…`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from qdeck._model.secret_names import MASK

# Between a flag and its value: blanks, or the ends of two texts of a list.
_GAP: Final = r"(?:[ \t=]{1,4}|\\{0,31}[\"'],[ \t\r\n]{0,8})\\{0,31}[\"']?"
_FARTHEST: Final = 2000  # characters from a program to its flag
_FIRST: Final = 4  # words of a list in which a program is looked for: `sudo env curl`
_LONGEST: Final = 200  # characters of such a word
_BETWEEN: Final = r"[ \t\"',\\]{1,40}"  # words
_LOGIN: Final = r"[^\s:\"'\\=]{0,64}:"


@dataclass(frozen=True, slots=True)
class _Tool:
    """A family of programs, the flag before the password, and what may stand between the two."""

    words: tuple[str, ...]  # one of these is in the text
    programs: str
    flag: str
    attached: bool = True  # the value may follow without a blank
    separate: bool = True  # the value may be the next word
    before: str = ""  # what stands before the secret in the value

    def in_text(self) -> re.Pattern[str]:
        """Return a pattern of the program, or of its flag with a value."""
        gap = f"(?:{_GAP})" if self.separate else r"\\{0,31}[\"']?"
        gap += "?+" if self.attached and self.separate else ""
        return re.compile(
            rf"(?P<program>(?<![\w.-])(?:{self.programs})(?![\w-]))"
            rf"|(?<![\w-])(?:{self.flag}){gap}{self.before}(?P<value>[^\s\"'\\,-][^\s\"'\\]*)"
        )

    def in_word(self) -> re.Pattern[str]:
        """Return a pattern of a word that begins with the flag."""
        return re.compile(f"(?:{self.flag})=?")


_TOOLS: Final = (
    _Tool(("curl",), "curl", r"-[a-zA-Z#]{0,8}[uU]|--user|--proxy-user", before=_LOGIN),
    _Tool(("mysql", "mariadb"), r"mysql\w{0,10}|mariadb(?:-[a-z]+)?", "-p", separate=False),
    _Tool(("mongo",), r"mongo[a-z]{0,10}", "-p"),
    _Tool(("ldap",), r"ldap[a-z]{2,10}", "-w"),
    _Tool(("sshpass",), "sshpass", "-p"),
    _Tool(("login",), rf"(?:docker|podman|buildah|helm|oras|crane|az)(?:{_BETWEEN}registry)?{_BETWEEN}login", "-p"),
    _Tool(("twine",), "twine", "-p"),
    _Tool(("redis-cli", "valkey-cli"), "(?:redis|valkey)-cli", "-a", attached=False),
    _Tool(("sqlcmd", "bcp"), "sqlcmd|bcp", "-P"),
    _Tool(("smbclient",), "smbclient", "-U", before=r"[^\s%\"'\\]{1,64}%"),
)  # fmt: skip
_PATTERNS: Final = tuple((tool.words, tool.in_text()) for tool in _TOOLS)
_BY_WORD: Final = tuple(
    (tool, re.compile(tool.programs.replace(_BETWEEN, " ")), tool.in_word(), re.compile(tool.before)) for tool in _TOOLS
)


def mask_commands(text: str, low: str) -> str:
    """Return a text without the passwords that programs take; `low` is the text in lower case."""
    for words, pattern in _PATTERNS:
        for word in words:
            if word in low:
                text = _masked(text, pattern)
                break
    return text


def _masked(text: str, pattern: re.Pattern[str]) -> str:
    parts: list[str] = []
    done, until = 0, -1
    for found in pattern.finditer(text):
        if found["program"] is not None:
            until = found.end() + _FARTHEST
        elif found.start() <= until:
            parts += (text[done : found.start("value")], MASK)
            done = found.end("value")
    return "".join((*parts, text[done:])) if parts else text


def mask_words(words: list[Any]) -> dict[int, str]:
    """Return the words of a command line that have a password, by their places and as they are shown."""
    named = " ".join(word.rpartition("/")[2] for word in words[:_FIRST] if type(word) is str and len(word) < _LONGEST)
    found: dict[int, str] = {}
    for tool, program, flag, before in _BY_WORD:
        if not any(word in named for word in tool.words) or program.search(named) is None:
            continue
        for at, word in enumerate(words[1:], 1):
            opening = flag.match(word) if type(word) is str else None
            if opening is None:
                continue
            place, start = (at, opening.end()) if opening.end() < len(word) else (at + 1, 0)
            is_wanted = tool.attached if place == at else tool.separate and place < len(words)
            secret = words[place] if is_wanted else None
            if type(secret) is str and (login := before.match(secret, start)) is not None:
                found[place] = secret[: login.end()] + MASK
    return found
