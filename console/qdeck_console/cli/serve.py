"""`qdeck serve`: the console in a browser."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from urllib.parse import urlsplit

import click

from qdeck_console.cli.base import command, settings
from qdeck_console.cli.output import note


@command("serve", short_help="The console in a browser.")
@click.option("--host", default="127.0.0.1", metavar="HOST", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True, metavar="PORT")
@click.option("--public-url", metavar="URL", help="Where browsers find it, when that is not http://HOST:PORT.")
@click.option(
    "--visitors", type=click.IntRange(1, 100), default=8, show_default=True, help="Consoles at once, at most."
)
@click.option("--token-file", metavar="FILE", help="A file with the token to log in with; also QDECK_SERVE_TOKEN.")
@click.option("--users-file", metavar="FILE", help="A file with users to log in as; also QDECK_SERVE_USERS.")
@click.option("--new-user", metavar="NAME", help="Ask for a password, print the line for --users-file, and end.")
def serve(
    host: str,
    port: int,
    public_url: str | None,
    visitors: int,
    token_file: str | None,
    users_file: str | None,
    new_user: str | None,
) -> None:
    """Serves the console to browsers until Ctrl+C. Each visitor acts with your rights on the server. Beyond this
    machine it needs a login: a token or users.
    """
    from qdeck import UsageError
    from qdeck_console.serving import login as logins

    if new_user is not None:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        click.echo(logins.hash_password(new_user, password))
        return
    if importlib.util.find_spec("textual_serve") is None or importlib.util.find_spec("aiohttp") is None:
        raise UsageError("qdeck serve needs textual-serve: pip install 'qdeck[serve]'")
    given = settings()
    target = given.target()
    from qdeck.runtime import is_loopback
    from qdeck_console.serving import server

    login = logins.Login.read(token_file, users_file)
    public = _public_host(public_url)
    if not login.is_needed and not (is_loopback(host) and is_loopback(public)):
        where = public if is_loopback(host) else host
        raise UsageError(
            f"qdeck serve on {where} needs a login: anybody there could act with your rights",
            hint="set QDECK_SERVE_TOKEN, or give --token-file or --users-file (its lines are made by --new-user NAME)",
        )
    os.environ["QDECK_URL"] = target.url
    # The default context is named, too: its URL alone says less than the context, such as that it is read-only.
    context = given.context or (None if given.url else target.name)
    options = [
        *(word for name, value in (("--context", context), ("--config", given.config)) if value
          for word in (name, value)),
        *(["--confirm", given.confirm] if given.confirm else []),
        *(word for name in given.adapters for word in ("--adapter", name)),
    ]  # fmt: skip
    if not is_loopback(host):
        note(f"qdeck: {host}:{port} is plain HTTP: put a proxy with TLS before it, and name its URL with --public-url")
    title = f"qdeck · {target.name or urlsplit(target.url).hostname or 'local'}"
    made = server.ConsoleServer(
        server.console_command(options),
        login,
        host=host,
        port=port,
        public_url=public_url,
        visitors=visitors,
        title=title,
    )
    asyncio.run(made.serve())


def _public_host(url: str | None) -> str:
    """The host of the public URL; this machine where there is none."""
    if url is None:
        return "localhost"
    from qdeck import InvalidOption

    hint = "write https://HOST or https://HOST/PATH"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InvalidOption(f"{url!r} is not a URL", hint=hint) from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise InvalidOption(f"{url!r} is not a URL of a page", hint=hint)
    return parts.hostname
