"""`qdeck serve`: serve the console to browsers."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from urllib.parse import urlsplit

import click

from qdeck_console.cli.base import command, settings
from qdeck_console.cli.output import note


@command(
    "serve",
    examples=(
        "qdeck serve",
        "qdeck serve --port 9000 --token-file token.txt",
        "qdeck serve --new-user ana >> users.txt",
    ),
)
@click.option("--host", default="127.0.0.1", metavar="HOST", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8000, show_default=True, metavar="PORT", help="Port to listen on."
)
@click.option("--public-url", metavar="URL", help="URL that browsers use. Default: http://HOST:PORT.")
@click.option(
    "--visitors",
    metavar="N",
    type=click.IntRange(1, 100),
    default=8,
    show_default=True,
    help="At most this many consoles at once.",
)
@click.option("--token-file", metavar="FILE", help="File with the login token. Default: $QDECK_SERVE_TOKEN.")
@click.option("--users-file", metavar="FILE", help="File with users and password hashes. Default: $QDECK_SERVE_USERS.")
@click.option("--new-user", metavar="NAME", help="Ask for a password, print the line for --users-file and exit.")
def serve(
    host: str,
    port: int,
    public_url: str | None,
    visitors: int,
    token_file: str | None,
    users_file: str | None,
    new_user: str | None,
) -> None:
    """Serve the console to browsers.

    The server runs until Ctrl+C. Every visitor acts with your permissions on the server. On an address other than
    loopback a login is required: a token or users.
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
            f"qdeck serve on {where} requires a login: every visitor acts with your permissions",
            hint="Set QDECK_SERVE_TOKEN, or give --token-file or --users-file (--new-user NAME prints its lines).",
        )
    os.environ["QDECK_URL"] = target.url
    # Pass the default context on as well: only the context says that it is read-only.
    context = given.context or (None if given.url else target.name)
    options = [
        *(word for name, value in (("--context", context), ("--config", given.config)) if value
          for word in (name, value)),
        *(["--confirm", given.confirm] if given.confirm else []),
        *(word for name in given.adapters for word in ("--adapter", name)),
    ]  # fmt: skip
    if not is_loopback(host):
        note(f"qdeck: {host}:{port} is plain HTTP. Use a proxy with TLS, and give its URL as --public-url.")
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
    """Return the host of the public URL; this machine where there is none."""
    if url is None:
        return "localhost"
    from qdeck import InvalidOption

    hint = "Write https://HOST or https://HOST/PATH."
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InvalidOption(f"--public-url {url!r} is not a URL", hint=hint) from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise InvalidOption(f"--public-url {url!r} is not the URL of a web page", hint=hint)
    return parts.hostname
