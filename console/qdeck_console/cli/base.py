"""What all commands share: the server and its options, help with examples, and groups that load commands late."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import shlex
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from qdeck_console import startup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from click.shell_completion import CompletionItem

    from qdeck.admin import Configuration, Reader, Target, Writer

    ClientT = TypeVar("ClientT", Reader, Writer)

CONTEXT_SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}
_META: Final = "qdeck."
COMPLETE: Final = "_QDECK_COMPLETE"
"""The variable in which a shell requests completions."""
OPTIONS_THAT_WRITE: Final = frozenset({"--yes", "--apply", "--now", "--confirm", "--orphans", "--all-running"})
"""Options that turn a report into a change, or widen one. No hint suggests them."""
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
        """Return the checked configuration, or the defaults where there is no file. Read it once for a command."""
        from qdeck.admin import load_configuration
        from qdeck_console.cli.output import note_once

        known = click.get_current_context().meta.setdefault(f"{_META}configurations", {})
        found: Configuration = known[self.config] if self.config in known else load_configuration(self.config)
        known[self.config] = found
        masking = found.settings.masking
        if masking.add or masking.exempt:
            from qdeck.admin import configure_masking

            configure_masking(masking.add, masking.exempt)
        if found.ignored and not found.is_ignored(self.context):
            note_once(f"qdeck: {found.ignored}\n  Read the file, then run `qdeck config trust`.")
        return found

    def target(self) -> Target:
        """Return the server of `--url`, `--context`, the environment or the default context."""
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
            raise UsageError("--url and --context exclude each other", hint="Give one of them.")
        found = self.configuration()
        if self.url and not self.context:
            return found.target_at(self.url)
        target = found.target(self.context)
        if target is None:
            contexts = ", ".join(found.settings.contexts)
            hint = "Give --url redis://host:6379 or set QDECK_URL. `qdeck demo` needs no server."
            raise UsageError("no server given", hint=f"Give --url, or --context: {contexts}." if contexts else hint)
        return target

    def reader(self) -> contextlib.AbstractContextManager[Reader]:
        """Return a reader of the server."""
        target = self.target()
        with startup.loading():
            from qdeck.admin import Reader

            made = Reader.at(target)
        return _closing(made)

    def writer(self) -> contextlib.AbstractContextManager[Writer]:
        """Return a writer of the server. Raise `NotAllowed` where its context is read-only."""
        from qdeck import NotAllowed
        from qdeck.admin import mask_url

        target = self.target()
        hint = read_only_hint(target, self.confirm)
        if hint is not None:
            raise NotAllowed.read_only(mask_url(target.url), hint=hint)
        with startup.loading():
            from qdeck.admin import Writer

            made = Writer.at(target)
        return _writing(made)


@contextlib.contextmanager
def _writing(writer: Writer) -> Iterator[Writer]:
    """Close a writer afterwards; refuse a production server before the command reads anything of it."""
    with _closing(writer):
        writer.need_writable()
        yield writer


@contextlib.contextmanager
def _closing(client: ClientT) -> Iterator[ClientT]:
    """Close a client afterwards, with a note where ages are by this machine's clock."""
    from qdeck.admin import LOCAL_CLOCK
    from qdeck_console.cli.output import note_once

    with client:
        try:
            yield client
        finally:  # commands end by raising their exit code
            if client.local_clock:
                note_once(f"qdeck: {LOCAL_CLOCK}")


def read_only_hint(target: Target, confirm: str | None) -> str | None:
    """Return why a server must not be written to, and how it could be; None when it may."""
    if confirm is not None and confirm != target.name:
        from qdeck import UsageError

        named = f"the context is {target.name!r}" if target.name else "no context is used"
        raise UsageError(f"--confirm {confirm!r}: {named}", hint="Give the name of the context in use.")
    if target.read_only:
        return f"The context {target.name!r} has read_only = true."
    if target.is_production and confirm is None:
        why = target.caution or f"The context {target.name!r} is production."
        return f"{why.removesuffix('.')}. To write there, add --confirm {shlex.quote(str(target.name))}."
    return None


def need_writable(url: str | None = None) -> Target:
    """Return the server for a command that writes without a `Writer`. Raise `NotAllowed` where it is read-only."""
    given = settings() if url is None else settings()._replace(url=url, context=None)
    with given.writer():
        return given.target()


