"""What names mean inside one query: the streams of FROM and their columns.

Owns look-up by alias and column, in any case, and the errors for names that are unknown or could be two things.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model import Stream
from headrace.plan.expressions import ColumnRef
from headrace.sql.reader import Word
from headrace.sql.text import Span, SqlText, nearest, suggest


@dataclass(frozen=True, slots=True)
class ScopeEntry:
    """One entry of FROM."""

    alias: str
    stream: Stream
    span: Span


class Scope:
    """The streams a query reads, in FROM order."""

    def __init__(self, source: SqlText, entries: tuple[ScopeEntry, ...]) -> None:
        self.source = source
        self.entries = entries

    def refs(self, position: int) -> tuple[ColumnRef, ...]:
        """Every column of the ``position``-th stream."""
        return tuple(ColumnRef(position, column.name, column.type) for column in self.entries[position].stream.schema)

    def position(self, alias: Word) -> int:
        """Which entry an alias names."""
        for index, entry in enumerate(self.entries):
            if entry.alias.lower() == alias.text.lower():
                return index
        for entry in self.entries:
            if entry.stream.name.lower() == alias.text.lower():
                raise self.source.error(
                    f"stream {entry.stream.name} is called {entry.alias} in this query",
                    alias.span,
                    f"write {entry.alias} instead of {alias.text}",
                )
        hint = suggest(alias.text, [entry.alias for entry in self.entries], "FROM has")
        raise self.source.error(f"there is no stream {alias.text} in FROM", alias.span, hint)

    def column(self, name: Word, alias: Word | None) -> ColumnRef:
        """The column that ``name`` or ``alias.name`` means."""
        if alias is not None:
            return self._of_entry(name, self.position(alias), alias)
        found = [ref for index in range(len(self.entries)) for ref in self.refs(index) if _same(ref.name, name.text)]
        if len(found) == 1:
            return found[0]
        if found:
            ways = " or ".join(f"{self.entries[ref.source].alias}.{ref.name}" for ref in found)
            raise self.source.error(f"column {name.text} is in more than one stream", name.span, f"write {ways}")
        raise self.source.error(f"there is no column {name.text}", name.span, self._nearest(name.text))

    def has(self, name: str) -> bool:
        """Whether any stream has a column of that name."""
        return any(entry.stream.schema.find(name) is not None for entry in self.entries)

    def _of_entry(self, name: Word, position: int, alias: Word) -> ColumnRef:
        entry = self.entries[position]
        column = entry.stream.schema.find(name.text)
        if column is not None:
            return ColumnRef(position, column.name, column.type)
        hint = suggest(name.text, entry.stream.schema.names, "its columns are")
        elsewhere = [one.alias for one in self.entries if one.stream.schema.find(name.text) is not None]
        if elsewhere and nearest(name.text, entry.stream.schema.names) is None:
            hint = f"did you mean {elsewhere[0]}.{name.text}?"
        message = f"stream {entry.stream.name} ({alias.text}) has no column {name.text}"
        if _same(entry.stream.name, alias.text):
            message = f"stream {entry.stream.name} has no column {name.text}"
        raise self.source.error(message, name.span, hint)

    def _nearest(self, name: str) -> str:
        names = list(dict.fromkeys(ref.name for index in range(len(self.entries)) for ref in self.refs(index)))
        return suggest(name, names, "the columns are")


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()
