"""Finds, reads and checks `qdeck.toml`. What is wrong is told with its file, line, key, value and the nearest name."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._errors import InvalidOption
from qdeck._layout_names import LAYOUTS
from qdeck._settings import trust
from qdeck._settings.configuration import Configuration, Own
from qdeck._settings.model import (
    FOREIGN_RULES,
    PRODUCTION,
    RULE_KEYS,
    SWITCHES_THAT_WRITE,
    Agent,
    Context,
    DeadLetters,
    Health,
    Masking,
    PartialThresholds,
    Purge,
    Settings,
)
from qdeck._settings.thresholds import Thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_NAME: Final = "qdeck.toml"
_MOST_BYTES: Final = 1 << 20
_MOST_BYTES_OF_STRANGERS: Final = 1 << 15
_LONGEST_LINE_OF_STRANGERS: Final = 2000  # tomllib takes minutes for a dotted key of many parts
_AT: Final = re.compile(r" - at (?:key in )?`\$(.*)`$")
_UNKNOWN: Final = re.compile(r"unknown field `(.*?)`")
_MISSING: Final = re.compile(r"missing required field `(.*?)`")
_HEADER: Final = re.compile(r"\s*\[\s*(.*?)\s*\]\s*(#.*)?$")
COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white", "grey", "orange", "wine")
_NOT_PRODUCTION: Final = ("preprod", "preproduction", "pre-prod", "pre-production", "nonprod", "non-prod")
_HEX: Final = re.compile(r"#[0-9a-fA-F]{6}")
_PLAIN: Final = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "str": "text", "array": "a list",
    "object": "a table",
}  # fmt: skip
_TABLES: Final[Mapping[str, type[msgspec.Struct]]] = {
    "": Settings,
    "purge": Purge,
    "health": Health,
    "health.health_thresholds": Thresholds,
    "dead_letters": DeadLetters,
    "agent": Agent,
    "masking": Masking,
    "contexts.*": Context,
    "contexts.*.thresholds": PartialThresholds,
}


def own_file() -> Path:
    """Where the user's own configuration file is, if there is one."""
    import platformdirs

    return platformdirs.user_config_path("qdeck") / "config.toml"


def load(given: str | Path | None = None) -> Configuration:
    """The configuration of the file that is named or found; the defaults where there is none.

    Found is `./qdeck.toml` when it is trusted, then the user's own. Whatever is read, the production contexts and
    the read-only ones of the user's own file hold as well.
    """
    own, here = own_file(), Path(FILE_NAME)
    if given is not None:
        return with_own(_load(Path(given), "--config takes the path of a qdeck.toml"))
    ignored = ""
    if here.is_file() and not _is_same_file(here, own):
        data = _read_here(here)
        state = trust.state_of(here, data)
        if state is trust.State.TRUSTED:
            return with_own(_decode(data, here))
        ignored = f"{here} was ignored, with its servers and settings: {state.value}"
        found = _load_own(own)
        return replace(found, ignored=ignored, was_trusted=state is trust.State.CHANGED, strangers=_strangers(data))
    return _load_own(own)


def with_own(found: Configuration) -> Configuration:
    """A configuration with the protected contexts of the user's own file, which no other file hides.

    Where it has another context of the same name, both stay: that one becomes as strict.
    """
    own = own_file()
    if found.file is not None and _is_same_file(found.file, own):
        return found
    kept = _load_own(own)
    if kept.file is None:
        return found
    protected = {name: context for name, context in kept.settings.contexts.items() if context.is_protected}
    contexts = protected | found.settings.contexts
    return replace(
        found, settings=msgspec.structs.replace(found.settings, contexts=contexts), own=Own(own, kept.settings.contexts)
    )


def _strangers(data: bytes) -> dict[str, Context]:
    """The production contexts of a file that is not trusted: they can make a server stricter, and nothing else.

    Only those without variables, because the name of a server must not reveal the value of one.
    """
    if len(data) > _MOST_BYTES_OF_STRANGERS or max(map(len, data.splitlines()), default=0) > _LONGEST_LINE_OF_STRANGERS:
        return {}
    try:
        contexts = read_text(data.decode("utf-8")).settings.contexts
    except (InvalidOption, UnicodeDecodeError):
        return {}
    return {
        name: Context(url=context.url, environment=context.environment, read_only=context.read_only)
        for name, context in contexts.items()
        if context.is_production and "$" not in context.url
    }


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _read_here(file: Path) -> bytes:
    try:
        return _read_bytes(file)
    except OSError:
        return b""  # trusted it cannot be


def _read_bytes(file: Path) -> bytes:
    """At most one byte more than a configuration may have."""
    with file.open("rb") as source:
        return source.read(_MOST_BYTES + 1)


