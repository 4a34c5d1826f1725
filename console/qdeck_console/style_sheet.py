"""The style sheet of the console, parsed once for each set of colours."""

from __future__ import annotations

from textual.css.stylesheet import Stylesheet


class Sheet(Stylesheet):
    """A style sheet that is parsed when its colours change. Textual parses all of it anew, twice, when a theme is set
    and when a screen is seen for the first time; here what was parsed holds as long as the colours are the same.
    """

    def __init__(self, *, variables: dict[str, str] | None = None) -> None:
        super().__init__(variables=variables)
        self._colours = dict(variables or {})
        self._changed = True

    def set_variables(self, variables: dict[str, str]) -> None:
        """Take the colours of a theme."""
        if variables != self._colours:
            super().set_variables(variables)
            self._colours = dict(variables)
            self._changed = True

    def reparse(self) -> None:
        """Parses what was not parsed with these colours."""
        if self._changed:
            self.parse()
            self._changed = False
        else:
            _ = self.rules
