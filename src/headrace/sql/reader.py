"""A cursor over one statement's tokens, for the clauses that are Headrace's own.

Owns the small grammar of names, option lists, durations and types; the SELECT part is sqlglot's (``grammar.py``).
Every ``expect`` either moves on or raises an error at the token it met, saying what was wanted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from sqlglot.tokens import TokenType

from headrace.config import DURATION_UNITS_US, unit_us
from headrace.errors import PlanError, SettingError
from headrace.model import DataType
from headrace.sql.lexer import Token, is_quoted, is_word, span_of
from headrace.sql.literals import checked_duration_us, read_type
from headrace.sql.text import Span, SqlText, nearest

_NAME = re.compile(r"[^\W\d_]\w*")
LONGEST_NAME = 200
"""Bytes of a name that becomes a directory's; a file system takes 255, and more is written beside it."""
RESERVED = frozenset((
    "AND", "AS", "BETWEEN", "BY", "CASE", "CREATE", "DROP", "ELSE", "END", "FALSE", "FROM", "IN", "INTO", "IS",
    "JOIN", "LIKE", "NOT", "NULL", "ON", "OR", "SELECT", "SET", "THEN", "TRUE", "WHEN", "WHERE", "WINDOW", "WITH",
    "DISTINCT", "HAVING", "ILIKE", "ISNULL", "NOTNULL", "UNION", "USING",
))  # fmt: skip
"""Words that are names only in quotes."""