def settings() -> CommandOptions:
    """Return the shared options as they were given. Without a server among them the environment names it."""
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
    """Return the URL that `--url` or `--context` gave."""
    given = settings()
    url: str | None = click.get_current_context().meta.get(f"{_META}url")
    return given.target().url if given.context else url


def read_priority(text: str) -> int | str:
    """Return a typed priority: a number, or a name."""
    return int(text) if text.lstrip("+-").isdecimal() else text


def _refuse_empty(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Raise for an empty value: probably an unset shell variable, and the default is not what was meant."""
    given = value if isinstance(value, tuple) else (value,)
    if any(isinstance(one, str) and not one.strip() for one in given):
        raise click.BadParameter(f"{param.opts[0]} is empty", ctx, param)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if param.name == "adapter" and value:
        from qdeck.admin import ADAPTERS, is_adapter

        value = tuple(name for given in value for name in given.split(",") if name)
        if not value:
            raise click.BadParameter(f"{param.opts[0]} is empty", ctx, param)
        for name in value:
            if not is_adapter(name):
                raise click.BadParameter(f"unknown adapter {name!r}. Use one of: {', '.join(ADAPTERS)}.", ctx, param)
    _refuse_empty(ctx, param, value)
    if value not in (None, (), False):
        ctx.meta[f"{_META}{param.name}"] = value


def _set_ascii(_ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        os.environ["QDECK_ASCII"] = "1"


def shared_options() -> list[click.Parameter]:
    """Return the options that every command takes."""

    def option(*names: str, help: str, **more: Any) -> click.Option:
        return click.Option(names, help=help, expose_value=False, callback=_keep, **more)

    return [
        option("--url", metavar="URL", help="Server URL, redis://host:6379/0. Default: $QDECK_URL, then $REDIS_URL."),
        option(
            "--context",
            metavar="NAME",
            shell_complete=suggesting("contexts"),
            help="Context of qdeck.toml to use instead of a URL.",
        ),
        option(
            "--config",
            metavar="FILE",
            type=click.Path(),
            help="Configuration file. Default: ./qdeck.toml, then the user's own.",
        ),
        option(
            "--confirm",
            metavar="NAME",
            shell_complete=suggesting("contexts"),
            help="Allow changes in the production context of this name.",
        ),
        option(
            "--adapter",
            metavar="NAME",
            multiple=True,
            shell_complete=suggesting("adapters"),
            help="Only this adapter; repeatable; native is qdeck's own queue. Default: all.",
        ),
        option("--layout", "adapter", metavar="NAME", multiple=True, hidden=True, help="The same as --adapter."),
        option("--json", "as_json", is_flag=True, help="Write JSON to stdout."),
        click.Option(
            ["--ascii"],
            is_flag=True,
            expose_value=False,
            callback=_set_ascii,
            help="Draw with ASCII characters only; also QDECK_ASCII=1.",
        ),
    ]


SUGGESTIONS: Final[dict[str, Callable[[click.Context, str], list[CompletionItem[str]]]]] = {}
"""What completes a value of a kind, such as the name of a queue. `completion` adds it when a shell requests it."""


def suggesting(kind: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]:
    """Return what completes a value of a kind in a shell."""
    return lambda ctx, _param, incomplete: SUGGESTIONS[kind](ctx, incomplete)


class CommandHelp(click.Command):
    """A command that takes no empty values, with its options, the shared ones and examples as sections of its help."""

    examples: tuple[str, ...] = ()

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Refuse empty values of the command's own options: no filter, for one, means all jobs."""
        ctx = super().make_context(info_name, args, parent, **extra)
        for param in () if ctx.resilient_parsing else self.params:
            if ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE:
                _refuse_empty(ctx, param, ctx.params.get(param.name or ""))
        return ctx

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the command, then those that all commands share, or where they are."""
        shared = {name for option in shared_options() for name in option.opts} | {"--help"}
        rows: dict[str, list[tuple[str, str]]] = {"Options": [], "Shared options": []}
        for param in self.get_params(ctx):
            if not isinstance(param, click.Argument) and (row := param.get_help_record(ctx)) is not None:
                rows["Shared options" if shared & set(param.opts) else "Options"].append(row)
        self.write_commands(ctx, formatter)
        if ctx.parent is not None:
            rows["Shared options"] = []
        for title, found in rows.items():
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)
        if ctx.parent is not None:
            formatter.write_paragraph()
            formatter.write_text(f"Shared options: {ctx.find_root().command_path} --help")

    def write_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of a group."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the epilog."""
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"{'':{formatter.current_indent}}{line}\n" for line in self.examples))
        super().format_epilog(ctx, formatter)


