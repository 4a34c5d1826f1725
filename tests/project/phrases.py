"""Find phrases that text for users shall not have: `python tests/project/phrases.py`.

It reads the strings and docstrings of both packages and the documents. phrases.toml has the phrases with what to write
instead, and sentences in which one is right. phrases.json counts what is left of each phrase in each part: a count that
is higher fails, and `--record` stores lower ones.
"""

from __future__ import annotations

import argparse
import ast
import collections
import json
import re
import sys
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).parents[2]
RULES: Final = Path(__file__).with_name("phrases.toml")
RECORD: Final = Path(__file__).with_name("phrases.json")
PARTS: Final = {
    "core": ("core/qdeck/**/*.py",),
    "console": ("console/qdeck_console/**/*.py", "console/qdeck_console/**/*.html"),
    "documents": ("*.md", "*.toml", "core/**/*.md", "console/**/*.md"),
}
CODE: Final = (
    r"(?:qdeck|the (?:agent|worker|console|server|script|client|feed|adapter|reader|writer|command|queue|library"
    r"|check|dialog|screen|page|footer|plan|batch|test|program|handler))"
)
_GENERATED: Final = re.compile(r"<!-- generated: [^\n]* -->\n.*?<!-- end -->", re.DOTALL)
Counts = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A phrase, as it is written in phrases.toml and as a pattern, and what to write instead."""

    phrase: str
    pattern: re.Pattern[str]
    write: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A phrase in a file."""

    part: str
    file: str
    line: int
    text: str
    rule: Rule


def pattern(phrase: str) -> re.Pattern[str]:
    """Return the pattern of a phrase: whole words, any white space between them."""
    words = phrase.replace("CODE", CODE).replace(" ", r"\s+")
    return re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)


def texts(name: str, source: str) -> Iterator[tuple[int, str]]:
    """Yield each text of a file with its first line: of a Python file its strings, with … for values in them."""
    if not name.endswith(".py"):
        # What a page takes from the code is counted there.
        yield 1, _GENERATED.sub(lambda part: "\n" * part[0].count("\n"), source)
        return
    nodes = list(ast.walk(ast.parse(source)))
    formatted = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    parts = {part for node in formatted for part in node.values}
    for whole in formatted:
        yield whole.lineno, "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in whole.values)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            yield node.lineno, node.value


def find(part: str, name: str, source: str, rules: Iterable[Rule], allowed: Iterable[Mapping[str, str]]) -> list[Found]:
    """Return the phrases in a file, but for the sentences that are allowed."""
    right = [re.compile(entry["line"]) for entry in allowed if fnmatch(name, entry["file"])]
    found = []
    for first, text in texts(name, source):
        for rule in rules:
            for match in rule.pattern.finditer(text):
                start = text.rfind("\n", 0, match.start()) + 1
                line = text[start : len(text) if (end := text.find("\n", match.end())) < 0 else end]
                if not any(one.search(line) for one in right):
                    at = first + text.count("\n", 0, match.start())
                    found.append(Found(part=part, file=name, line=at, text=line.strip(), rule=rule))
    return found


def read_rules() -> tuple[list[Rule], list[dict[str, str]]]:
    """Return the phrases, and the sentences in which one is right."""
    said = tomllib.loads(RULES.read_text("utf-8"))
    rules = [Rule(phrase=one["not"], pattern=pattern(one["not"]), write=one["write"]) for one in said["phrase"]]
    return rules, said["allowed"]


def find_all() -> list[Found]:
    """Return the phrases in the working tree."""
    rules, allowed = read_rules()
    files = [(part, path) for part, globs in PARTS.items() for glob in globs for path in sorted(ROOT.glob(glob))]
    names = [(part, path, path.relative_to(ROOT).as_posix()) for part, path in files]
    return [one for part, path, name in names for one in find(part, name, path.read_text("utf-8"), rules, allowed)]


def counts(found: Iterable[Found]) -> Counts:
    """Return how often each phrase is in each part."""
    counted: dict[str, collections.Counter[str]] = {part: collections.Counter() for part in PARTS}
    for one in found:
        counted[one.part][one.rule.phrase] += 1
    return {part: dict(sorted(phrases.items())) for part, phrases in counted.items()}


def more(found: Sequence[Found], recorded: Counts) -> list[Found]:
    """Return the phrases of which a part has more than is recorded."""
    now = counts(found)
    known = {part: recorded.get(part, {}) for part in PARTS}
    return [one for one in found if now[one.part][one.rule.phrase] > known[one.part].get(one.rule.phrase, 0)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the phrases that are new, or all of them, and how many are left; fail if there are new ones."""
    parser = argparse.ArgumentParser(description="Finds phrases that text for users shall not have.")
    parser.add_argument("--all", action="store_true", help="print what is counted in phrases.json, too")
    parser.add_argument("--record", action="store_true", help="store the counts, which can only become lower")
    given = parser.parse_args(arguments)
    recorded: Counts = json.loads(RECORD.read_text("utf-8"))
    found = find_all()
    new = more(found, recorded)
    lines = [f"{one.file}:{one.line}: {one.text}\n  write: {one.rule.write}" for one in (found if given.all else new)]
    totals = {part: sum(phrases.values()) for part, phrases in counts(found).items()}
    lines.append("phrases left: " + ", ".join(f"{part} {count}" for part, count in totals.items()))
    print("\n".join(lines))  # noqa: T201 - what it found is what it is for
    if given.record and not new:
        RECORD.write_text(json.dumps(counts(found), indent=2, ensure_ascii=False) + "\n", "utf-8")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