@dataclass(frozen=True, slots=True)
class Word:
    """A name or a value as written, and where."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class OptionPair:
    """``name = value`` inside WITH or INTO."""

    name: Word
    value: Word


class TokenReader:
    """Reads one statement from its first token to its last."""

    def __init__(self, source: SqlText, tokens: list[Token]) -> None:
        self.source = source
        self.tokens = tokens
        self.at = 0

    @property
    def done(self) -> bool:
        return self.at >= len(self.tokens)

    @property
    def span(self) -> Span:
        """The token to be read next, or the last one at the end."""
        return span_of(self.tokens[min(self.at, len(self.tokens) - 1)])

    def peek(self, ahead: int = 0) -> str:
        """The coming token's text in upper case; empty at the end and for quoted text."""
        index = self.at + ahead
        if index >= len(self.tokens) or is_quoted(self.tokens[index]):
            return ""
        return str(self.tokens[index].text).upper()

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, *words: str) -> bool:
        """Move past these words if they come next."""
        if all(self.peek(i) == word for i, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def expect(self, word: str, hint: str = "") -> Span:
        span = self.span
        if not self.accept(word):
            raise self.unexpected(word, hint)
        return span

    def unexpected(self, wanted: str, hint: str = "") -> Exception:
        """The error for a token that is not what was wanted."""
        if self.done:
            return self.source.error(f"the statement ends where {wanted} is expected", self.span, hint)
        return self.source.error(f"{self.source.shown(self.span)} stands where {wanted} is expected", self.span, hint)

    def expect_end(self, hint: str = "") -> None:
        if not self.done:
            raise self.unexpected("the end of the statement", hint or "put a semicolon between statements")

    def name(self, what: str, hint: str = "") -> Word:
        """A name, bare or quoted, of anything."""
        if not self.done:
            token, span = self.tokens[self.at], self.span
            if self.peek() in RESERVED:
                raise self.source.error(
                    f"{token.text} stands where {what} is expected", span, hint or _quoting(token.text)
                )
            if token.token_type == TokenType.IDENTIFIER or is_word(token):
                self.at += 1
                if not token.text.strip():
                    raise self.source.error(f"{what} cannot be empty", span, hint)
                return Word(token.text, span)
        raise self.unexpected(what, hint)

    def plain_name(self, what: str, hint: str = "") -> Word:
        """A name of a stream or query: it may become the name of a directory."""
        word = self.name(what, hint)
        if not _NAME.fullmatch(word.text):
            raise self.source.error(
                f"{word.text!r} cannot be {what}", word.span, "begin with a letter and use letters, digits and _ only"
            )
        if len(word.text.encode()) > LONGEST_NAME:
            raise self.source.error(
                f"{word.text[:20]}... is too long to be {what}", word.span, f"use at most {LONGEST_NAME} bytes"
            )
        return word

    def options(self, clause: str) -> tuple[OptionPair, ...]:
        """``(name = value, ...)``."""
        example = f"{clause} (name = 'value', ...)"
        self.expect("(", f"write {example}")
        pairs: list[OptionPair] = []
        while not self.accept(")"):
            if pairs:
                self.expect(",", f"separate the options of {clause} with commas and close them with )")
            name = self._option_name(example)
            self.expect("=", f"write {name.text} = 'value'")
            pairs.append(OptionPair(name, self.value((",", ")"), name.text)))
        return tuple(pairs)

    def _option_name(self, example: str) -> Word:
        if not self.done and self.tokens[self.at].token_type == TokenType.STRING:
            span = self.span
            return Word(_option(self.take().text), span)
        word = self.name("the name of an option", f"write {example}")
        while self.accept("."):  # option.rowsPerSecond
            rest = self.name("the rest of the option's name", f"write {word.text}.name = 'value', or quote the name")
            word = Word(f"{word.text}.{rest.text}", word.span.to(rest.span))
        return Word(_option(word.text), word.span)

    def value(self, stops: tuple[str, ...], name: str) -> Word:
        """A quoted text, or all tokens up to a stop as they are written."""
        first = self.at
        while not self.done and self.peek() not in stops:
            self.at += 1
        if self.at == first:
            raise self.unexpected(f"the value of {name}", f"write {name} = 'value'")
        tokens = self.tokens[first : self.at]
        span = Span(tokens[0].start, tokens[-1].end + 1)
        quoted = len(tokens) == 1 and is_quoted(tokens[0])
        return Word(tokens[0].text if quoted else self.source.slice(span), span)

    def duration_us(self, clause: str, *others: str) -> int:
        """A number and a unit, in microseconds: ``1 min``, ``.5 s``, ``'90 seconds'``. ``others`` are what could have
        been meant instead of a unit."""
        example = f"write {clause} 1 MINUTE"
        start = self.span
        if not self.done and self.tokens[self.at].token_type == TokenType.STRING:
            return self._checked(str(self.take().text), start, example)
        sign = "-" if self.accept("-") else ""
        point = "." if self.accept(".") else ""
        if self.done or self.tokens[self.at].token_type != TokenType.NUMBER:
            raise self.unexpected("a number", example)
        number = sign + point + str(self.take().text)
        number_span = Span(start.start, self.tokens[self.at - 1].end + 1)
        if self.done or not is_word(self.tokens[self.at]):
            raise self.source.error(f"{number} has no unit of time", number_span, f"write {clause} {number} SECONDS")
        unit_span, unit = self.span, str(self.take().text)
        if unit_us(unit) is None:
            raise self.source.error(f"{unit} is not a unit of time", unit_span, _unit_hint(unit, others))
        if sign and Decimal(number) != 0:
            raise self.source.error(f"{clause} cannot be negative", number_span, example)
        return self._checked(f"{number.removeprefix('-')} {unit}", number_span.to(unit_span), example)

    def _checked(self, text: str, span: Span, hint: str) -> int:
        try:
            return checked_duration_us(text)
        except SettingError as error:
            message, _, instead = str(error).partition(": ")
            raise self.source.error(message, span, instead or hint) from error

    def type(self) -> DataType:
        """A column's type: ``BIGINT``, ``DECIMAL(10, 2)``."""
        span = self.span
        word = self.name("a type", "write a type such as BIGINT or DECIMAL(10, 2)")
        numbers: list[int] = []
        if self.accept("("):
            numbers.append(self._digits())
            while self.accept(","):
                numbers.append(self._digits())
            self.expect(")", "close the bracket with )")
        whole = Span(span.start, self.tokens[self.at - 1].end + 1)
        try:
            return read_type(word.text, tuple(numbers))
        except PlanError as error:
            message, _, hint = str(error).partition("; ")
            raise self.source.error(message, whole, hint) from error

    def _digits(self) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", self.peek()):
            raise self.unexpected("a whole number", "write DECIMAL(10, 2), say")
        return int(self.take().text)


def _option(name: str) -> str:
    """An option's name in small letters; one of Spark's as it is written.

    >>> _option("Path"), _option("Option.rowsPerSecond")
    ('path', 'option.rowsPerSecond')
    """
    head, dot, rest = name.partition(".")
    return f"{head.lower()}{dot}{rest}"


def _quoting(word: str) -> str:
    return f"{word.upper()} is a keyword: write `{word}` to use it as a name"


def _unit_hint(word: str, others: tuple[str, ...]) -> str:
    near = nearest(word, [*others, *DURATION_UNITS_US, *(f"{unit}s" for unit in DURATION_UNITS_US if len(unit) > 1)])
    units = "MICROSECONDS, MILLISECONDS, SECONDS, MINUTES, HOURS or DAYS"
    return f"did you mean {near}?" if near is not None else f"write {units}"