def read_file(file: Path, hint: str = "name a configuration file") -> tuple[Configuration, bytes]:
    """Read and check one file alone; gives its bytes, too, so that what was checked is what is trusted."""
    try:
        data = _read_bytes(file)
    except OSError as error:
        raise InvalidOption(f"{file} cannot be read: {error.strerror}", hint=hint) from error
    if len(data) > _MOST_BYTES:
        raise InvalidOption(f"{file} is larger than {_MOST_BYTES:,} bytes", hint=hint)
    return _decode(data, file), data


def _load_own(own: Path) -> Configuration:
    """The user's own file; the defaults only where there is none, as one that cannot be read may protect servers."""
    try:
        own.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return Configuration(settings=Settings())
    except OSError as error:
        raise InvalidOption(f"{own} cannot be read: {error.strerror}", hint="let this user read it") from error
    return _load(own, "let this user read it")


def _load(file: Path, hint: str) -> Configuration:
    return read_file(file, hint)[0]


def _decode(data: bytes, file: Path) -> Configuration:
    try:
        return read_text(data.decode("utf-8"), file)
    except UnicodeDecodeError as error:
        raise InvalidOption(f"{file} is not UTF-8 text: byte {error.start}", hint="save it as UTF-8") from error


def read_text(text: str, file: Path | None = None) -> Configuration:
    """Checks the text of a configuration."""
    import tomllib

    name = str(file or FILE_NAME)
    try:
        document = tomllib.loads(text)
    except RecursionError as error:
        raise InvalidOption(f"{name} is not TOML: it is nested too deeply", hint="nest its values less") from error
    except ValueError as error:  # also a number with more digits than Python reads
        raise InvalidOption(f"{name} is not TOML: {error}", hint="see https://toml.io for the notation") from error
    try:
        settings = msgspec.convert(document, Settings)
    except msgspec.ValidationError as error:
        raise _explain(str(error), document, text, name) from error
    found = Configuration(settings=settings, file=file)
    _check(found, text, name)
    return found


