"""`qdeck config`: trust configuration files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from qdeck_console.cli.base import VerbGroup, command, settings
from qdeck_console.cli.output import line, safe, write_json

_HERE: Final = "qdeck.toml"

config = VerbGroup("config", help="Trust a configuration file.", examples=("qdeck config trust",))


@command("trust", examples=("qdeck config trust", "qdeck config trust --remove ~/old/qdeck.toml"))
@click.argument(
    "file",
    metavar="[FILE]",
    help="The file. Default: ./qdeck.toml.",
    default=_HERE,
    type=click.Path(dir_okay=False, path_type=Path),
)
@click.option("--remove", is_flag=True, help="Stop trusting the file.")
def trust(file: Path, *, remove: bool) -> None:
    """Trust a configuration file as it is now.

    A trusted file is used until it changes. It names servers, and environment
    variables that are sent to them: read it first.
    """
    from qdeck.admin import distrust_file, read_configuration, trust_file, trusted_path

    found, data = read_configuration(file)  # report what is wrong with it first
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
    line(safe(f"{path} is {'no longer trusted' if remove else f'trusted{names}'}"))


config.add_command(trust)
