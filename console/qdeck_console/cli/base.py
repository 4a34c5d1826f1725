"""What all commands share: where the server is, groups that take a queue for a verb, and commands loaded late."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import shlex
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from qdeck_console import startup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from qdeck.admin import Configuration, Reader, Target, Writer

    ClientT = TypeVar("ClientT", Reader, Writer)

CONTEXT_SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}
_META: Final = "qdeck."
OPTIONS_THAT_WRITE: Final = frozenset({"--yes", "--apply", "--now", "--confirm", "--orphans", "--all-running"})
"""Options that turn a report into a change, or widen one: no hint proposes them."""
_TAKE_A_VALUE: Final = ("--url", "--context", "--config", "--confirm", "--adapter", "--layout")


class CommandOptions(NamedTuple):
    """The options that every command takes, before or after its name."""

    url: str | None
    adapters: tuple[str, ...]
    as_json: bool
    context: str | None = None
    config: str | None = None
    confirm: str | None = None

    def configuration(self) -> Configuration:
        """The configuration file, checked; the defaults where there is none. It is read once for a command."""
        from qdeck.admin import load_configuration
        from qdeck_console.cli.output import note_once

        known = click.get_current_context().meta.setdefault(f"{_META}configurations", {})
        found: Configuration = known[self.config] if self.config in known else load_configuration(self.config)
        known[self.config] = found
        masking = found.settings.masking
        if masking.add or masking.exempt:
            from qdeck.admin import configure_masking

            configure_masking(masking.add, masking.exempt)
        if found.ignored:
            note_once(f"qdeck: {found.ignored}\n  read it, then run: qdeck config trust")
        return found

    def target(self) -> Target:
        """The server: that of `--url`, of `--context`, of the environment, or of the default context; with the adapters
        that were asked for.
        """
        meta = click.get_current_context().meta
        known = meta.setdefault(f"{_META}targets", {})  # names are resolved once for a command
        found: Target = known[self] if self in known else known.setdefault(self, self._target())
        if found.caution:
            from qdeck_console.cli.output import note_once

            note_once(f"qdeck: {found.caution}")
        if not self.adapters:
            return found
        from dataclasses import replace

        return replace(found, adapters=self.adapters)

    def _target(self) -> Target:
        from qdeck import UsageError

        given = click.get_current_context().meta.get(f"{_META}url")
        if given and self.context:
            raise UsageError("--url and --context exclude each other", hint="a context names its own url")
        found = self.configuration()
        if self.url and not self.context:
            return found.target_at(self.url)
        target = found.target(self.context)
        if target is None:
            contexts = ", ".join(found.settings.contexts)
            hint = "give --url redis://host:6379, or set QDECK_URL; qdeck demo needs no server"
            raise UsageError(
                "no server is named", hint=f"give --context, one of {contexts}, or --url" if contexts else hint
            )
        return target

    def reader(self) -> contextlib.AbstractContextManager[Reader]:
        """Open the server to read from it."""
        target = self.target()
        with startup.loading():
            from qdeck.admin import Reader

            made = Reader.at(target)
        return _told(made)

    def writer(self) -> contextlib.AbstractContextManager[Writer]:
        """Open the server to change something on it; raise where its context forbids that."""
        from qdeck import NotAllowed
        from qdeck.admin import mask_url

        target = self.target()
        hint = read_only_hint(target, self.confirm)
        if hint is not None:
            raise NotAllowed(f"{mask_url(target.url)} is open read-only", hint=hint)
        with startup.loading():
            from qdeck.admin import Writer

            made = Writer.at(target)
        return _told(made)


@contextlib.contextmanager
def _told(client: ClientT) -> Iterator[ClientT]:
    """A client that is closed after, with a note where ages are by this machine's clock."""
    from qdeck.admin import LOCAL_CLOCK
    from qdeck_console.cli.output import note_once

    with client:
        try:
            yield client
        finally:  # commands end by raising their exit code
            if client.local_clock:
                note_once(f"qdeck: {LOCAL_CLOCK}")


def read_only_hint(target: Target, confirm: str | None) -> str | None:
    """How a server that may not be written to now could be; None when it may."""
    if confirm is not None and confirm != target.name:
        from qdeck import UsageError

        named = f"the context is {target.name!r}" if target.name else "no context is used"
        raise UsageError(f"--confirm {confirm!r}: {named}", hint="--confirm takes the name of the context in use")
    if target.read_only:
        return f"the context {target.name!r} says read_only = true"
    if target.is_production and confirm is None:
        why = target.caution or f"the context {target.name!r} is production"
        return f"{why}: to write there, add --confirm {shlex.quote(str(target.name))}"
    return None


def need_writable(url: str | None = None) -> Target:
    """The server, or that of a URL, for a command that writes past a `Writer`; raises where its context forbids it."""
    given = settings() if url is None else settings()._replace(url=url, context=None)
    with given.writer() as writer:
        writer.need_writable()
    return given.target()


def settings() -> CommandOptions:
    """The shared options as they were given; the environment names the server when no option does."""
    meta = click.get_current_context().meta
    url = meta.get(f"{_META}url") or os.environ.get("QDECK_URL") or os.environ.get("REDIS_URL")
    return CommandOptions(
        url,
        meta.get(f"{_META}adapter", ()),
        meta.get(f"{_META}as_json", False),
        meta.get(f"{_META}context"),
        meta.get(f"{_META}config"),
        meta.get(f"{_META}confirm"),
    )