def _check(found: Configuration, text: str, name: str) -> None:
    settings = found.settings

    def wrong(path: list[str], what: str, hint: str) -> InvalidOption:
        return InvalidOption(f"{_place(name, text, path)}: {what}", hint=hint)

    default = settings.default_context
    if default is not None and default not in settings.contexts:
        known = difflib.get_close_matches(default, settings.contexts, 1)
        hint = f"did you mean {known[0]!r}?" if known else f"add [contexts.{default}] with a url"
        raise wrong(["default_context"], f"there is no context {default!r}", hint)
    for context_name, context in settings.contexts.items():
        at = ["contexts", context_name]
        # A typing error here would take away the ceremony of production.
        near = difflib.get_close_matches(context.environment.lower(), PRODUCTION, 1, 0.75)
        if near and context.environment.lower() not in (*PRODUCTION, *_NOT_PRODUCTION):
            raise wrong(
                [*at, "environment"],
                f"{context.environment!r} is perhaps meant to be production",
                f"write {near[0]!r}, or a name that is not so like it",
            )
        for layout in context.layouts:
            if layout not in LAYOUTS:
                near = difflib.get_close_matches(layout, LAYOUTS, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"layouts are: {', '.join(LAYOUTS)}"
                raise wrong([*at, "layouts"], f"there is no layout {layout!r}", hint)
        if context.colour is not None and context.colour not in COLOURS and not _HEX.fullmatch(context.colour):
            near = difflib.get_close_matches(context.colour, COLOURS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"write #rrggbb or one of {', '.join(COLOURS)}"
            raise wrong([*at, "colour"], f"{context.colour!r} is no colour", hint)
        _check_pairs(context.thresholds.over(found.thresholds), [*at, "thresholds"], wrong)
    for rule in settings.purge.rules or ():
        rules = (*RULE_KEYS, *FOREIGN_RULES)
        if rule not in rules:
            near = difflib.get_close_matches(rule, rules, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"rules are: {', '.join(rules)}"
            raise wrong(["purge", "rules"], f"there is no purge rule {rule!r}", hint)
    _check_pairs(found.thresholds, ["health", "health_thresholds"], wrong)


def _check_pairs(thresholds: Thresholds, path: list[str], wrong: Any) -> None:
    for low, high in (
        ("dlq_max_warning", "dlq_max_critical"),
        ("stuck_vm_max_warning", "stuck_vm_max_critical"),
        ("memory_max_warning", "memory_max_critical"),
    ):
        first, second = getattr(thresholds, low), getattr(thresholds, high)
        if first > second:
            raise wrong([*path, low], f"{first:,} is over {high} ({second:,})", f"give {low} at most {high}")


def _explain(message: str, document: dict[str, Any], text: str, name: str) -> InvalidOption:
    at = _AT.search(message)
    what = message[: at.start()] if at else message
    path = _walk_path(at[1] if at else "", document)
    missing, unknown = _MISSING.search(what), _UNKNOWN.search(what)
    if unknown:
        key = unknown[1]
        return InvalidOption(
            f"{_place(name, text, [*path, key])}: there is no setting {key!r}", hint=_nearest(path, key)
        )
    if missing:
        return InvalidOption(f"{_place(name, text, path)}: {missing[1]!r} is missing", hint=f"add {missing[1]} = …")
    value = _value(document, path)
    # Text in these tables may be a secret that was written in the wrong place.
    guarded = path[:1] in (["contexts"], ["agent"]) and isinstance(value, str)
    shown = "" if guarded or isinstance(value, dict | list) else f", not {_short(value)}"
    return InvalidOption(f"{_place(name, text, path)}: {_lower(what)}{shown}", hint=_expected_hint(path))


def _walk_path(at: str, document: dict[str, Any]) -> list[str]:
    """The keys behind a path such as `.contexts[...].url`: msgspec leaves the brackets empty, so it is looked for."""
    words = re.findall(r"\.([^.\[\]]+)|\[([^\]]*)\]", at)
    path: list[str] = []
    for at_word, (field, index) in enumerate(words):
        if field:
            path.append(field)
        elif index == "...":
            inside = _value(document, path)
            rest = "".join(f".{f}" if f else f"[{i}]" for f, i in words[at_word + 1 :])
            path.append(_culprit(path, inside, rest))
        else:
            path.append(index)
    return path


def _culprit(path: list[str], inside: Any, rest: str) -> str:
    kind = _TABLES.get(".".join([*path, "*"]))
    if isinstance(inside, dict) and kind is not None:
        for key, value in inside.items():
            try:
                msgspec.convert(value, kind)
            except msgspec.ValidationError as error:
                found = _AT.search(str(error))
                if (found[1] if found else "") == rest:
                    return str(key)
    return "…"


def _value(document: Any, path: list[str]) -> Any:
    value = document
    for key in path:
        try:
            value = value[int(key)] if isinstance(value, list) else value[key]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _lower(what: str) -> str:
    told = re.sub(r"Expected (.*?)(, got .*)?$", r"this must be \1", what.replace("`", "").replace(" | null", ""))
    for word, plain in _PLAIN.items():
        told = re.sub(rf"\b{word}\b", plain, told)
    return told


def _table(path: list[str]) -> type[msgspec.Struct] | None:
    words = ["*" if at == 1 and path[0] == "contexts" else word for at, word in enumerate(path)]
    return _TABLES.get(".".join(words))


def _nearest(path: list[str], key: str) -> str:
    kind = _table(path)
    known = list(kind.__struct_fields__) if kind is not None else []
    elsewhere = {
        name: table
        for table, other in _TABLES.items()
        if "*" not in table and other is not kind
        for name in other.__struct_fields__
    }
    if key in elsewhere:
        table = elsewhere[key]
        return f"{key} belongs in [{table}]" if table else f"{key} belongs before the first [table]"
    for names in (known, elsewhere):
        near = difflib.get_close_matches(key, [name for name in names if name not in SWITCHES_THAT_WRITE], 1)
        if near:
            table = "" if names is known else elsewhere[near[0]]
            return f"did you mean {near[0]!r}{f' in [{table}]' if table else ''}?"
    return f"settings here are: {', '.join(known)}" if known else ""


def _expected_hint(path: list[str]) -> str:
    kind = _table(path[:-1]) if path else None
    if kind is None:
        return ""
    default = getattr(kind(), path[-1], None) if path[:1] != ["contexts"] else None
    return (
        f"the default is {str(default).lower() if isinstance(default, bool) else default}"
        if (isinstance(default, int | float))
        else ""
    )


def _place(name: str, text: str, path: list[str]) -> str:
    line = _line(text, path)
    where = f"{name}:{line}" if line else name
    return f"{where}: {'.'.join(path)}" if path else where


def _line(text: str, path: list[str]) -> int | None:
    """The line that sets a key, or that opens the table it belongs to. tomllib does not tell, so it is looked for."""
    wanted, table, opened = ".".join(path), "", None
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header and not line.lstrip().startswith("[["):
            table = ".".join(_unquoted(part) for part in header[1].split("."))
            if wanted.startswith(f"{table}.") or (opened is None and table.startswith(f"{wanted}.")):
                opened = number
            if wanted == table:
                return number
            continue
        key, equals, _ = line.partition("=")
        if equals and not key.lstrip().startswith("#"):
            full = ".".join(filter(None, [table, *(_unquoted(part) for part in key.split("."))]))
            if full == wanted:
                return number
            if wanted.startswith(f"{full}."):  # inside an inline table
                opened = number
    return opened


def _unquoted(part: str) -> str:
    return part.strip().strip("\"'")
