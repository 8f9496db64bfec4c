"""Statements as written: which kinds there are, and what each is made of.

Owns everything outside the SELECT part: heads, column lists, WITH, INTO, SET, EXPLAIN, DROP, and where WINDOW stands
(``windows.py`` reads it). Nothing is looked up here; names and options keep their places so that the next step can
point at them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sqlglot.tokens import TokenType

from headrace.model import DataType
from headrace.sql.lexer import Token, span_of, span_of_all
from headrace.sql.overload import WrittenOverload, cut_freshness, opens_overload, read_overload
from headrace.sql.reader import OptionPair, TokenReader, Word
from headrace.sql.refusals import refuse_clauses
from headrace.sql.slips import check_slips
from headrace.sql.text import Span, SqlText, nearest
from headrace.sql.windows import WrittenWindow, cut_windows, read_window


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    name: Word
    type: DataType


@dataclass(frozen=True, slots=True)
class CreateStream:
    name: Word
    columns: tuple[ColumnDefinition, ...]
    options: tuple[OptionPair, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class SelectText:
    """SELECT ... up to WINDOW, for sqlglot; then what Headrace adds. ``stream_windows`` stood in brackets in FROM."""

    tokens: list[Token]
    stream_windows: tuple[WrittenWindow, ...]
    window: WrittenWindow | None
    into: tuple[OptionPair, ...] | None
    into_span: Span
    span: Span
    early_span: Span | None = None
    """Where EMIT EARLY stands, if it does."""
    overload: WrittenOverload | None = None
    freshness: tuple[WrittenWindow, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """``name`` is None for a bare SELECT."""

    name: Word | None
    select: SelectText


@dataclass(frozen=True, slots=True)
class DropQuery:
    name: Word


@dataclass(frozen=True, slots=True)
class SetSetting:
    name: Word
    value: Word


@dataclass(frozen=True, slots=True)
class Explain:
    """All queries, the named one, or one written out."""

    name: Word | None
    select: SelectText | None


Statement: TypeAlias = CreateStream | CreateQuery | DropQuery | SetSetting | Explain

_HEADS = ("CREATE STREAM", "CREATE QUERY", "SELECT", "SET", "EXPLAIN", "DROP QUERY")


def read_statement(source: SqlText, tokens: list[Token]) -> Statement:
    """One statement from its tokens."""
    reader = TokenReader(source, tokens)
    if reader.accept("CREATE"):
        return _create(reader)
    if reader.peek() == "SELECT":
        return CreateQuery(None, _select(reader))
    if reader.accept("SET"):
        return _set(reader)
    if reader.accept("EXPLAIN"):
        return _explain(reader)
    if reader.accept("DROP"):
        return _drop(reader)
    if reader.peek() == "WITH":
        raise source.unsupported(
            "WITH before SELECT is not supported", reader.span, "write the inner query's conditions in this one"
        )
    word = source.shown(reader.span)
    near = nearest(word, [head.partition(" ")[0] for head in _HEADS], likeness=0.75)
    hint = f"did you mean {near}?" if near is not None else f"a statement begins with {', '.join(_HEADS)}"
    raise source.error(f"{word} does not begin a statement", reader.span, hint)


def _create(reader: TokenReader) -> Statement:
    if reader.accept("STREAM"):
        return _create_stream(reader)
    if reader.accept("QUERY"):
        name = reader.plain_name("the name of a query", "write CREATE QUERY name AS SELECT ...")
        reader.expect("AS", f"write CREATE QUERY {name.text} AS SELECT ...")
        if reader.peek() != "SELECT":
            raise reader.unexpected("SELECT", f"write CREATE QUERY {name.text} AS SELECT ...")
        return CreateQuery(name, _select(reader))
    if reader.peek() == "OR":
        raise reader.source.unsupported(
            "CREATE OR REPLACE is not supported", reader.span, "write DROP QUERY name; before CREATE QUERY name"
        )
    raise reader.unexpected("STREAM or QUERY", "write CREATE STREAM name (...) or CREATE QUERY name AS SELECT ...")


def _create_stream(reader: TokenReader) -> CreateStream:
    shape = "write CREATE STREAM name (column TYPE, ...) WITH (connector = 'files', ...)"
    name = reader.plain_name("the name of a stream", shape)
    reader.expect("(", shape)
    columns: list[ColumnDefinition] = []
    while not reader.accept(")"):
        if columns:
            reader.expect(",", "separate columns with commas and close their list with )")
        column = reader.name("the name of a column", shape)
        columns.append(ColumnDefinition(column, reader.type()))
    if not columns:
        raise reader.source.error(f"stream {name.text} has no columns", name.span, shape)
    reader.expect("WITH", "after the columns write WITH (connector = 'files', path = '...')")
    options = reader.options("WITH")
    reader.expect_end()
    return CreateStream(name, tuple(columns), options, span_of_all(reader.tokens))


def _set(reader: TokenReader) -> SetSetting:
    name = reader.name("the name of a setting", "write SET name = value")
    reader.expect("=", f"write SET {name.text} = value")
    return SetSetting(Word(name.text.lower(), name.span), reader.value((), name.text))


def _explain(reader: TokenReader) -> Explain:
    if reader.done:
        return Explain(None, None)
    if reader.peek() == "SELECT":
        return Explain(None, _select(reader))
    hint = "write EXPLAIN;, EXPLAIN name; or EXPLAIN SELECT ..."
    if reader.peek() == "QUERY" and len(reader.tokens) > reader.at + 1:
        reader.take()
    name = reader.plain_name("the name of a query", hint)
    reader.expect_end(hint)
    return Explain(name, None)


def _drop(reader: TokenReader) -> DropQuery:
    if reader.peek() == "STREAM":
        raise reader.source.unsupported(
            "DROP STREAM is not supported", reader.span, "leave its CREATE STREAM out, and start a new checkpoint"
        )
    reader.expect("QUERY", "write DROP QUERY name")
    name = reader.plain_name("the name of a query", "write DROP QUERY name")
    reader.expect_end()
    return DropQuery(name)


def _select(reader: TokenReader) -> SelectText:
    written = reader.tokens[reader.at :]
    tokens, stream_windows = cut_windows(reader.source, written)
    tokens, freshness = cut_freshness(reader.source, tokens)
    if freshness:  # a window may stand behind one: of which stream it is shows without it
        stream_windows = cut_windows(reader.source, cut_freshness(reader.source, written)[0])[1]
    refuse_clauses(reader.source, tokens)
    check_slips(reader.source, tokens)
    cut = _tail_start(tokens)
    tail = TokenReader(reader.source, tokens)
    tail.at = cut
    window: WrittenWindow | None = None
    into: tuple[OptionPair, ...] | None = None
    overload: WrittenOverload | None = None
    into_span = span_of(tokens[0])
    early_span: Span | None = None
    while not tail.done:
        span = tail.span
        if window is None and into is None and tail.peek() == "WINDOW":
            window = read_window(tail)
        elif early_span is None and into is None and tail.accept("EMIT"):
            tail.expect("EARLY", "write EMIT EARLY; without it rows come in order")
            early_span = span_of_all(tokens[tail.at - 2 : tail.at])
        elif overload is None and into is None and opens_overload(tokens, tail.at):
            overload = read_overload(tail)
        elif into is None and tail.accept("INTO"):
            into, into_span = tail.options("INTO"), span
        else:
            raise tail.unexpected(
                "the end of the statement",
                "a query ends with WHERE ..., GROUP BY ..., HAVING ..., WINDOW ..., ON OVERLOAD ..., EMIT EARLY, "
                "INTO (...)",
            )
    whole = span_of_all(tokens)
    return SelectText(tokens[:cut], stream_windows, window, into, into_span, whole, early_span, overload, freshness)


_BEFORE_OPERAND = frozenset(
    {
        TokenType.DOT, TokenType.ALIAS, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.WHERE, TokenType.ON,
        TokenType.COMMA, TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE,
        TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.DPIPE,
        TokenType.BETWEEN, TokenType.LIKE, TokenType.SELECT, TokenType.CASE, TokenType.WHEN, TokenType.THEN,
        TokenType.GROUP_BY, TokenType.HAVING,
    }
)  # fmt: skip
"""After one of these a value follows, so WINDOW is a column there."""


def _tail_start(tokens: list[Token]) -> int:
    """Where WINDOW, ON OVERLOAD, EMIT or INTO begins: outside brackets, after FROM, and not in the place of a value."""
    depth = 0
    reads = False
    for index, token in enumerate(tokens):
        kind = token.token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        reads = reads or kind == TokenType.FROM
        if depth <= 0 and reads and (_is_emit(tokens, index) or opens_overload(tokens, index)):
            return index
        if depth <= 0 and reads and kind in (TokenType.WINDOW, TokenType.INTO):
            before = tokens[index - 1].token_type
            if before not in _BEFORE_OPERAND or _opens_clause(tokens, index):
                return index
    return len(tokens)


def _is_emit(tokens: list[Token], index: int) -> bool:
    """Whether EMIT EARLY stands there: two words in a row are nothing else, after FROM."""
    words = [str(token.text).upper() for token in tokens[index : index + 2]]
    return words == ["EMIT", "EARLY"] and tokens[index - 1].token_type not in _BEFORE_OPERAND


def _opens_clause(tokens: list[Token], index: int) -> bool:
    """Whether what follows can only be a window's length or a list of options."""
    if index + 1 >= len(tokens):
        return False
    following = tokens[index + 1].token_type
    return bool(following == (TokenType.NUMBER if tokens[index].token_type == TokenType.WINDOW else TokenType.L_PAREN))
