"""A script: statements applied in order to streams and queries.

Owns the state that statements change, and the names of bare SELECTs. A statement sees only what stands before it; a
mistake anywhere refuses the whole script.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from headrace.config import Settings
from headrace.errors import Part, SettingError, query_parts, setting_parts, stream_parts
from headrace.model import Catalog, QueryId
from headrace.plan.queries import Query
from headrace.sql.declarations import bind_into, bind_stream, check_into
from headrace.sql.lexer import span_of_all, split_statements, tokenize
from headrace.sql.places import Places
from headrace.sql.reader import Word
from headrace.sql.select import Known, bind_select
from headrace.sql.statements import (
    CreateQuery,
    CreateStream,
    DropQuery,
    Explain,
    SelectText,
    SetSetting,
    Statement,
    read_statement,
)
from headrace.sql.text import Span, SqlText, suggest


@dataclass(frozen=True, slots=True)
class Script:
    """What holds after all statements, beginning with the catalog and queries given to ``read_script``."""

    catalog: Catalog
    queries: tuple[Query, ...]
    settings: tuple[tuple[str, str], ...]
    """What SET said, in order, each already checked."""
    explained: tuple[QueryId, ...]
    """Queries that EXPLAIN named (alone it names all before it) and that were not dropped later."""
    explained_queries: tuple[Query, ...]
    """Queries written after EXPLAIN; they are not run."""
    dropped: tuple[QueryId, ...]
    places: Places = field(default_factory=Places, compare=False)
    """Where this text declares its streams and queries, and says SET."""


def read_script(text: str, catalog: Catalog = Catalog(), queries: tuple[Query, ...] = ()) -> Script:  # noqa: B008
    """Read SQL text; any mistake is an error with its place.

    >>> read_script("SET shards = 4").settings
    (('shards', '4'),)
    """
    source = SqlText(text)
    state = _State(source, catalog, list(queries))
    for tokens in split_statements(tokenize(source)):
        try:
            state.apply(read_statement(source, tokens), source.slice(span_of_all(tokens)))
        except RecursionError as error:
            raise source.error("this statement is nested too deeply", span_of_all(tokens)) from error
    return state.script()


@dataclass(slots=True)
class _State:
    """The script so far."""

    source: SqlText
    catalog: Catalog
    queries: list[Query]
    settings: list[tuple[str, str]] = field(default_factory=list)
    explained: list[QueryId] = field(default_factory=list)
    explained_queries: list[Query] = field(default_factory=list)
    dropped: list[QueryId] = field(default_factory=list)
    spans: dict[Part, tuple[SqlText, Span]] = field(default_factory=dict)

    def apply(self, statement: Statement, text: str) -> None:
        match statement:
            case CreateStream():
                self._create_stream(statement)
            case CreateQuery():
                self._create_query(statement, text)
            case DropQuery():
                self._drop(statement)
            case SetSetting():
                self._set(statement)
            case Explain():
                self._explain(statement)

    def script(self) -> Script:
        return Script(
            self.catalog,
            tuple(self.queries),
            tuple(self.settings),
            tuple(self.explained),
            tuple(self.explained_queries),
            tuple(self.dropped),
            Places(self.spans),
        )

    def _place(self, parts: tuple[Part, ...], span: Span) -> None:
        self.spans.update((part, (self.source, span)) for part in parts)

    def _create_stream(self, statement: CreateStream) -> None:
        if self.catalog.find(statement.name.text) is not None:
            raise self.source.error(
                f"there is a stream {statement.name.text} already", statement.name.span, "give this one another name"
            )
        self.catalog = self.catalog.with_stream(bind_stream(self.source, statement))
        self._place(stream_parts(statement.name.text), statement.name.span)

    def _create_query(self, statement: CreateQuery, text: str) -> None:
        name = statement.name
        if name is None:
            free = self._free_name("query", self.queries)
            self.queries.append(replace(self._bind(free, statement.select), text=f"CREATE QUERY {free} AS {text}"))
            self._place(query_parts(free), statement.select.span)
            return
        if self._find(name.text) is not None:
            raise self.source.error(
                f"there is a query {name.text} already",
                name.span,
                f"write DROP QUERY {name.text}; before, or another name",
            )
        self.queries.append(replace(self._bind(QueryId(name.text), statement.select), text=text))
        self._place(query_parts(name.text), name.span)

    def _bind(self, name: QueryId, select: SelectText) -> Query:
        known = Known(self.catalog, tuple(query.name for query in self.queries))
        query = bind_select(self.source, select, name, known, bind_into(self.source, select))
        check_into(self.source, select, query.schema)
        return query

    def _free_name(self, stem: str, among: list[Query]) -> QueryId:
        taken = {query.name.lower() for query in among}
        number = 1
        while f"{stem}_{number}" in taken:
            number += 1
        return QueryId(f"{stem}_{number}")

    def _drop(self, statement: DropQuery) -> None:
        query = self._known(statement.name)
        self.queries.remove(query)
        self.dropped.append(query.name)
        self.explained = [name for name in self.explained if name != query.name]

    def _set(self, statement: SetSetting) -> None:
        name, value = statement.name, statement.value
        if name.text not in Settings.names():
            hint = suggest(name.text, Settings.names(), "the settings are")
            raise self.source.error(f"there is no setting {name.text}", name.span, hint)
        try:
            Settings().with_text(name.text, value.text)
        except SettingError as error:
            message, hint = _parted(str(error))
            raise self.source.error(message, value.span, hint) from error
        self.settings.append((name.text, value.text))
        self._place(setting_parts(name.text), value.span)

    def _explain(self, statement: Explain) -> None:
        if statement.select is not None:
            name = self._free_name("explain", [*self.queries, *self.explained_queries])
            self.explained_queries.append(self._bind(name, statement.select))
            self._place(query_parts(name), statement.select.span)
            return
        names = [query.name for query in self.queries]
        if statement.name is not None:
            names = [self._known(statement.name).name]
        self.explained.extend(name for name in names if name not in self.explained)

    def _find(self, name: str) -> Query | None:
        return next((query for query in self.queries if query.name.lower() == name.lower()), None)

    def _known(self, name: Word) -> Query:
        query = self._find(name.text)
        if query is not None:
            return query
        hint = suggest(name.text, [str(one.name) for one in self.queries], "the queries are") or "there is none yet"
        raise self.source.error(f"there is no query {name.text}", name.span, hint)


def _parted(complaint: str) -> tuple[str, str]:
    """``setting x: what is wrong: what to write`` as message and hint."""
    message, parting, hint = complaint.rpartition(": ")
    return (message, hint) if parting and message.count(": ") else (complaint, "write another value")
