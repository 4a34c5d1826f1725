"""The description on a package index: the README without pictures, and with paths where it links to files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_HIDDEN = re.compile(r"^(?:!\[[^\]]*\]\([^)]*\)|<!--.*-->)\n\n", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:)([^)#]*)(?:#[^)]*)?\)")


def description(readme: str) -> str:
    """Return the text of a README for a package index, which has none of the files that it links to."""
    return _LINK.sub(lambda link: f"{link[1]} (`{link[2]}`)" if link[2] else link[1], _HIDDEN.sub("", readme))


class IndexReadme(MetadataHookInterface):
    """Sets the `readme` of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set it to the text that an index can show."""
        text = description((Path(self.root) / "README.md").read_text("utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
