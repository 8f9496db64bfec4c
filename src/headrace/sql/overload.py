"""Overload as written: ON OVERLOAD at the end of a query, and FRESHNESS behind the streams of FROM.

Owns their small grammar and which stream has which freshness. sqlglot knows neither, so both are cut out of the tokens
before it sees them. A stream may still be called freshness, and a column overload: the words are clauses only where an
amount, or DEFER or ADAPT, can follow.

    FROM temperature a [RANGE 1 MINUTE] FRESHNESS 90 SECONDS, humidity b ... WINDOW 10 SECONDS ON OVERLOAD ADAPT
                                        `-- how long ago its tuples may have arrived
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokens import TokenType

from headrace.plan.queries import Extent, Measure, Overload
from headrace.sql.lexer import Token, is_word, span_of_all
from headrace.sql.reader import TokenReader
from headrace.sql.scope import ScopeEntry
from headrace.sql.text import Span, SqlText
from headrace.sql.windows import ROWS, WrittenWindow, in_from, number_end, row_count

_MODES = {one.name: one for one in Overload}
_EXAMPLE = "write FRESHNESS 90 SECONDS or FRESHNESS 100 ROWS"
_ADAPT = "end the query with ON OVERLOAD ADAPT, or leave FRESHNESS out"


@dataclass(frozen=True, slots=True)
class WrittenOverload:
    """What a query does where the CPU is not enough, and where it says so."""

    mode: Overload
    span: Span


def opens_overload(tokens: list[Token], index: int) -> bool:
    """Whether ON begins ON OVERLOAD: a condition would go on with an operator."""
    if tokens[index].token_type != TokenType.ON or index + 1 >= len(tokens):
        return False
    following = tokens[index + 2] if index + 2 < len(tokens) else None
    return str(tokens[index + 1].text).upper() == "OVERLOAD" and (following is None or _is_value(following))


def _is_value(token: Token) -> bool:
    return is_word(token) and str(token.text).upper() not in ("IS", "IN", "LIKE", "BETWEEN", "NOT", "AND", "OR")


def read_overload(reader: TokenReader) -> WrittenOverload:
    """ON OVERLOAD and what follows it."""
    first = reader.at
    reader.expect("ON")
    reader.expect("OVERLOAD")
    mode = _MODES.get(reader.peek())
    if mode is None:
        raise reader.unexpected("DEFER or ADAPT", "write ON OVERLOAD DEFER or ON OVERLOAD ADAPT")
    reader.take()
    return WrittenOverload(mode, span_of_all(reader.tokens[first : reader.at]))


def cut_freshness(source: SqlText, tokens: list[Token]) -> tuple[list[Token], tuple[WrittenWindow, ...]]:
    """The tokens without FRESHNESS in FROM, and what it said."""
    reader = TokenReader(source, tokens)
    rest: list[Token] = []
    found: list[WrittenWindow] = []
    while not reader.done:
        first = reader.at
        if rest and reader.peek() == "FRESHNESS" and in_from(rest) and _amount_follows(reader):
            reader.take()
            extent = _extent(reader)
            found.append(WrittenWindow(extent, span_of_all(tokens[first : reader.at]), rest[-1].end + 1))
        else:
            rest.append(reader.take())
    return rest, tuple(found)


def _amount_follows(reader: TokenReader) -> bool:
    """Whether the word is a clause, not a name: an amount follows, or nothing that could follow a name."""
    if reader.at + 1 >= len(reader.tokens):
        return False
    following = reader.tokens[reader.at + 1].token_type
    return following in (TokenType.NUMBER, TokenType.STRING, TokenType.DASH, TokenType.DOT)


def _extent(reader: TokenReader) -> Extent:
    if reader.peek(number_end(reader) - reader.at) in ROWS:
        extent = row_count(reader, _EXAMPLE)
        reader.take()
        return extent
    span = reader.span
    size_us = reader.duration_us("FRESHNESS", "rows", "tuples")
    if size_us == 0:
        raise reader.source.error("FRESHNESS cannot be nothing: no tuple is that new", span, _EXAMPLE)
    return Extent(Measure.TIME, size_us)


def bind_overload(
    source: SqlText,
    overload: WrittenOverload | None,
    freshness: Sequence[WrittenWindow],
    windows: Sequence[Extent],
    entries: Sequence[ScopeEntry],
    *,
    is_grouped: bool,
) -> tuple[Overload, tuple[Extent | None, ...]]:
    """What the query does, and by stream how fresh it is to be; nothing where no stream says so. ``is_grouped``: it has
    aggregates, whose values rest on all that is in the windows."""
    mode = Overload.DEFER if overload is None else overload.mode
    if freshness and mode is not Overload.ADAPT:
        raise source.error(
            "FRESHNESS is kept by leaving probes out, and this query leaves none out", freshness[0].span, _ADAPT
        )
    if overload is not None and mode is Overload.ADAPT and len(entries) < 2:
        raise source.error("this query joins nothing, so it has no probes to leave out", overload.span, "leave it out")
    found: list[Extent | None] = [None] * len(entries)
    for one in freshness:
        index = next((i for i, entry in enumerate(entries) if entry.span.start < one.after <= entry.span.end), None)
        if index is None:
            raise source.error("this freshness stands behind no stream", one.span, "write it after the stream's alias")
        if found[index] is not None:
            raise source.error(f"{entries[index].alias} has two freshnesses", one.span, "leave one of them out")
        if one.extent.measure is not windows[index].measure:
            kind = "a time" if windows[index].measure is Measure.TIME else "a number of rows"
            example = "90 SECONDS" if windows[index].measure is Measure.TIME else "100 ROWS"
            raise source.error(
                f"the window of {entries[index].alias} is {kind}, and its freshness is not",
                one.span,
                f"write FRESHNESS {example}, say",
            )
        if is_grouped and one.extent.size < windows[index].size:
            raise source.error(
                f"values of aggregates rest on all of {entries[index].alias}'s window, {windows[index]}, "
                "and its freshness is shorter",
                one.span,
                f"write FRESHNESS {str(windows[index]).upper()} or longer, or a window of at most {one.extent}",
            )
        found[index] = one.extent
    return mode, tuple(found) if freshness else ()
