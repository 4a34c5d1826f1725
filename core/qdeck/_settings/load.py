"""Finds, reads and checks `qdeck.toml`; an error names the file, the path in it and the nearest valid name."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._adapter_names import ADAPTERS, FOREIGN, find_class, is_adapter
from qdeck._errors import InvalidFilter, InvalidOption
from qdeck._formatting import invalid_value
from qdeck._settings import trusted_files
from qdeck._settings.configuration import Configuration, Own
from qdeck._settings.model import (
    PRODUCTION,
    SWITCHES_THAT_WRITE,
    AdapterSettings,
    AgentSettings,
    ContextSettings,
    Settings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._settings.thresholds import Thresholds

FILE_NAME: Final = "qdeck.toml"
_MOST_BYTES: Final = 1 << 20
_MOST_BYTES_OF_STRANGERS: Final = 1 << 15
_LONGEST_LINE_OF_STRANGERS: Final = 2000  # tomllib takes minutes for a dotted key of many parts
COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white", "grey", "orange", "wine")
_NOT_PRODUCTION: Final = ("preprod", "preproduction", "pre-prod", "pre-production", "nonprod", "non-prod")
_HEX: Final = re.compile(r"#[0-9a-fA-F]{6}")


def own_file() -> Path:
    """Return the user's own configuration file, if there is one."""
    import platformdirs

    return platformdirs.user_config_path("qdeck") / "config.toml"


def load(given: str | Path | None = None) -> Configuration:
    """Return the configuration of the named or found file; the defaults without one.

    Found is `./qdeck.toml` when it is trusted, then the user's own. Whatever is read, the production contexts and
    the read-only ones of the user's own file hold as well.
    """
    own, here = own_file(), Path(FILE_NAME)
    if given is not None:
        return with_own(_load(Path(given), "--config takes the path of a qdeck.toml"))
    ignored = ""
    if here.is_file() and not _is_same_file(here, own):
        data = _read_here(here)
        state = trusted_files.state_of(here, data)
        if state is trusted_files.TrustState.TRUSTED:
            return with_own(_decode(data, here))
        ignored = f"{here} was ignored, with its servers and settings: {state.value}"
        found = _load_own(own)
        contexts = _ignored_contexts(data)
        return replace(
            found,
            ignored=ignored,
            was_trusted=state is trusted_files.TrustState.CHANGED,
            strangers=_strangers(contexts),
            ignored_contexts=frozenset(contexts),
        )
    return _load_own(own)


def with_own(found: Configuration) -> Configuration:
    """Return a configuration with the protected contexts of the user's own file, which no other file hides.

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


def _ignored_contexts(data: bytes) -> Mapping[str, ContextSettings]:
    """Return the contexts of a file that is not trusted; none of one that is too long or cannot be read."""
    if len(data) > _MOST_BYTES_OF_STRANGERS or max(map(len, data.splitlines()), default=0) > _LONGEST_LINE_OF_STRANGERS:
        return {}
    try:
        return read_text(data.decode("utf-8"), is_trusted=False).settings.contexts
    except (InvalidOption, UnicodeDecodeError):
        return {}


def _strangers(contexts: Mapping[str, ContextSettings]) -> dict[str, ContextSettings]:
    """Return the production contexts of a file that is not trusted: they can only make a server stricter.

    Only those without variables, because the name of a server must not reveal the value of one.
    """
    return {
        name: ContextSettings(url=context.url, environment=context.environment, read_only=context.read_only)
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
    """Read at most one byte more than a configuration may have."""
    with file.open("rb") as source:
        return source.read(_MOST_BYTES + 1)


def read_file(file: Path, hint: str = "name a configuration file") -> tuple[Configuration, bytes]:
    """Read and check one file alone; return its bytes, too, so that the checked text is the trusted one."""
    try:
        data = _read_bytes(file)
    except OSError as error:
        raise InvalidOption(f"{file} cannot be read: {error.strerror}", hint=hint) from error
    if len(data) > _MOST_BYTES:
        raise InvalidOption(f"{file} is larger than {_MOST_BYTES:,} bytes", hint=hint)
    return _decode(data, file), data


def _load_own(own: Path) -> Configuration:
    """Return the user's own file; the defaults only without one: a file that cannot be read may protect servers."""
    try:
        own.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return Configuration(settings=Settings())
    except OSError as error:
        raise InvalidOption(f"{own} cannot be read: {error.strerror}", hint="Let this user read it.") from error
    return _load(own, "let this user read it")


