"""The colours: three palettes, the Textual themes made from them, and roles turned into styles.

A role is what a piece of text is (`bad bold`, `muted`), never a colour, so that one place decides how a state looks in
the dark, on paper, in 16 colours, without colour, and on a frame that is out of date.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Final

from rich.style import Style
from textual.color import Color
from textual.theme import Theme


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Palette:
    """Every colour of a theme, by its use. Known by identity: styles are looked up by it thousands of times a frame."""

    ground: str
    panel: str
    raised: str
    line: str
    cursor: str
    text: str
    strong: str
    muted: str
    faint: str
    ghost: str
    accent: str
    accent_dim: str
    bad: str
    warn: str
    ok: str
    bad_dim: str
    bar: str
    bar_text: str
    bar_muted: str
    badge: str
    badge_text: str
    prod: str
    prod_text: str
    prod_muted: str
    prod_badge: str
    prod_badge_text: str
    live: str
    live_text: str
    live_muted: str
    live_badge: str
    live_badge_text: str


INK: Final = Palette(
    ground="#101315",
    panel="#161A1D",
    raised="#1E2428",
    line="#2C3439",
    cursor="#17302F",
    text="#CFD5D3",
    strong="#F3F6F4",
    muted="#94A0A4",
    faint="#7A878D",
    ghost="#5D6A70",
    accent="#5FC9BE",
    accent_dim="#24514E",
    bad="#F47C62",
    warn="#E8B453",
    ok="#8DB877",
    bad_dim="#4A2620",
    bar="#1E2428",
    bar_text="#CFD5D3",
    bar_muted="#94A0A4",
    badge="#2C3439",
    badge_text="#CFD5D3",
    prod="#3A1427",
    prod_text="#F6DCE6",
    prod_muted="#C394A8",
    prod_badge="#C22C68",
    prod_badge_text="#FFFFFF",
    live="#8A1B49",
    live_text="#FFFFFF",
    live_muted="#F0C3D5",
    live_badge="#FFFFFF",
    live_badge_text="#8A1B49",
)
PAPER: Final = Palette(
    ground="#FBFAF7",
    panel="#F3F1EC",
    raised="#E8E5DE",
    line="#D2CEC4",
    cursor="#D5ECEC",
    text="#2B3234",
    strong="#0B1011",
    muted="#5A6568",
    faint="#636D70",
    ghost="#838C8E",
    accent="#0A756D",
    accent_dim="#A9D6D0",
    bad="#B4351D",
    warn="#855600",
    ok="#3B6B28",
    bad_dim="#F8E1DB",
    bar="#E8E5DE",
    bar_text="#2B3234",
    bar_muted="#5A6568",
    badge="#D2CEC4",
    badge_text="#2B3234",
    prod="#F5D5E1",
    prod_text="#4A0C27",
    prod_muted="#7F3455",
    prod_badge="#A01B54",
    prod_badge_text="#FFFFFF",
    live="#A01B54",
    live_text="#FFFFFF",
    live_muted="#FAD7E4",
    live_badge="#FFFFFF",
    live_badge_text="#A01B54",
)
# Of 256, the nearest to the dark teal of the cursor is a green that muted words drown in, and to wine an alarming red.
EIGHT_BIT: Final = replace(INK, cursor="#303030", line="#444444", badge="#444444", prod="#5F005F")
# Only values that Rich turns into exactly these sixteen: its own choice for the others would make them all black.
SIXTEEN: Final = Palette(
    ground="#000000",
    panel="#000000",
    raised="#000000",
    line="#555555",
    cursor="#0000AA",
    text="#AAAAAA",
    strong="#FFFFFF",
    muted="#AAAAAA",
    faint="#AAAAAA",
    ghost="#555555",
    accent="#55FFFF",
    accent_dim="#00AAAA",
    bad="#FF5555",
    warn="#FFFF55",
    ok="#55FF55",
    bad_dim="#000000",
    bar="#000000",
    bar_text="#AAAAAA",
    bar_muted="#AAAAAA",
    badge="#555555",
    badge_text="#FFFFFF",
    prod="#000000",
    prod_text="#FFFFFF",
    prod_muted="#AAAAAA",
    prod_badge="#AA00AA",
    prod_badge_text="#FFFFFF",
    live="#AA00AA",
    live_text="#FFFFFF",
    live_muted="#FFFFFF",
    live_badge="#FFFFFF",
    live_badge_text="#AA00AA",
)
PALETTES: Final = {"qdeck-ink": INK, "qdeck-paper": PAPER, "qdeck-256": EIGHT_BIT, "qdeck-16": SIXTEEN}
_GROUNDS: Final = {field.name for field in fields(Palette)}


def variables(palette: Palette) -> dict[str, str]:
    """Return what style sheets may name (`$line`), and how the built-in widgets are to look."""
    own = {f"qd-{name.replace('_', '-')}": getattr(palette, name) for name in sorted(_GROUNDS)}
    return {
        **own,
        "block-cursor-background": palette.cursor,
        "block-cursor-foreground": palette.strong,
        "block-cursor-text-style": "bold",
        "input-cursor-background": palette.accent,
        "input-cursor-foreground": palette.ground,
        "input-selection-background": palette.accent_dim,
        "scrollbar": palette.line,
        "scrollbar-hover": palette.ghost,
        "scrollbar-active": palette.accent,
        "scrollbar-background": palette.ground,
        "scrollbar-background-hover": palette.ground,
        "scrollbar-background-active": palette.ground,
        "scrollbar-corner-color": palette.ground,
        "border": palette.line,
        "footer-key-foreground": palette.accent,
    }


def plain_variables() -> dict[str, str]:
    """The same without any colour: whatever the terminal has for text and ground."""
    return dict.fromkeys(variables(INK), "ansi_default") | {"block-cursor-text-style": "reverse"}


def themes() -> list[Theme]:
    """The console's own themes, for Textual."""
    return [
        Theme(
            name=name,
            primary=palette.accent,
            secondary=palette.muted,
            accent=palette.accent,
            foreground=palette.text,
            background=palette.ground,
            surface=palette.ground,
            panel=palette.panel,
            boost=palette.raised,
            error=palette.bad,
            warning=palette.warn,
            success=palette.ok,
            dark=palette is not PAPER,
            variables=variables(palette),
        )
        for name, palette in PALETTES.items()
    ]


