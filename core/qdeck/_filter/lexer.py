"""Splits the text of a filter into tokens, each with its place; errors are reported with theirs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from qdeck._filter.errors import show, wrong
from qdeck._filter.fields import FIELDS, PAYLOAD_FIELDS, SYNONYMS, TAG_FIELDS, Field, FieldKind, meant
from qdeck._filter.nodes import CONJUNCTIONS, Comparison, WildcardPattern

if TYPE_CHECKING:
    from qdeck._errors import InvalidFilter

_OPERATORS: Final = ("!=", ">=", "<=", ":", ">", "<", "=")  # the longer ones first
_TYPOGRAPHIC: Final = "“”„«»"
_QUOTE_IT: Final = "To search for the text, quote it"


class TokenKind(StrEnum):
    """The kind of a token."""

    WORDS = "words"
    TERM = "term"
    OPEN = "("
    CLOSE = ")"
    MINUS = "-"
    OR = "or"
    AND = "and"
    END = "the end"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawValue:
    """A value as written: its text without quotes and escapes, the pattern it makes, and its place."""

    text: str
    pattern: WildcardPattern
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TermPrefix:
    """The part of a comparison before its values."""

    field: Field
    path: tuple[str, ...]
    op: Comparison
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token; words have one value, a term has a head and its values."""

    mark: TokenKind
    position: int
    head: TermPrefix | None = None
    values: tuple[RawValue, ...] = ()