def explicit_url() -> str | None:
    """The URL that was given as an option, or that of the context that was."""
    given = settings()
    url: str | None = click.get_current_context().meta.get(f"{_META}url")
    return given.target().url if given.context else url


def read_priority(text: str) -> int | str:
    """A priority as it was typed: a number, or a name that the core knows."""
    return int(text) if text.lstrip("+-").isdecimal() else text


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if param.name == "adapter" and value:
        from qdeck.admin import ADAPTERS, is_adapter

        value = tuple(name for given in value for name in given.split(",") if name)
        if not value:
            raise click.BadParameter(f"{param.opts[0]} is empty", ctx, param)
        for name in value:
            if not is_adapter(name):
                raise click.BadParameter(f"there is no adapter {name!r}: there is {', '.join(ADAPTERS)}", ctx, param)
    if isinstance(value, str) and not value.strip():
        # Perhaps a variable of a shell that is not set: what was meant is not what holds without the option.
        raise click.BadParameter(f"{param.opts[0]} is empty", ctx, param)
    if value not in (None, (), False):
        ctx.meta[f"{_META}{param.name}"] = value


def shared_options() -> list[click.Parameter]:
    """The options that every command takes."""

    def option(*names: str, help: str, **more: Any) -> click.Option:
        return click.Option(names, help=help, expose_value=False, callback=_keep, **more)

    return [
        option("--url", metavar="URL", help="The server; also QDECK_URL, REDIS_URL."),
        option("--context", metavar="NAME", help="The server of this name in qdeck.toml."),
        option("--config", metavar="FILE", help="The configuration, instead of ./qdeck.toml or the user's own."),
        option("--confirm", metavar="NAME", help="Lets a command write in the production context of this name."),
        option("--adapter", metavar="NAME", multiple=True, help="Only this adapter; repeats."),
        option("--layout", "adapter", metavar="NAME", multiple=True, hidden=True, help="The same as --adapter."),
        option("--json", "as_json", is_flag=True, help="JSON on stdout."),
    ]


class CliCommand(click.Command):
    """A command with the shared options."""

    def __init__(self, *args: Any, **more: Any) -> None:
        more["params"] = [*more.get("params", ()), *shared_options()]
        more.setdefault("context_settings", CONTEXT_SETTINGS)
        super().__init__(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs it: all that every command needs is loaded."""
        startup.end()
        return super().invoke(ctx)


def command(name: str, **more: Any) -> Callable[[Callable[..., Any]], CliCommand]:
    """Makes a command of a function."""
    return click.command(name, cls=CliCommand, **more)


class VerbGroup(click.Group):
    """A noun with verbs, whose first word is otherwise an argument of its default verb: `jobs QUEUE`."""

    def __init__(self, name: str, *, default: str | None = None, **more: Any) -> None:
        more["params"] = shared_options()
        more.setdefault("context_settings", CONTEXT_SETTINGS)
        super().__init__(name, **more)
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts the default verb in where none is named."""
        if self.default is not None and not self._names_verb(args):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the verb; an unknown one gets the nearest."""
        check_verb(self, ctx, args[0])
        return super().resolve_command(ctx, args)

    def _names_verb(self, args: list[str]) -> bool:
        at = 0
        while at < len(args):
            word = args[at]
            if word in _TAKE_A_VALUE:
                at += 2
            elif word == "--json" or word.startswith(tuple(f"{name}=" for name in _TAKE_A_VALUE)):
                at += 1
            else:
                return word in self.commands
        return False


def check_verb(group: click.Group, ctx: click.Context, word: str) -> None:
    """Raises for a word that is no command of the group, naming the nearest one."""
    known = group.list_commands(ctx)
    if word in known or word.startswith("-"):
        return
    near = difflib.get_close_matches(word, known, 1)
    more = f"did you mean {near[0]!r}?" if near else f"commands are: {', '.join(known)}"
    raise click.UsageError(f"there is no command {word!r}: {more}", ctx)


class LateGroup(click.Group):
    """The top group: it knows the help of its commands, and imports one only to run it."""

    def __init__(self, *args: Any, late: Mapping[str, tuple[str, str]], **more: Any) -> None:
        more["params"] = [*more.get("params", ()), *shared_options()]
        super().__init__(*args, **more)
        self.late = late

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which they are told."""
        return list(self.late)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command."""
        if cmd_name not in self.late:
            return None
        module, _, attribute = self.late[cmd_name][0].partition(":")
        found = getattr(importlib.import_module(f"qdeck_console.cli.{module}"), attribute)
        assert isinstance(found, click.Command)  # noqa: S101 - the table is ours
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command; an unknown one gets the nearest."""
        check_verb(self, ctx, args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in self.late.items()])


def _set_ascii(_ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        os.environ["QDECK_ASCII"] = "1"


ascii_option = click.option(
    "--ascii",
    is_flag=True,
    expose_value=False,
    callback=_set_ascii,
    help="Signs of ASCII only; also QDECK_ASCII=1.",
)