def _load(file: Path, hint: str) -> Configuration:
    return read_file(file, hint)[0]


def _decode(data: bytes, file: Path) -> Configuration:
    try:
        return read_text(data.decode("utf-8"), file)
    except UnicodeDecodeError as error:
        raise InvalidOption(f"{file} is not UTF-8 text: byte {error.start}", hint="Save it as UTF-8.") from error


def read_text(text: str, file: Path | None = None, *, is_trusted: bool = True) -> Configuration:
    """Check the text of a configuration. For one that is not trusted no adapter is loaded: their settings are left
    out."""
    import tomllib

    name = str(file or FILE_NAME)
    try:
        document = tomllib.loads(text)
    except RecursionError as error:
        raise InvalidOption(
            f"{name} is not TOML: it is nested too deeply", hint="Nest its values less deeply."
        ) from error
    except ValueError as error:  # also a number with more digits than Python reads
        raise InvalidOption(f"{name} is not TOML: {error}", hint="See https://toml.io for the syntax") from error
    # One by one, since an error of msgspec names no key of a dictionary.
    contexts = _convert(document.pop("contexts", {}), dict[str, Any], "contexts", name)
    contexts = {key: _convert(value, ContextSettings, f"contexts.{key}", name) for key, value in contexts.items()}
    tables = _convert(document.pop("adapters", {}), dict[str, Any], "adapters", name)
    adapters = {key: _adapter_settings(key, value, name) for key, value in tables.items()} if is_trusted else {}
    settings = _convert(document, Settings, "", name)
    settings = msgspec.structs.replace(settings, contexts=contexts, adapters=adapters)
    found = Configuration(settings=settings, file=file)
    _check(found, name)
    return found


def _adapter_settings(adapter: str, value: Any, name: str) -> AdapterSettings:
    path = f"adapters.{adapter}"
    is_own = adapter in ADAPTERS and adapter not in FOREIGN  # always looked at, and with nothing to set
    kind = find_class(adapter) if is_adapter(adapter) and not is_own else None
    if kind is None:
        what = f"there is no adapter {adapter!r} with settings"
        raise InvalidOption(f"{name}: {path}: {what}", hint=_adapter_hint(adapter))
    found: AdapterSettings = _convert(value, kind.settings_type, path, name)
    return found


def _adapter_hint(adapter: str) -> str:
    near = difflib.get_close_matches(adapter, ADAPTERS, 1)
    return f"Did you mean {near[0]!r}?" if near else f"Use one of: {', '.join(ADAPTERS)}"


