"""Windows as written: WINDOW at the end of a query, and brackets behind the streams of FROM.

Owns their small grammar and which stream gets which window. sqlglot does not know the brackets, so they are cut out of
the tokens before it sees them; each remembers where the text before it ends, and so finds its stream again.

    FROM temperature a [RANGE 1 MINUTE], humidity [ROWS 100] b, ... WINDOW 10 SECONDS
         `-- its own: a time             `-- a number of tuples      `-- for all streams without their own
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokens import TokenType

from headrace.plan.queries import Extent, Measure
from headrace.sql.lexer import Token, is_word, span_of_all
from headrace.sql.reader import TokenReader
from headrace.sql.scope import ScopeEntry
from headrace.sql.text import Span, SqlText

MOST_ROWS = 1_000_000_000
ROWS = ("ROWS", "ROW", "TUPLES")
_KINDS = ("RANGE", *ROWS)
_BRACKET = "write [RANGE 1 MINUTE] or [ROWS 100]"


@dataclass(frozen=True, slots=True)
class WrittenWindow:
    """A window and its place; ``after`` is where the text before it ends."""

    extent: Extent
    span: Span
    after: int


def read_window(reader: TokenReader) -> WrittenWindow:
    """WINDOW and what follows it: ``1 MINUTE``, ``100 ROWS``."""
    first = reader.at
    reader.expect("WINDOW")
    if reader.peek(number_end(reader) - reader.at) in ROWS:
        extent = row_count(reader, "write WINDOW 100 ROWS")
        reader.take()
    else:
        extent = Extent(Measure.TIME, reader.duration_us("WINDOW", "rows", "tuples"))
    return WrittenWindow(extent, span_of_all(reader.tokens[first : reader.at]), reader.tokens[first - 1].end + 1)


def cut_windows(source: SqlText, tokens: list[Token]) -> tuple[list[Token], tuple[WrittenWindow, ...]]:
    """The tokens without windows in brackets, and these."""
    reader = TokenReader(source, tokens)
    rest: list[Token] = []
    found: list[WrittenWindow] = []
    while not reader.done:
        first = reader.at
        if reader.peek() == "[" and _may_open(rest, reader.peek(1)):
            extent = _bracketed(reader)
            found.append(WrittenWindow(extent, span_of_all(tokens[first : reader.at]), rest[-1].end + 1))
        else:
            rest.append(reader.take())
    return rest, tuple(found)


def _may_open(before: list[Token], following: str) -> bool:
    """Whether a bracket is a window: it says so, or it stands in FROM, where nothing else could be in brackets."""
    if not before or before[-1].token_type == TokenType.ALIAS:
        return False
    return following in _KINDS or in_from(before)


def in_from(before: list[Token]) -> bool:
    clauses = (
        TokenType.SELECT, TokenType.FROM, TokenType.JOIN, TokenType.ON, TokenType.WHERE, TokenType.GROUP_BY,
        TokenType.HAVING, TokenType.WINDOW,
    )  # fmt: skip
    last = next((token.token_type for token in reversed(before) if token.token_type in clauses), None)
    return last in (TokenType.FROM, TokenType.JOIN)


def _bracketed(reader: TokenReader) -> Extent:
    """``[RANGE 1 MINUTE]`` or ``[ROWS 100]``."""
    reader.expect("[")
    if reader.accept("RANGE"):
        extent = _range(reader)
    elif reader.peek() in ROWS:
        reader.take()
        extent = row_count(reader, _BRACKET)
    else:
        raise reader.unexpected("RANGE or ROWS", _BRACKET)
    reader.expect("]", _BRACKET)
    return extent


def _range(reader: TokenReader) -> Extent:
    if reader.peek(number_end(reader) - reader.at) in ROWS:
        raise reader.source.error("RANGE is a time, not a number of rows", reader.span, _BRACKET)
    return Extent(Measure.TIME, reader.duration_us("RANGE"))


def row_count(reader: TokenReader, hint: str) -> Extent:
    """A whole number, from 1."""
    first, reader.at = reader.at, number_end(reader)
    if reader.at == first:
        raise reader.unexpected("a number of rows", hint)
    span = span_of_all(reader.tokens[first : reader.at])
    text = reader.source.slice(span)
    if not re.fullmatch("[0-9]{1,12}", text) or not 1 <= int(text) <= MOST_ROWS:
        message = f"{reader.source.shown(span)} is not a number of rows"
        raise reader.source.error(message, span, f"write a whole number from 1 to {MOST_ROWS}")
    return Extent(Measure.ROWS, int(text))


def number_end(reader: TokenReader) -> int:
    """Where a number that comes next is over: at a word, a comma or a bracket."""
    at = reader.at
    while at < len(reader.tokens) and not is_word(reader.tokens[at]) and reader.peek(at - reader.at) not in (",", "]"):
        at += 1
    return at


# --- which stream has which


def bind_windows(
    source: SqlText, shared: WrittenWindow | None, own: Sequence[WrittenWindow], entries: Sequence[ScopeEntry]
) -> tuple[Extent, ...]:
    """The window of each stream of FROM; none for a single stream without one."""
    by_entry = _by_entry(source, own, entries)
    if shared is not None and len(by_entry) == len(entries):
        raise source.error(
            "WINDOW is for no stream: each in FROM has a window of its own", shared.span, "leave WINDOW out"
        )
    found = [by_entry.get(index, shared) for index in range(len(entries))]
    extents = tuple(one.extent for one in found if one is not None)
    if len(entries) > 1 and len(extents) < len(entries):
        raise _missing(source, [entry for entry, one in zip(entries, found, strict=True) if one is None], entries)
    return extents


def check_windows_for_groups(source: SqlText, written: Sequence[WrittenWindow], groups: Span) -> None:
    """Groups are of windows of time; ``groups`` is where the query asks for them."""
    if not written:
        raise source.error("aggregates and GROUP BY need a window", groups, "end the query with WINDOW 1 MINUTE, say")
    for window in written:
        if window.extent.measure is not Measure.TIME:
            hint = "write a time, such as WINDOW 1 MINUTE or [RANGE 1 MINUTE]"
            raise source.error("aggregates are over windows of time, not of rows", window.span, hint)


def _by_entry(source: SqlText, own: Sequence[WrittenWindow], entries: Sequence[ScopeEntry]) -> dict[int, WrittenWindow]:
    found: dict[int, WrittenWindow] = {}
    for window in own:
        index = next((i for i, one in enumerate(entries) if one.span.start < window.after <= one.span.end), None)
        if index is None:
            hint = "write it in FROM, after the stream or its alias"
            raise source.error("this window stands behind no stream", window.span, hint)
        if index in found:
            message = f"stream {entries[index].stream.name} has two windows"
            raise source.error(message, window.span, "leave one of them out")
        found[index] = window
    return found


def _missing(source: SqlText, without: Sequence[ScopeEntry], entries: Sequence[ScopeEntry]) -> Exception:
    *others, last = (str(entry.stream.name) for entry in entries)
    names = f"{', '.join(others)} and {last}"
    if len(without) == len(entries):
        span = entries[0].span.to(entries[-1].span)
        return source.error(f"this query joins {names} without a window", span, "end it with WINDOW 1 MINUTE, say")
    return source.error(
        f"this query joins {names} without a window for {without[0].alias}",
        without[0].span,
        "write [RANGE 1 MINUTE] after it, say, or end the query with WINDOW 1 MINUTE",
    )
