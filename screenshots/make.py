"""Make the pictures of the documentation: `python screenshots/make.py [--only NAME] [--to DIR]`.

They show the demo's queues at one moment that never passes, so that they change only when the console does; a test
compares the cells that they were drawn from with those of today (`drawn.json`).

The cells are taken from the console itself and drawn one by one, blocks and lines to the edges of their cell, as
terminals draw them; the SVG that Textual exports leaves seams between them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

import resvg_py

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.servers import Server
from support.still import StillFrame, frames, paint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.style import Style

HERE: Final = Path(__file__).resolve().parent
WIDE, HIGH, SIZE = 11, 23, 18.27  # a cell in pixels, and the font size at which a letter is as wide as a cell
FONTS: Final = ("/usr/share/fonts", "/Library/Fonts", "/System/Library/Fonts")
COLUMNS, ROWS = 160, 48
DRAWN: Final = HERE / "drawn.json"
_BLOCKS: Final = {char: (0, 1 - eighth / 8, 1, eighth / 8) for eighth, char in enumerate("▁▂▃▄▅▆▇█", 1)}
_SHAPES: Final[dict[str, tuple[tuple[float, float, float, float], ...]]] = {
    **{char: (box,) for char, box in _BLOCKS.items()},
    "▌": ((0, 0, 0.5, 1),),
    "━": ((0, 0.46, 1, 0.1),),
    "╸": ((0, 0.46, 0.5, 0.1),),
    "─": ((0, 0.48, 1, 0.045),),
    "│": ((0.46, 0, 0.09, 1),),
    "┤": ((0.46, 0, 0.09, 1), (0, 0.48, 0.5, 0.045)),
}


def svg(lines: Iterable[Iterable[tuple[str, Style]]], width: int, height: int, ground: str) -> str:
    """A screen as SVG: grounds first, then shapes and letters."""
    grounds: list[str] = []
    marks: list[str] = []
    for y, line in enumerate(lines):
        x = 0
        for text, style in line:
            colour = style.color.get_truecolor().hex if style.color else "#cccccc"
            if style.bgcolor:
                back = style.bgcolor.get_truecolor().hex
                grounds.append(
                    f'<rect x="{x * WIDE}" y="{y * HIGH}" width="{len(text) * WIDE}" height="{HIGH}" fill="{back}"/>'
                )
            letters = [(x + at, char) for at, char in enumerate(text) if char != " "]
            for at, char in letters:
                for left, top, wide, high in _SHAPES.get(char, ()):
                    marks.append(_rect((at + left) * WIDE, (y + top) * HIGH, wide * WIDE, high * HIGH, colour))
            plain = [(at, char) for at, char in letters if char not in _SHAPES]
            if plain:
                places = " ".join(str(at * WIDE) for at, _ in plain)
                weight = ' font-weight="bold"' if style.bold else ""
                words = escape("".join(char for _, char in plain))
                marks.append(f'<text x="{places}" y="{y * HIGH + 17}" fill="{colour}"{weight}>{words}</text>')
            if style.underline:
                marks.append(_rect(x * WIDE, y * HIGH + 20, len(text) * WIDE, 1, colour))
            x += len(text)
    size = f'width="{width * WIDE}" height="{height * HIGH}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="DejaVu Sans Mono" font-size="{SIZE}" '
        f'xml:space="preserve" shape-rendering="crispEdges"><rect {size} fill="{ground}"/>'
        + "".join(grounds + marks)
        + "</svg>"
    )


def _rect(x: float, y: float, wide: float, high: float, colour: str) -> str:
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{high:.2f}" fill="{colour}"/>'


def take() -> dict[str, StillFrame]:
    """The frames of all pictures, by the names of their files."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        os.environ[name] = tempfile.mkdtemp(prefix="qdeck-pictures-")
    for name in ("NO_COLOR", "QDECK_ASCII", "LC_ALL", "LC_CTYPE", "LANG"):
        os.environ.pop(name, None)
    with Server() as server, server.client() as raw:
        paint(server.url, raw)
        dark = asyncio.run(frames(server.url, (COLUMNS, ROWS)))
        light = asyncio.run(frames(server.url, (COLUMNS, ROWS), theme="qdeck-paper", only="queues"))
    return {f"{name}-dark": frame for name, frame in dark.items()} | {"queues-light": light["queues"]}


def write(drawn: str, path: Path) -> None:
    """Draws an SVG as PNG with a font of this machine."""
    fonts = [folder for folder in FONTS if Path(folder).is_dir()]
    path.write_bytes(bytes(resvg_py.svg_to_bytes(svg_string=drawn, font_dirs=fonts)))
    sys.stdout.write(f"{path}\n")


def main() -> None:
    """Makes the pictures that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="this picture; may be repeated")
    parser.add_argument("--to", type=Path, default=HERE, help="the folder for the pictures")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    taken = take()
    known: dict[str, str] = json.loads(DRAWN.read_text()) if DRAWN.exists() else {}
    for name, frame in taken.items():
        if not options.only or name in options.only:
            write(svg(frame.lines, COLUMNS, ROWS, frame.ground), options.to / f"{name}.png")
            known[name] = frame.digest
    if options.to == HERE:
        DRAWN.write_text(json.dumps({name: known[name] for name in sorted(known)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
