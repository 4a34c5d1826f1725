"""`qdeck serve`: the console in a browser."""

from __future__ import annotations

import importlib.util
import os

import click

from qdeck_console.cli.base import command, settings
from qdeck_console.cli.output import note


@command("serve", short_help="The console in a browser.")
@click.option("--host", default="127.0.0.1", metavar="HOST", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True, metavar="PORT")
@click.option("--public-url", metavar="URL", help="Where browsers find it, when that is not http://HOST:PORT.")
def serve(host: str, port: int, public_url: str | None) -> None:
    """Serves the console to browsers until Ctrl+C. Whoever can open the page acts with your rights on the server:
    there is no password, so it listens on this machine only unless --host says otherwise.
    """
    if importlib.util.find_spec("textual_serve") is None:
        from qdeck._errors import UsageError

        raise UsageError("qdeck serve needs textual-serve: pip install 'qdeck[serve]'")
    given = settings()
    target = given.target()
    from qdeck_console import serving

    os.environ["QDECK_URL"] = target.url
    options = [
        *(word for name, value in (("--context", given.context), ("--config", given.config)) if value
          for word in (name, value)),
        *(["--confirm", given.confirm] if given.confirm else []),
        *(word for name in given.layouts for word in ("--layout", name)),
    ]  # fmt: skip
    if host not in serving.LOOPBACK:
        note(
            f"qdeck: whoever reaches {host}:{port} acts with your rights on {target.name or 'the server'}, without a"
            " password: put a proxy that asks for one before it, or leave --host away and use an SSH tunnel"
        )
    server = serving.ConsoleServer(serving.console_command(options), host, port, public_url)
    server.serve()