def _convert(value: Any, kind: Any, path: str, name: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        _check_names(value, kind, path, name)
        what, inside = invalid_value(error)
        hint = _default_hint(inside) if kind is Settings else ""
        raise InvalidOption(f"{name}: {f'{path}{inside}'.lstrip('.')}: {what}", hint=hint) from error


def _check_names(value: Any, kind: Any, path: str, name: str) -> None:
    """Raise for the first name that is not a setting, with a similar one."""
    if not isinstance(value, dict) or not _is_table(kind):
        return
    kinds = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for key, inner in value.items():
        at = f"{path}.{key}" if path else key
        if key not in kinds:
            raise InvalidOption(f"{name}: {at}: there is no setting {key!r}", hint=_nearest(kind, key))
        _check_names(inner, kinds[key], at, name)


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _check(found: Configuration, name: str) -> None:
    settings = found.settings

    def wrong(path: list[str], what: str, hint: str) -> InvalidOption:
        return InvalidOption(f"{name}: {'.'.join(path)}: {what}", hint=hint)

    default = settings.default_context
    if default is not None and default not in settings.contexts:
        known = difflib.get_close_matches(default, settings.contexts, 1)
        hint = f"Did you mean {known[0]!r}?" if known else f"Add [contexts.{default}] with a url."
        raise wrong(["default_context"], f"there is no context {default!r}", hint)
    for context_name, context in settings.contexts.items():
        at = ["contexts", context_name]
        # A typing error here would take away the ceremony of production.
        near = difflib.get_close_matches(context.environment.lower(), PRODUCTION, 1, 0.75)
        if near and context.environment.lower() not in (*PRODUCTION, *_NOT_PRODUCTION):
            raise wrong(
                [*at, "environment"],
                f"{context.environment!r} looks like production",
                f"write {near[0]!r}, or a name that is less similar to it",
            )
        for adapter in context.adapters:
            if not is_adapter(adapter):
                raise wrong([*at, "adapters"], f"there is no adapter {adapter!r}", _adapter_hint(adapter))
        if context.colour is not None and context.colour not in COLOURS and not _HEX.fullmatch(context.colour):
            near = difflib.get_close_matches(context.colour, COLOURS, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Write #rrggbb or one of {', '.join(COLOURS)}"
            raise wrong([*at, "colour"], f"{context.colour!r} is not a colour", hint)
        _check_pairs(context.thresholds.over(found.thresholds), [*at, "thresholds"], wrong)
    _check_rules(settings, wrong)
    _check_pairs(found.thresholds, ["health", "health_thresholds"], wrong)
    _check_filters(settings, wrong)


def _check_filters(settings: Settings, wrong: Any) -> None:
    if not settings.filters:
        return
    from qdeck._filter import parse

    for name, text in settings.filters.items():
        try:
            parse(text)
        except InvalidFilter as error:
            raise wrong(["filters", name], str(error), error.hint) from error


def _check_rules(settings: Settings, wrong: Any) -> None:
    cleans = settings.agent.clean_rules
    if settings.purge.rules is None and cleans == AgentSettings().clean_rules:
        return
    from qdeck._settings.purge_rules import Takes, check_rule

    named = [(["purge", "rules"], rule, None) for rule in settings.purge.rules or ()]
    for path, rule, takes in [*named, *((["agent", "clean_rules"], rule, Takes.QUEUES) for rule in cleans)]:
        try:
            check_rule(rule, takes)
        except InvalidOption as error:
            raise wrong(path, str(error), error.hint) from error


def _check_pairs(thresholds: Thresholds, path: list[str], wrong: Any) -> None:
    for low, high in (
        ("dlq_max_warning", "dlq_max_critical"),
        ("stuck_vm_max_warning", "stuck_vm_max_critical"),
        ("memory_max_warning", "memory_max_critical"),
    ):
        first, second = getattr(thresholds, low), getattr(thresholds, high)
        if first > second:
            raise wrong([*path, low], f"{first:,} is over {high} ({second:,})", f"give {low} at most {high}")


def _tables(kind: type[msgspec.Struct], path: str = "") -> dict[str, type[msgspec.Struct]]:
    found = {path: kind}
    for field in msgspec.structs.fields(kind):
        if _is_table(field.type):
            found |= _tables(field.type, f"{path}.{field.name}".lstrip("."))
    return found


def _nearest(kind: type[msgspec.Struct], key: str) -> str:
    known = kind.__struct_fields__
    tables = {} if issubclass(kind, AdapterSettings) else _tables(Settings)
    elsewhere = {
        name: table for table, other in tables.items() if other is not kind for name in other.__struct_fields__
    }
    if key in elsewhere:
        table = elsewhere[key]
        return f"Move {key} to [{table}]." if table else f"Move {key} before the first [table]."
    for names in (known, elsewhere):
        near = difflib.get_close_matches(key, [name for name in names if name not in SWITCHES_THAT_WRITE], 1)
        if near:
            table = "" if names is known else elsewhere[near[0]]
            return f"Did you mean {near[0]!r}{f' in [{table}]' if table else ''}?"
    return f"Use one of: {', '.join(known)}"


def _default_hint(path: str) -> str:
    default: Any = Settings()
    for key in path.strip(".").split("."):
        default = getattr(default, key, None)
    if not isinstance(default, int | float):
        return ""
    return f"The default is {str(default).lower() if isinstance(default, bool) else default}"