class Lexer:
    """Yields the tokens of a text one by one, so that the first of two errors is reported."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def next(self) -> Token:
        """Return the next token; at the end of the text, always END."""
        while self._here().isspace():
            self.position += 1
        start, here = self.position, self._here()
        match here:
            case "":
                return Token(mark=TokenKind.END, position=start)
            case "(":
                self.position += 1
                return Token(mark=TokenKind.OPEN, position=start)
            case ")":
                self.position += 1
                self._need_boundary("a bracket", ")")
                return Token(mark=TokenKind.CLOSE, position=start)
            case "-":
                return self._minus()
            case '"':
                value = self._quoted()
                self._need_boundary("a phrase", ")")
                return Token(mark=TokenKind.WORDS, position=start, values=(value,))
            case _:
                return self._atom()

    def _wrong(self, message: str, position: int, hint: str) -> InvalidFilter:
        return wrong(message, self.text, position, hint)

    def _here(self) -> str:
        return self.text[self.position : self.position + 1]

    def _ends(self, also: str = "") -> bool:
        here = self._here()
        return not here or here.isspace() or here in also

    def _need_boundary(self, what: str, also: str) -> None:
        if not self._ends(also):
            raise self._wrong(
                f"{show(self._here())} right after {what}",
                self.position,
                'Put a space between the two, or, for a quote inside quotes, write \\".',
            )

    def _skip_brackets(self, start: int, head: str = "") -> None:
        """Read past the brackets of a word, such as CloneUrl(42); they may not have spaces."""
        depth, is_word = 0, self.text[start : self.position].lower() not in (*CONJUNCTIONS, "not")
        for at in range(self.position, len(self.text)):
            here = self.text[at]
            depth += (here == "(") - (here == ")")
            if depth and here != '"':
                is_word = is_word and not here.isspace()
                continue
            if depth or not is_word:
                break
            self.position = at + 1
            return
        text = self.text[start : at + 1]
        quoted = 'name:"f(42, 1)"' if depth or '"' in text else f'{head}"{text}"'
        raise self._wrong(
            "an opening bracket inside a word",
            self.position,
            f"Put a space before it, or quotes around text with brackets: {quoted}",
        )

    def _minus(self) -> Token:
        start = self.position
        self.position += 1
        if self._here() == "-":
            raise self._wrong("two '-' in a row", start, f'One hyphen negates. {_QUOTE_IT}: "--all".')
        if self._ends(")"):
            raise self._wrong("nothing right after '-'", start, 'Write -tag:test, -word, -"a phrase" or -(a or b).')
        return Token(mark=TokenKind.MINUS, position=start)

    def _atom(self) -> Token:
        start = self.position
        self._refuse_typographic()
        segments: list[tuple[str, int]] = []
        segment_at = start
        while not self._ends(")"):
            if self._here() == "(":
                self._skip_brackets(start)
                continue
            operator = self._operator()
            if operator:
                segments.append((self.text[segment_at : self.position], segment_at))
                return self._term(start, segments, operator)
            if self._here() == "." and self._in_path(start):
                segments.append((self.text[segment_at : self.position], segment_at))
                segment_at = self.position + 1
            if self._here() == '"':
                if not segments or segment_at != self.position:
                    raise self._quote_inside()
                segments.append((self._quoted().text, -1))
                segment_at = self.position
                operator = self._operator()
                if operator:
                    return self._term(start, segments, operator)
                if self._here() != ".":
                    raise self._wrong(
                        f"no comparison after {show(self.text[start : self.position])}",
                        self.position,
                        'Write payload."a key":value, with : > >= < <= or !=.',
                    )
                segment_at = self.position + 1
            self.position += 1
        text = self.text[start : self.position]
        if text.lower() in CONJUNCTIONS:
            return Token(mark=TokenKind(text.lower()), position=start)
        return Token(mark=TokenKind.WORDS, position=start, values=(self._raw(start, text),))

    def _in_path(self, start: int) -> bool:
        return self.text.startswith(f"{FieldKind.PAYLOAD}.", start)

    def _operator(self) -> str:
        return next((op for op in _OPERATORS if self.text.startswith(op, self.position)), "")

    def _refuse_typographic(self) -> None:
        if self._here() in _TYPOGRAPHIC:
            raise self._wrong(
                f"{show(self._here())} is not a quote here", self.position, 'Use the plain quote: "connection reset".'
            )

    def _quote_inside(self) -> InvalidFilter:
        return self._wrong(
            "a quote inside a word", self.position, 'Put the quotes around the whole text; a quote in it is \\".'
        )

    def _term(self, start: int, segments: list[tuple[str, int]], operator: str) -> Token:
        field = self._field(start, segments[0][0], operator)
        path: tuple[str, ...] = ()
        if field.kind is FieldKind.PAYLOAD:
            is_named = segments[0][0] in PAYLOAD_FIELDS
            path = self._path(start, segments if is_named else segments[1:])
        self.position += len(operator)
        head = TermPrefix(
            field=field,
            path=path,
            op=Comparison.IS if operator == "=" else Comparison(operator),
            text=self.text[start : self.position],
        )
        values = self._values(head)
        if segments[0][0] in TAG_FIELDS:
            values = tuple(_tagged(segments[0][0], value) for value in values)
        return Token(mark=TokenKind.TERM, position=start, head=head, values=values)

    def _field(self, start: int, name: str, operator: str) -> Field:
        known_as = "payload" if name in PAYLOAD_FIELDS else "tag" if name in TAG_FIELDS else SYNONYMS.get(name, name)
        field = FIELDS.get(known_as)
        if field is not None:
            return field
        if not name:
            raise self._wrong(
                f"no field before {operator!r}",
                start,
                f"Write field and value without spaces: age>2h, error:Timeout*. {_QUOTE_IT}.",
            )
        guess = meant(name)
        known = f"Did you mean {guess!r}?" if guess else f"The fields are {', '.join(FIELDS)}."
        raise self._wrong(f"unknown field {show(name)}", start, f"{known} {_QUOTE_IT}.")

    def _path(self, start: int, segments: list[tuple[str, int]]) -> tuple[str, ...]:
        if not segments:
            raise self._wrong(
                "'payload' without a path",
                start,
                "Write payload.user.id:42, or payload.0:42 for the first argument; a bare word is searched everywhere.",
            )
        for segment, position in segments:
            if position < 0:
                continue  # quoted: every key is possible, the empty one too
            if not segment:
                raise self._wrong(
                    "an empty part in a path", position, 'Write payload.a.b:value, or payload."".b:value.'
                )
            if "*" in segment or "," in segment:
                raise self._wrong(
                    f"{show(segment)} in a path",
                    position,
                    'A path names one place; quote a key like this: payload."a*".',
                )
        return tuple(segment for segment, _ in segments)

    def _values(self, head: TermPrefix) -> tuple[RawValue, ...]:
        values: list[RawValue] = []
        while True:
            values.append(self._value(head, first=not values))
            if self._here() != ",":
                return tuple(values)
            self.position += 1

    def _value(self, head: TermPrefix, *, first: bool) -> RawValue:
        start = self.position
        if self._here() == '"':
            value = self._quoted()
            self._need_boundary("a quoted value", "),")
            return value
        self._refuse_empty(head, first=first)
        self._refuse_typographic()
        operator = self._operator() or ("!" if self._here() == "!" else "")
        if operator:
            raise self._wrong(
                f"{operator!r} right after {show(head.text) if first else 'a comma'}",
                start,
                f"Write one operator, as in {head.field.name}!=value or age>2h. {_QUOTE_IT}.",
            )
        while not self._ends("),"):
            if self._here() == "(":
                self._skip_brackets(start, head.text)
                continue
            if self._here() == '"':
                raise self._quote_inside()
            self.position += 1
        return self._raw(start, self.text[start : self.position])

    def _refuse_empty(self, head: TermPrefix, *, first: bool) -> None:
        if self._here() == "(":
            raise self._wrong(
                "a bracket in place of a value", self.position, f"Several values take commas: {head.text}one,other."
            )
        if not self._ends("),"):
            return
        if not first or self._here() == ",":
            raise self._wrong(
                "an empty value in a list", self.position, "Take out the comma, or the space after it; quote a comma."
            )
        has_text = head.field.kind in (FieldKind.TEXT, FieldKind.TAGS)
        absent = f', {head.field.name}:"" no value' if has_text else ""
        raise self._wrong(
            f"no value after {show(head.text)}",
            self.position,
            f"Write the value without a space before it; {head.field.name}:* matches any value{absent}.",
        )

    def _raw(self, start: int, text: str) -> RawValue:
        return RawValue(text=text, pattern=_pattern(text.split("*")), position=start)

    def _quoted(self) -> RawValue:
        start = self.position
        parts: list[list[str]] = [[]]
        text: list[str] = []
        self.position += 1
        while (here := self._here()) != '"':
            if not here:
                raise self._wrong(
                    "a quote that is not closed", start, 'Add the closing quote; a quote in a text is \\".'
                )
            after = self.text[self.position + 1 : self.position + 2]
            if here == "\\" and after and after in '"\\*':
                here = after
                self.position += 1
                parts[-1].append(here)
            elif here == "*":
                parts.append([])
            else:
                parts[-1].append(here)
            text.append(here)
            self.position += 1
        self.position += 1
        return RawValue(text="".join(text), pattern=_pattern(["".join(part) for part in parts]), position=start)


def _tagged(name: str, value: RawValue) -> RawValue:
    first, *others = value.pattern.parts
    return replace(value, text=f"{name}:{value.text}", pattern=WildcardPattern((f"{name}:{first}", *others)))


def _pattern(parts: list[str]) -> WildcardPattern:
    """Return the pattern of the pieces; a run of stars is one star."""
    return WildcardPattern(
        (*parts[:1], *(part for part in parts[1:-1] if part), *(parts[-1:] if len(parts) > 1 else ()))
    )
