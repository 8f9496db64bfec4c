"""The SELECT part, parsed by sqlglot, with every node's place in the text.

Owns the dialect given to sqlglot: functions stay plain names (so that ``calls.py`` alone says which exist), and
each operand remembers which tokens it came from. What is Headrace's own (windows, INTO) is cut out before.
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parser import Parser
from sqlglot.tokens import TokenType

from headrace.sql.lexer import HeadraceTokenizer, Token, span_of, span_of_all
from headrace.sql.literals import type_hint
from headrace.sql.text import Span, SqlText

Node: TypeAlias = Any
"""A node of sqlglot's tree."""

SHAPE = "a query reads SELECT columns FROM stream a, stream b WHERE conditions WINDOW 1 MINUTE"
_SPAN = "headrace_span"
_PLAIN_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "SUBSTRING")


class _RefusedError(ParseError):  # type: ignore[misc]
    """sqlglot's complaint, with the token it is about."""

    def __init__(self, message: str, span: Span | None) -> None:
        super().__init__(message, errors=[{"description": message}])
        self.complaint = message
        self.span = span


class HeadraceParser(Parser):  # type: ignore[misc]
    """sqlglot's parser; see the module's text for what differs."""

    FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012
    FUNCTION_PARSERS = {name: Parser.FUNCTION_PARSERS[name] for name in _PLAIN_SYNTAX}  # noqa: RUF012
    NO_PAREN_FUNCTION_PARSERS = {"CASE": Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}  # noqa: RUF012
    FUNC_TOKENS = Parser.FUNC_TOKENS | {TokenType.ISNULL}

    def raise_error(self, message: str, token: Token = None) -> None:
        culprit = token or self._curr or self._prev
        raise _RefusedError(message, span_of(culprit) if culprit and culprit.text else None)

    def _parse_unary(self) -> Node:
        """Every operand passes here: note its tokens."""
        first = self._curr
        node = super()._parse_unary()
        if node is not None and first and self._prev and self._prev.end >= first.start:
            node.meta.setdefault(_SPAN, Span(first.start, self._prev.end + 1))
        return node


class HeadraceDialect(Dialect):  # type: ignore[misc]
    """What sqlglot is told about Headrace's SQL."""

    SUPPORTS_USER_DEFINED_TYPES = False
    Tokenizer = HeadraceTokenizer
    Parser = HeadraceParser


@functools.cache
def _dialect() -> Node:
    return HeadraceDialect()


def parse_select(source: SqlText, tokens: list[Token]) -> Node:
    """The tree of one SELECT (or whatever sqlglot makes of these tokens)."""
    whole = span_of_all(tokens)
    try:
        trees = _dialect().parser().parse(tokens, source.text)
    except _RefusedError as error:
        span = error.span or span_of(tokens[-1])
        message, hint = _explained(error.complaint, source.shown(span))
        if span == span_of(tokens[-1]) and source.slice(span).upper() in _OPENING:
            message, hint = f"nothing follows {source.slice(span)}", SHAPE
        raise source.error(message, span, hint) from error
    except RecursionError as error:
        raise source.error("this query is nested too deeply", whole, "write it with fewer brackets") from error
    except (SqlglotError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        raise source.error("this query cannot be read", whole, "check it against docs/sql.md") from error
    if len(trees) != 1 or trees[0] is None:
        raise source.error("this query cannot be read", whole, "check it against docs/sql.md")
    return trees[0]


_OPENING = ("FROM", "WHERE", "ON", "JOIN", "AND", "OR", "NOT", "SELECT", ",", "(", "=", "<", ">", "+", "-", "*", "/")
_COMPLAINTS = (
    ("Required argument", "something is missing near {}", "an operator stands between two values"),
    ("Expecting )", "a closing bracket is missing near {}", "close the bracket with )"),
    ("Expected END", "a CASE is not finished near {}", "write CASE WHEN condition THEN value ELSE value END"),
    ("Expected AS after CAST", "a CAST has no AS near {}", "write CAST(x AS DOUBLE)"),
    ("Expected table name", "a stream's name is missing near {}", "write FROM and a stream"),
    ("", "{} is not expected here", SHAPE),
)
"""How sqlglot's complaints begin, and what is said instead."""


def _explained(complaint: str, culprit: str) -> tuple[str, str]:
    """Message and hint for a complaint about that text."""
    if complaint.lower().startswith("expected type"):
        return f"there is no type {culprit}", type_hint(culprit)
    return next((message.format(culprit), hint) for begin, message, hint in _COMPLAINTS if complaint.startswith(begin))


def span_of_node(node: Node) -> Span | None:
    """The text a node came from: its own tokens, or all of those below it."""
    found: Span | None = None
    waiting = [node]
    while waiting:
        one = waiting.pop()
        span = one.meta.get(_SPAN)
        if span is None:
            waiting.extend(one.iter_expressions())
            if "start" in one.meta:
                span = Span(one.meta["start"], one.meta["end"] + 1)
        if span is not None:
            found = span if found is None else found.to(span)
    return found


def unwrap(node: Node) -> Node:
    """The node inside any brackets."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node