def palette_of(theme: Theme) -> Palette:
    """Return the palette of a theme, the same object each time."""
    own = PALETTES.get(theme.name)
    if own is not None:
        return own
    made = _OTHERS.get(theme.name)
    if made is None or made[0] is not theme:
        made = _OTHERS[theme.name] = (theme, _derived(theme))
    return made[1]


_OTHERS: Final[dict[str, tuple[Theme, Palette]]] = {}


def _derived(theme: Theme) -> Palette:
    """Return a palette from the colours of a theme that is not ours: what the theme does not name is a blend of them.

    The bar of production keeps its own colours, so that it looks the same everywhere.
    """
    base = INK if theme.dark else PAPER
    ground, text = _named(theme.background, base.ground), _named(theme.foreground, base.text)
    accent = _named(theme.accent or theme.primary, base.accent)
    bad, warn, ok = _named(theme.error, base.bad), _named(theme.warning, base.warn), _named(theme.success, base.ok)

    def over(share: float, colour: Color = text) -> str:
        return ground.blend(colour, share).hex

    raised = over(0.08)
    return replace(
        base, ground=ground.hex, panel=over(0.04), raised=raised, line=over(0.2), cursor=over(0.22, accent),
        text=text.hex, strong=text.blend(Color.parse(base.strong), 0.7).hex, muted=over(0.72), faint=over(0.62),
        ghost=over(0.45), accent=accent.hex, accent_dim=over(0.4, accent), bad=bad.hex, warn=warn.hex, ok=ok.hex,
        bad_dim=over(0.25, bad), bar=raised, bar_text=text.hex, bar_muted=over(0.72),
        badge=over(0.2), badge_text=text.hex,
    )  # fmt: skip


def _named(value: str | None, default: str) -> Color:
    """Return a colour of a theme; the default for one that only the terminal knows."""
    found = Color.parse(value) if value and not value.startswith("ansi") else None
    return found if found is not None and found.a == 1 else Color.parse(default)


@dataclass(frozen=True, slots=True)
class Painter:
    """Turns roles into styles, for one palette and one state of the frame."""

    palette: Palette
    plain: bool = False  # no colour wanted: words, signs and weight must tell
    ascii: bool = False  # signs that every terminal has
    stale: bool = False  # the frame is out of date: everything is faint, nothing disappears

    def style(self, role: str, ground: str = "ground") -> Style:
        """The style of a role on a ground; both are words, looked up once."""
        return _style(self, role, ground)


@lru_cache(maxsize=2048)
def _style(painter: Painter, role: str, ground: str) -> Style:
    colour, _, rest = role.partition(" ")
    flags = set(rest.split())
    if painter.stale and colour not in {"line", "ghost"}:
        colour = "muted" if flags & {"bold"} else "faint"
    if colour == "faint" and ground == "cursor":
        colour = "muted"
    colour, _, share = colour.partition("@")
    if painter.plain:
        # As grey, coral and amber would be darker than strong text: bad is bold, warn is text like any other.
        flags |= {"bold"} if colour in {"bad", "strong", "accent"} and not painter.stale else set()
        # A field that is only raised is told by its edge or its brackets: reversed, it would be a slab.
        grounds = {flag for flag in flags if flag.startswith("on-")} or {f"on-{ground}"}
        reverse = not grounds <= {"on-ground", "on-panel", "on-raised", "on-bar", "on-prod", "on-live"}
        dim = colour in {"ghost", "line", "faint"} or painter.stale
        return Style(
            bold="bold" in flags or None, underline="under" in flags or None, reverse=reverse or None, dim=dim or None
        )
    on = next((flag.removeprefix("on-") for flag in flags if flag.startswith("on-")), ground)
    return Style(
        color=_accent(painter.palette, int(share)) if share else _value(painter.palette, colour),
        bgcolor=_value(painter.palette, on),
        bold="bold" in flags or None,
        underline="under" in flags or None,
        strike="strike" in flags or None,
    )


def _value(palette: Palette, name: str) -> str:
    """A colour by its role, or as it is: a context may give one to its bar."""
    return name if name.startswith("#") else str(getattr(palette, name))


def _accent(palette: Palette, percent: int) -> str:
    """Between the dim and the full accent, for charts; the sixteen colours know only these two."""
    if palette is SIXTEEN:
        return palette.accent if percent >= 50 else palette.accent_dim
    return Color.parse(palette.accent_dim).blend(Color.parse(palette.accent), percent / 100).hex
