"""Tokens: the text cut into words, once, with the place of each.

Owns what a string, a quoted name and a comment look like: ``'text'`` with ``''`` for a quote, names in backticks or
double quotes, ``-- to the end of the line`` and ``/* ... */``, not nested. Costs one pass of sqlglot's tokenizer.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from sqlglot import tokens as glot_tokens
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from headrace.sql.text import Span, SqlText

Token: TypeAlias = Any
"""A sqlglot token: ``token_type``, ``text``, and ``start`` and ``end`` (inclusive) as offsets."""


class HeadraceTokenizer(glot_tokens.Tokenizer):  # type: ignore[misc]
    """sqlglot's tokenizer without commands, hints and templates."""

    IDENTIFIERS = ['"', "`"]  # noqa: RUF012
    NESTED_COMMENTS = False
    SINGLE_TOKENS = {**glot_tokens.Tokenizer.SINGLE_TOKENS, "!": TokenType.UNKNOWN}  # noqa: RUF012
    COMMANDS: set[TokenType] = set()  # noqa: RUF012
    KEYWORDS = {  # noqa: RUF012
        word: kind
        for word, kind in glot_tokens.Tokenizer.KEYWORDS.items()
        if kind not in (TokenType.HINT, TokenType.BLOCK_START, TokenType.BLOCK_END)
    }


WORD = re.compile(r"[^\W\d]\w*")
_QUOTED = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | --[^\r\n]* | /\*.*?\*/ | (?P<open>['"`]|/\*|\{\#)""",
    re.VERBOSE | re.DOTALL,
)
_OPENED = {
    "'": ("this text has no closing quote", "end it with ' and write '' for a quote inside it"),
    '"': ("this name has no closing quote", 'end it with "'),
    "`": ("this name has no closing quote", "end it with `"),
    "{#": ("{# does not open a comment", "write /* ... */"),
    "/*": ("this comment is never closed", "end it with */"),
}


def tokenize(source: SqlText) -> list[Token]:
    """All tokens of the text; comments are gone."""
    for match in _QUOTED.finditer(source.text):
        if match.group("open"):
            message, hint = _OPENED[match.group("open")]
            raise source.error(message, Span(match.start("open"), match.end("open")), hint)
    try:
        return list(HeadraceTokenizer().tokenize(source.text))
    except SqlglotError as error:
        raise source.error(
            f"this text cannot be read: {error}", source.end_span(), "check what stands before it"
        ) from error


def split_statements(tokens: list[Token]) -> list[list[Token]]:
    """The tokens of each statement, without the semicolons; empty statements are left out."""
    statements: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    return [statement for statement in statements if statement]


def is_quoted(token: Token) -> bool:
    """Whether a token is a text or a quoted name."""
    return token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)


def is_word(token: Token) -> bool:
    """Whether a token is a bare word, keyword or not."""
    return not is_quoted(token) and WORD.fullmatch(token.text) is not None


def span_of(token: Token) -> Span:
    return Span(token.start, token.end + 1)


def span_of_all(tokens: list[Token]) -> Span:
    return Span(tokens[0].start, tokens[-1].end + 1)
