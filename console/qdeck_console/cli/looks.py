"""Options for how the console looks."""

from __future__ import annotations

import os

import click


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
