"""`qdeck completion`: print the completion script of a shell, and answer it with names from the server."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import BashComplete, CompletionItem, ShellComplete, get_completion_class, split_arg_string

from qdeck_console.cli.base import COMPLETE, SUGGESTIONS, command, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qdeck.admin import Reader

SHELLS: Final = ("bash", "zsh", "fish")
TIMEOUT: Final = "QDECK_COMPLETION_TIMEOUT"
"""The variable that says how many seconds the server may take."""
TIMEOUT_S: Final = 0.3
_MOST: Final = 200
# What a shell puts on its line as it is. Names are data of others: none may become a command there.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/@+=%-]+")
_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")
_BASH: Final = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion type value
    response=$(QDECK_LINE="${COMP_LINE:0:COMP_POINT}" QDECK_WORD="${COMP_WORDS[COMP_CWORD]}" \\
        QDECK_BREAKS="$COMP_WORDBREAKS" %(complete_var)s=bash_complete "$1" 2>/dev/null)
    COMPREPLY=()
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Bash(BashComplete):
    """Bash takes a word apart at each colon, and names of queues have colons: read the line, reply with the rest."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the whole words of the line, and the one at its end."""
        line = os.environ["QDECK_LINE"]
        words = split_arg_string(line)[1:]
        incomplete = words.pop() if words and not line[-1:].isspace() else ""
        word = os.environ.get("QDECK_WORD", "")
        breaks = os.environ.get("QDECK_BREAKS", "")
        cuts = [incomplete.rfind(sign) for sign in ":=" if sign in breaks]
        self.cut = 0 if word[:1] in ("'", '"') else max([-1, *cuts]) + 1
        return words, incomplete

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return an item without the part of the word that bash keeps."""
        return f"{item.type},{item.value[self.cut :]}"


@command(
    "completion", examples=("qdeck completion bash", "qdeck completion fish > ~/.config/fish/completions/qdeck.fish")
)
@click.argument("shell", type=click.Choice(SHELLS), help="Shell: bash, zsh or fish.")
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    Load it in ~/.bashrc or ~/.zshrc with `eval "$(qdeck completion bash)"`, in fish write it to
    ~/.config/fish/completions/qdeck.fish. Names of queues and ids of jobs are completed from the server
    that QDECK_URL, the options or qdeck.toml name. A server that takes longer than 0.3s is not waited for;
    QDECK_COMPLETION_TIMEOUT sets another limit, in seconds.
    """
    click.echo(_completer(ctx.find_root().command, shell).source(), nl=False)


def _completer(top: click.Command, shell: str) -> ShellComplete:
    kind = _Bash if shell == "bash" else get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"unknown shell {shell!r}. Use one of: {', '.join(SHELLS)}.")
    return kind(top, {}, "qdeck", COMPLETE)


def answer(top: click.Command, instruction: str) -> int:
    """Write the completions that a script requests with `SHELL_complete`; return the exit code."""
    completer = _completer(top, instruction.partition("_")[0])
    click.echo(completer.complete())
    return 0


def _suggest(kind: str, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Return the names that begin so; none where the server does not answer in time."""
    found: list[str] = []
    with ctx.scope(cleanup=False), contextlib.suppress(Exception):  # a shell cannot show an error
        names = _LOCAL[kind]() if kind in _LOCAL else _read(kind, ctx, incomplete)
        found.extend(islice((name for name in names if name.startswith(incomplete)), _MOST))
    return [CompletionItem(name) for name in dict.fromkeys(found) if _PLAIN.fullmatch(name)]


def _read(kind: str, ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Return names from the server. One that is late is not waited for."""
    found: list[str] = []
    with settings().reader() as reader:  # what takes long here is loading, not the server

        def read() -> None:
            with contextlib.suppress(Exception):
                found.extend(_REMOTE[kind](reader, ctx, incomplete))

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        reading.join(float(os.environ.get(TIMEOUT) or TIMEOUT_S))
        return found[:]


def _adapters() -> Iterable[str]:
    from qdeck.admin import ADAPTERS

    return ADAPTERS


def _contexts() -> Iterable[str]:
    return settings().configuration().settings.contexts


def _rules() -> Iterable[str]:
    from qdeck.admin import PURGE_RULES

    return PURGE_RULES


def _screens() -> Iterable[str]:
    from qdeck_console.actions import TABS

    return TABS


def _batches(reader: Reader, _ctx: click.Context, _incomplete: str) -> Iterable[str]:
    return [entry.batch for entry in reversed(list(reader.activity())) if entry.batch]


def _jobs(reader: Reader, ctx: click.Context, incomplete: str) -> Iterable[str]:
    queue = ctx.params.get("queue") or next(iter(ctx.args), None)  # unparsed while an option lacks its value
    if not queue:
        return []
    is_dead = ctx.parent is not None and ctx.parent.info_name == "dead"
    where = f"id:{incomplete}*" if _WORD.fullmatch(incomplete) else ""
    found = reader.jobs(queue, state="dead" if is_dead else None, where=where, limit=_MOST)
    return [record.id for record in found]


def _queues(reader: Reader, _ctx: click.Context, _incomplete: str) -> Iterable[str]:
    seen = reader.snapshot(visible=())
    return [row.ref.label(seen.shared) for row in seen.queues]


def _schedules(reader: Reader, _ctx: click.Context, _incomplete: str) -> Iterable[str]:
    return [row.name for row in reader.schedules()]


def _workers(reader: Reader, _ctx: click.Context, _incomplete: str) -> Iterable[str]:
    return [row.id for row in reader.workers()]


_LOCAL: Final[dict[str, Callable[[], Iterable[str]]]] = {
    "adapters": _adapters,
    "contexts": _contexts,
    "rules": _rules,
    "screens": _screens,
}
_REMOTE: Final[dict[str, Callable[[Reader, click.Context, str], Iterable[str]]]] = {
    "batches": _batches,
    "jobs": _jobs,
    "queues": _queues,
    "schedules": _schedules,
    "workers": _workers,
}

SUGGESTIONS.update({kind: partial(_suggest, kind) for kind in (*_LOCAL, *_REMOTE)})
