"""Commands as values, the requests that carry them, and the programs that yield both.

A program is a generator. It yields a command and gets its reply, or a list of commands, sent in one round trip, and
gets their replies. An error reply is raised at the `yield`, as an error of qdeck. Blocking and asyncio clients run the
same programs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar, overload

import hiredis

T = TypeVar("T")
_GLANCE_S: Final = 0.2
_SPECIAL: Final = re.compile(rb"[*?\[\]\\]")  # in a glob of the server
Arg = bytes | str | int | float
Command = tuple[Arg, ...]  # its name, then its arguments


@dataclass(frozen=True, slots=True)
class Script:
    """A script as the server gets it."""

    name: str
    source: bytes
    digest: bytes
    commands: tuple[str, ...] = ()
    """The commands that a client checks before it calls the script the first time; none for a script that checks
    them itself.
    """

    def call(self, keys: Sequence[bytes], args: Sequence[Arg]) -> Command:
        """Return the command that runs it, by its digest."""
        return (b"EVALSHA", self.digest, len(keys), *keys, *args)


class Each(Sequence[Command]):
    """One command for each of very many ids, its last argument: packed in a third of the time of a list of them."""

    def __init__(self, head: Command, ids: Sequence[bytes]) -> None:
        self.head, self.ids = head, ids

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Command: ...
    @overload
    def __getitem__(self, at: slice) -> Each: ...
    def __getitem__(self, at: int | slice) -> Command | Each:
        return Each(self.head, self.ids[at]) if isinstance(at, slice) else (*self.head, self.ids[at])

    def pack(self) -> bytes:
        """Return them as bytes of the protocol."""
        head = _pack((*self.head, b"")).removesuffix(b"$0\r\n\r\n")
        return b"".join([b"%b$%d\r\n%b\r\n" % (head, len(one), one) for one in self.ids])


class Request(NamedTuple):
    """Commands of one round trip, where the plain list is not enough.

    `key` is one of the keys. On a cluster, commands that have none themselves go to its server, and what writes keeps
    its order; without it, the commands of a request have nothing to do with each other.
    """

    commands: Sequence[Command]
    key: bytes = b""
    returns_errors: bool = False
    """Whether errors are returned to the program among the replies, instead of being raised."""
    script: Script | None = None
    """The script that it calls, if the rights for that are to be checked first."""
    blocks_s: float = 0.0
    """How long the last command blocks at most."""
    patience_s: float | None = None
    """How long a request that blocks is sent again, counted from its first sending; None for one that does not."""

    @property
    def reads(self) -> bool:
        """Return whether it only reads: then sending it again has no effect."""
        if isinstance(self.commands, Each):
            return _reads(self.commands.head)
        return {command[0] for command in self.commands} <= _READS or all(map(_reads, self.commands))


class Sleep(NamedTuple):
    """Seconds to wait; 0 yields to other tasks of the event loop."""

    seconds: float


class Offload(NamedTuple):
    """Work that takes too long for an event loop, such as reading a large plan."""

    work: Callable[[], Any]


Item = Command | list[Command] | Request | Sleep | Offload  # what a program may yield
Program = Generator[Item, Any, T]

_HEAD: Final = 2  # arguments before the ids of a command
_MANY: Final = 64
_pack: Final[Callable[[Any], bytes]] = hiredis.pack_command
_READS: Final = frozenset(
    b"BITCOUNT DBSIZE DUMP EVALSHA_RO EVAL_RO EXISTS EXPIRETIME GET GETRANGE HELLO HEXISTS HGET HGETALL HKEYS HLEN"
    b" HMGET HRANDFIELD HSCAN HSTRLEN HVALS INFO LINDEX LLEN LPOS LRANGE MGET PEXPIRETIME PING PTTL"
    b" RANDOMKEY ROLE SCAN SCARD SDIFF SINTER SINTERCARD SISMEMBER SMEMBERS SMISMEMBER SRANDMEMBER SSCAN STRLEN SUNION"
    b" TIME TTL TYPE XINFO XLEN XPENDING XRANGE XREAD XREVRANGE ZCARD ZCOUNT ZDIFF ZINTER ZLEXCOUNT ZMSCORE"
    b" ZRANDMEMBER ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCAN"
    b" ZSCORE ZUNION".split()
)
NO_SCRIPT: Final = b"0" * 40  # the digest of no script: to call it only shows whether scripts may be called
# By their second word. A script that is loaded changes no data.
_READS_OF: Final = {
    b"ACL": (b"DRYRUN", b"WHOAMI"), b"CLIENT": (b"INFO",), b"CLUSTER": (b"NODES", b"SLOTS"), b"CONFIG": (b"GET",),
    b"EVALSHA": (NO_SCRIPT,), b"MEMORY": (b"USAGE",), b"OBJECT": (b"ENCODING", b"FREQ", b"IDLETIME"),
    b"SCRIPT": (b"EXISTS", b"LOAD"), b"SENTINEL": (b"GET-MASTER-ADDR-BY-NAME",), b"SLOWLOG": (b"GET", b"LEN"),
}  # fmt: skip


def _reads(command: Command) -> bool:
    name = command[0]
    return name in _READS or (name in _READS_OF and command[1] in _READS_OF[name])


def request_of(item: Command | list[Command] | Request) -> Request:
    """Return the request for what a program yields."""
    if isinstance(item, Request):
        return item
    return Request(item if isinstance(item, list) else (item,))


def with_errors(*commands: Command, key: bytes = b"") -> Request:
    """Build a request whose errors are returned among the replies, instead of being raised."""
    return Request(commands, key, returns_errors=True)


def ordered(*commands: Command, key: bytes) -> Request:
    """Build a request whose writes keep their order on a cluster, and whose commands without keys go where `key` is."""
    return Request(commands, key)


def wait(command: Command, key: bytes, seconds: float, *, patience_s: float = 0.0) -> Request:
    """Build a request of one command that blocks on a key."""
    return Request((command,), key, blocks_s=seconds, patience_s=patience_s)


def pack(commands: Sequence[Command]) -> bytes:
    """Return commands as bytes of the protocol."""
    try:
        if isinstance(commands, Each):
            return commands.pack()
        if len(commands) == 1 and len(commands[0]) > _MANY:
            return _pack_many(commands[0])
        return b"".join(map(_pack, commands))
    except UnicodeEncodeError:  # an id that another program wrote in bytes that are not UTF-8
        return b"".join([_pack(tuple(map(raw_of, command))) for command in commands])


def _pack_many(command: Command) -> bytes:
    """Pack a command with very many ids: they are nearly always of one length, and one text is between them.

    It takes half as long as hiredis does: a plan gains 2 %.
    """
    head, ids = command[:_HEAD], command[_HEAD:]
    if type(ids[-1]) is not bytes or set(map(type, ids)) != {bytes} or len(sizes := set(map(len, ids))) > 1:  # type: ignore[arg-type]  # bytes
        return _pack(command)
    mark = b"\r\n$%d\r\n" % sizes.pop()
    _, _, packed = _pack(head).partition(b"\r\n")
    return b"*%d\r\n%b%b%b\r\n" % (len(command), packed[:-2], mark, mark.join(ids))  # type: ignore[arg-type]  # bytes


def raw_of(arg: Arg) -> bytes:
    """Return an argument as its bytes; text that stands for other bytes than UTF-8 becomes those again."""
    return arg if isinstance(arg, bytes) else str(arg).encode(errors="surrogateescape")


def text_of(value: bytes) -> str:
    """Return bytes as text; bytes that are not UTF-8 are restored by `raw_of`."""
    return value.decode(errors="surrogateescape")


def glob_of(name: bytes) -> bytes:
    """Return the glob that matches exactly this name."""
    return _SPECIAL.sub(rb"\\\g<0>", name)


def waiting(
    seconds: float, cancelled: Callable[[], bool] | None, each: Callable[[], Program[None]] | None = None
) -> Program[None]:
    """Wait in pieces, so that at a slow rate it can be cancelled soon; run `each` after every piece."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not (cancelled is not None and cancelled()):
        yield Sleep(min(left, _GLANCE_S))
        if each is not None:
            yield from each()