class CliCommand(CommandHelp):
    """A command with the shared options."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **more: Any) -> None:
        more["params"] = [*more.get("params", ()), *shared_options()]
        more.setdefault("context_settings", CONTEXT_SETTINGS)
        super().__init__(*args, **more)
        self.examples = tuple(examples)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, with the garbage collector on again."""
        startup.end()
        return super().invoke(ctx)


def command(name: str, **more: Any) -> Callable[[Callable[..., Any]], CliCommand]:
    """Make a command of a function."""
    return click.command(name, cls=CliCommand, **more)


class VerbGroup(CommandHelp, click.Group):
    """A noun with verbs. A first word that is not a verb is an argument of the default verb: `jobs QUEUE`."""

    def __init__(self, name: str, *, default: str | None = None, examples: Sequence[str] = (), **more: Any) -> None:
        more["params"] = shared_options()
        more.setdefault("context_settings", CONTEXT_SETTINGS)
        if default is not None:
            more["subcommand_metavar"] = f"[{default}|COMMAND] [ARGS]..."
        super().__init__(name, **more)
        self.default = default
        self.examples = tuple(examples)

    def write_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs."""
        self.format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """Complete the verbs, and what the default verb takes in their place."""
        found = {item.value: item for item in super().shell_complete(ctx, incomplete)}
        if self.default is not None:
            default = self.commands[self.default]
            with default.make_context(self.default, [], parent=ctx, resilient_parsing=True) as inner:
                first = next((param for param in default.params if isinstance(param, click.Argument)), None)
                source = default if incomplete.startswith("-") or first is None else first
                found |= {item.value: item for item in source.shell_complete(inner, incomplete)}
        return list(found.values())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Add the default verb where none is given."""
        is_completed = ctx.resilient_parsing and not args  # the verb itself may be what is completed
        if self.default is not None and not is_completed and not self._names_verb(args):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb; suggest the nearest one for an unknown word."""
        check_verb(self, ctx, args[0])
        return super().resolve_command(ctx, args)

    def _names_verb(self, args: list[str]) -> bool:
        at = 0
        while at < len(args):
            word = args[at]
            if word in _TAKE_A_VALUE:
                at += 2
            elif word in ("--json", "--ascii") or word.startswith(tuple(f"{name}=" for name in _TAKE_A_VALUE)):
                at += 1
            else:
                return word in self.commands or word in CONTEXT_SETTINGS["help_option_names"]
        return False


def check_verb(group: click.Group, ctx: click.Context, word: str) -> None:
    """Raise for a word that is not a command of the group; suggest the nearest one."""
    known = group.list_commands(ctx)
    if word in known or word.startswith("-") or ctx.resilient_parsing:
        return
    near = difflib.get_close_matches(word, known, 1)
    more = f"Did you mean {near[0]!r}?" if near else f"Use one of: {', '.join(known)}."
    raise click.UsageError(f"unknown command {word!r}. {more}", ctx)


class LateGroup(CommandHelp, click.Group):
    """The top group. It has the help of its commands in sections, and imports one only to run it."""

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, tuple[str, str]]], **more: Any) -> None:
        more["params"] = [*more.get("params", ()), *shared_options()]
        super().__init__(*args, **more)
        self.sections = sections
        self.late = {name: late for commands in sections.values() for name, late in commands.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the help."""
        return list(self.late)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in self.late:
            return None
        module, _, attribute = self.late[cmd_name][0].partition(":")
        found = getattr(importlib.import_module(f"qdeck_console.cli.{module}"), attribute)
        assert isinstance(found, click.Command)  # noqa: S101 - the table is ours
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; suggest the nearest one for an unknown word."""
        check_verb(self, ctx, args[0])
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """Complete the commands without importing them."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=late[1]) for name, late in self.late.items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def write_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section."""
        widest = max(map(len, self.late))
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{widest}}", about) for name, (_, about) in commands.items()])
