"""Recursive descent over the tokens of a filter: brackets, then `-`, then "and", then `or`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._filter.errors import wrong
from qdeck._filter.lexer import Lexer, Token, TokenKind
from qdeck._filter.nodes import Everything, Node, Term, Words, all_of, any_of, negated
from qdeck._filter.values import value_of

if TYPE_CHECKING:
    from qdeck._errors import InvalidFilter

MAX_LENGTH: Final = 100_000
MAX_DEPTH: Final = 50


def parse_node(text: str) -> Node:
    """Return the tree of a filter; a blank one is Everything, and nothing else is."""
    if len(text) > MAX_LENGTH:
        raise wrong(
            f"a filter of {len(text)} characters is too long",
            text,
            MAX_LENGTH,
            f"At most {MAX_LENGTH} characters: match many ids by what they have in common.",
        )
    if not text.strip():
        return Everything()
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lexer = Lexer(text)
        self._token = self._lexer.next()
        self._depth = 0

    def whole(self) -> Node:
        node = self._any()
        if self._token.mark is not TokenKind.END:
            # `_any` stops at the end and at a closing bracket only.
            raise self._wrong("a closing bracket without an opening one", self._token, 'Remove it, or quote it: ")".')
        return node

    def _wrong(self, message: str, token: Token, hint: str) -> InvalidFilter:
        return wrong(message, self._text, token.position, hint)

    def _take(self) -> Token:
        token, self._token = self._token, self._lexer.next()
        return token

    def _any(self) -> Node:
        nodes = [self._all()]
        while self._token.mark is TokenKind.OR:
            self._take()
            nodes.append(self._all())
        return any_of(nodes)

    def _all(self) -> Node:
        nodes = [self._not()]
        while self._token.mark not in (TokenKind.OR, TokenKind.CLOSE, TokenKind.END):
            if self._token.mark is TokenKind.AND:
                self._take()
            nodes.append(self._not())
        return all_of(nodes)

    def _not(self) -> Node:
        if self._token.mark is TokenKind.MINUS:
            self._take()
            return negated(self._one())
        return self._one()

    def _one(self) -> Node:
        token = self._token
        match token.mark:
            case TokenKind.OPEN:
                return self._bracket()
            case TokenKind.WORDS:
                # Here and below: read before the next token is taken, so that the first of two mistakes is reported.
                node = self._words(token)
                self._take()
                return node
            case TokenKind.TERM:
                node = self._term(token)
                self._take()
                return node
            case TokenKind.OR | TokenKind.AND:
                raise self._wrong(
                    f"nothing before {token.mark.value!r}",
                    token,
                    f'{token.mark.value!r} stands between two conditions; the word itself is "{token.mark.value}".',
                )
            case _:
                raise self._wrong(
                    "a condition is missing",
                    token,
                    'Write one, such as state:dead; the words "or" and "and" themselves need quotes.',
                )

    def _bracket(self) -> Node:
        opening = self._take()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._wrong(
                "brackets nested too deeply",
                opening,
                f"At most {MAX_DEPTH} brackets may be open; remove those that change nothing.",
            )
        node = self._any()
        if self._token.mark is not TokenKind.CLOSE:
            raise self._wrong("a bracket that is not closed", opening, 'Add ")", or quote the bracket: "(".')
        self._take()
        self._depth -= 1
        return node

    def _words(self, token: Token) -> Node:
        (raw,) = token.values
        if raw.pattern.is_any or not raw.text:
            raise self._wrong(
                "nothing to search for" if not raw.text else "'*' alone matches everything",
                token,
                'Write a word; a star itself is "\\*", and an empty filter matches everything.',
            )
        return Words(raw.pattern)

    def _term(self, token: Token) -> Node:
        head = token.head
        if head is None:
            raise AssertionError("a term without a head")
        if head.op.is_ordering and len(token.values) > 1:
            raise wrong(
                f"several values after {head.text!r}",
                self._text,
                token.values[1].position,
                f"This operator takes one value; write alternatives as {head.field.name}:one,other.",
            )
        values = [value_of(self._text, head, raw) for raw in token.values]
        return Term(head.field.name, head.op, tuple(dict.fromkeys(values)), head.path)
