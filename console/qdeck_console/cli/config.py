"""`qdeck config`: which configuration files are trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from qdeck_console.cli.base import VerbGroup, command, settings
from qdeck_console.cli.output import line, safe, write_json

_HERE: Final = "qdeck.toml"

config = VerbGroup("config", short_help="Trusts a qdeck.toml.", help="Trusts a qdeck.toml of a directory.")


@command("trust", short_help="Trusts a file as it is now.")
@click.argument("file", metavar="[FILE]", default=_HERE, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--remove", is_flag=True, help="Trusts it no longer.")
def trust(file: Path, *, remove: bool) -> None:
    """Trusts ./qdeck.toml, or FILE, as it is now: it is read from then on, until it changes.

    A trusted file names servers, and environment variables that are sent to them: read it first.
    """
    from qdeck.admin import distrust_file, read_configuration, trust_file, trusted_path

    found, data = read_configuration(file)  # what is wrong with it is said before anybody relies on it
    if remove:
        distrust_file(file)
    else:
        trust_file(file, data)
    path = trusted_path(file)
    contexts = list(found.settings.contexts)
    if settings().as_json:
        write_json({"file": str(path), "trusted": not remove, "contexts": contexts})
        return
    names = f"; contexts: {', '.join(contexts)}" if contexts else ""
    line(safe(f"{path} is {'no longer trusted' if remove else f'trusted as it is now{names}'}"))


config.add_command(trust)
