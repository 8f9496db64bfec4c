"""A bound query from a SELECT: names resolved, outputs named and typed, conditions flattened.

Owns what FROM, the SELECT list, ON and WHERE mean together (``grouping.py``: GROUP BY, HAVING and aggregates), and the
rules a query must keep: not too many streams, a window for each if there are several, different output names. All joins
are inner joins, so commas, JOINs and the place of a condition (any ON, or WHERE) change nothing: a query is a list of
streams and a list of conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.errors import PlanError
from headrace.model import (
    BOOLEAN,
    INTERNAL,
    INTERVAL,
    NULL,
    STRING,
    Catalog,
    Options,
    QueryId,
    Stream,
    StreamId,
    is_internal,
)
from headrace.plan.aggregates import EVALUATED
from headrace.plan.approaches import why_join_in_order
from headrace.plan.expressions import ColumnRef, Expression, Literal, conjuncts
from headrace.plan.functions import convert
from headrace.plan.queries import EARLY, Extent, Output, Overload, Query, Source
from headrace.sql.aggregates import first_aggregate, is_aggregate, names_for, refuse_aggregates
from headrace.sql.grammar import SHAPE, Node, parse_select, span_of_node, unwrap
from headrace.sql.grouping import GroupLowering, has_groups
from headrace.sql.lexer import WORD
from headrace.sql.lowering import Lowering
from headrace.sql.overload import bind_overload
from headrace.sql.reader import RESERVED, Word
from headrace.sql.scope import Scope, ScopeEntry
from headrace.sql.statements import SelectText
from headrace.sql.text import Span, SqlText, suggest
from headrace.sql.windows import bind_windows, check_windows_for_groups

MOST_STREAMS = 16
"""How many streams one query may join, a stream under two aliases counting twice."""

_READ = frozenset(("expressions", "from_", "joins", "where", "group", "having"))
_FOR_GROUPS = "write it in HAVING: WHERE and ON choose tuples, HAVING groups"


@dataclass(frozen=True, slots=True)
class Known:
    """The names a query may meet: streams it can read, and queries it cannot."""

    catalog: Catalog
    queries: tuple[QueryId, ...] = ()

    def stream(self, source: SqlText, name: Word) -> Stream:
        """The stream of that name, or the error that there is none."""
        stream = self.catalog.find(name.text)
        if stream is not None:
            return stream
        if any(query.lower() == name.text.lower() for query in self.queries):
            raise source.unsupported(
                f"{name.text} is a query, and reading another query's results is not supported",
                name.span,
                "read the streams that it reads",
            )
        known = [str(one.name) for one in self.catalog.streams]
        hint = suggest(name.text, known, "the streams are") or "declare it first: CREATE STREAM"
        raise source.error(f"there is no stream {name.text}", name.span, hint)


def bind_select(source: SqlText, select: SelectText, name: QueryId, known: Known, into: Options) -> Query:
    """The query that a SELECT asks for."""
    return _SelectBinder(source, select, known).query(name, into)


class _SelectBinder:
    def __init__(self, source: SqlText, select: SelectText, known: Known) -> None:
        self.source = source
        self.select = select
        self.known = known
        self.tree = parse_select(source, select.tokens)
        self._check_shape()
        self.scope = self._scope()
        self.lowering = Lowering(source, self.scope, select.span)
        self.groups = GroupLowering(self.lowering, self.tree) if has_groups(self.tree) else None

    def span(self, node: Node) -> Span:
        return span_of_node(node) or self.select.span

    def query(self, name: QueryId, into: Options) -> Query:
        outputs = self._outputs()
        conditions = self._conditions()
        grouping = self.groups.grouping() if self.groups is not None else None
        windows = bind_windows(self.source, self.select.window, self.select.stream_windows, self.scope.entries)
        if grouping is not None:
            self._check_windows()
        overload, freshness = bind_overload(
            self.source,
            self.select.overload,
            self.select.freshness,
            windows,
            self.scope.entries,
            is_grouped=grouping is not None,
        )
        sources = tuple(Source(entry.stream.name, entry.alias) for entry in self.scope.entries)
        is_early = self.select.early_span is not None
        if is_early:
            outputs = self._marked_early(outputs, grouped=grouping is not None)
            self._check_early({one.stream for one in sources}, windows, overload)
        try:
            return Query(
                name,
                sources,
                conditions,
                outputs,
                windows,
                into,
                grouping,
                is_early,
                overload=overload,
                freshness=freshness,
            )
        except PlanError as error:
            raise self.source.error(str(error), self.select.span) from error

    def _marked_early(self, outputs: tuple[Output, ...], *, grouped: bool) -> tuple[Output, ...]:
        """The outputs and, last, which rows came before their time."""
        span = self.select.early_span
        assert span is not None
        if grouped:
            hint = "leave it out: a group's value at a time is known when all streams have come that far"
            raise self.source.unsupported("EMIT EARLY is not for aggregates", span, hint)
        if len(self.scope.entries) == 1:
            hint = "leave it out: the rows of one stream wait for no other"
            raise self.source.unsupported("EMIT EARLY is for joins", span, hint)
        if any(output.name.lower() == EARLY for output in outputs):
            hint = f"write AS {EARLY}_2, say, after it: EMIT EARLY adds a column {EARLY}"
            raise self.source.error(f"an output column is called {EARLY}", span, hint)
        return (*outputs, Output(EARLY, Literal(False, BOOLEAN)))

    def _check_early(self, streams: set[StreamId], windows: Sequence[Extent], overload: Overload) -> None:
        """Refuses EMIT EARLY where no row could come before its time."""
        span, is_adapting = self.select.early_span, overload is Overload.ADAPT
        assert span is not None
        reason = why_join_in_order(streams, {one.measure for one in windows}, is_adapting=is_adapting)
        if reason is not None:
            hint = "leave EMIT EARLY out" + (", or ON OVERLOAD ADAPT" if is_adapting and len(streams) > 1 else "")
            raise self.source.unsupported(f"EMIT EARLY does nothing for this join: {reason}", span, hint)

    def _check_shape(self) -> None:
        """Only SELECT, FROM, JOIN, WHERE, GROUP BY and HAVING may have been parsed."""
        tree = self.tree
        if not isinstance(tree, exp.Select):
            raise self.source.error("this is not a SELECT", self.select.span, SHAPE)
        if not tree.expressions:
            raise self.source.error("this SELECT has no columns", self.select.span, "write SELECT * or the columns")
        if not tree.args.get("from_"):
            raise self.source.error("this query reads no stream", self.select.span, "add FROM and a stream")
        for clause, value in tree.args.items():
            if value and clause not in _READ:
                culprit = value[0] if isinstance(value, list) else value
                span = span_of_node(culprit) if isinstance(culprit, exp.Expression) else None
                shown = clause.strip("_").replace("_", " ").upper()
                raise self.source.unsupported(f"{shown} is not supported", span or self.select.span, SHAPE)

    def _scope(self) -> Scope:
        entries: list[ScopeEntry] = []
        for table in self._tables():
            entry = self._entry(table)
            for other in entries:
                if other.alias.lower() == entry.alias.lower():
                    raise self._same_alias(entry)
            entries.append(entry)
        return Scope(self.source, tuple(entries))

    def _tables(self) -> list[Node]:
        tables = [self.tree.args["from_"].this]
        for join in self.tree.args.get("joins") or ():
            kind = " ".join(str(join.args[part]) for part in ("method", "side", "kind") if join.args.get(part))
            if kind not in ("", "INNER", "CROSS") or join.args.get("using"):
                raise self.source.unsupported(
                    f"{kind or 'USING'} joins are not supported", self.span(join), "write JOIN stream b ON a.x = b.x"
                )
            tables.append(join.this)
        if len(tables) > MOST_STREAMS:
            raise self.source.unsupported(
                f"this query joins {len(tables)} streams, and {MOST_STREAMS} are the most",
                self.span(tables[MOST_STREAMS]),
                f"write several queries, each of {MOST_STREAMS} streams or fewer",
            )
        return tables

    def _entry(self, table: Node) -> ScopeEntry:
        span = self.span(table)
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise self.source.unsupported(f"{self.source.shown(span)} is not supported in FROM", span, SHAPE)
        extra = [key for key, value in table.args.items() if value and key not in ("this", "alias")]
        alias = table.args.get("alias")
        if extra == ["joins"]:
            raise self.source.unsupported(
                "a join inside a join is not supported",
                span,
                "write one after the other: a JOIN b ON ... JOIN c ON ...",
            )
        if extra or (alias is not None and alias.args.get("columns")):
            raise self.source.unsupported(
                "only a stream and its alias can stand in FROM", span, "write the stream's name and an alias"
            )
        stream = self.known.stream(self.source, Word(table.this.name, self.span(table.this)))
        return ScopeEntry(table.alias or stream.name, stream, span)

    def _same_alias(self, entry: ScopeEntry) -> Exception:
        name = entry.stream.name
        return self.source.error(
            f"two streams in FROM are called {entry.alias}", entry.span, f"give each an alias: FROM {name} a, {name} b"
        )

    def _check_windows(self) -> None:
        clauses = (self.tree.args.get("group"), self.tree.args.get("having"))
        asks = [first_aggregate(one) for one in self.tree.expressions]
        culprit = next(one for one in (*asks, *clauses) if one is not None)
        written = [*self.select.stream_windows, *([self.select.window] if self.select.window else [])]
        check_windows_for_groups(self.source, written, self.span(culprit))

    def _outputs(self) -> tuple[Output, ...]:
        taken: dict[str, Output] = {}
        for position, node in enumerate(self.tree.expressions, start=1):
            for output, span in self._item(node, position, taken):
                if output.name.lower() in taken:
                    raise self.source.error(
                        f"two output columns are called {output.name}", span, f"write AS {output.name}_2, say, after it"
                    )
                if is_internal(output.name):
                    raise self.source.error(
                        f"the name of output column {output.name} begins with {INTERNAL}, "
                        "as names of Headrace's own columns do",
                        span,
                        "write AS and another name after it",
                    )
                if self.groups is not None and output.name.lower() == EVALUATED:
                    raise self._named_as_the_time(span)
                taken[output.name.lower()] = output
        return tuple(taken.values())

    def _named_as_the_time(self, span: Span) -> Exception:
        return self.source.error(
            f"an output beside aggregates cannot be called {EVALUATED}: so is the time each row is of",
            span,
            "write AS moment, say, after it",
        )

    def _item(self, node: Node, position: int, taken: dict[str, Output]) -> list[tuple[Output, Span]]:
        span = self.span(node)
        if isinstance(node, exp.Star):
            self._check_star(node, span)
            entries = list(range(len(self.scope.entries)))
            return self._starred(entries, span, taken)
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            self._check_star(node.this, span)
            alias = node.args.get("table")
            word = Word(alias.name, self.span(alias)) if alias else Word("*", span)
            return self._starred([self.scope.position(word)], span, taken)
        if isinstance(node, exp.Alias):
            self._check_alias(node.args["alias"])
            return [(self._output(node.alias, node.this), self.span(node.args["alias"]))]
        output = self._output("", node)
        return [(replace(output, name=self._name(node, position, taken)), span)]

    def _name(self, node: Node, position: int, taken: dict[str, Output]) -> str:
        """What an output without AS is called."""
        inner = unwrap(node)
        column = self.lowering.lower(inner) if isinstance(inner, exp.Column) else None
        if isinstance(column, ColumnRef):
            return column.name
        if self.groups is None or not is_aggregate(inner):
            return f"column_{position}"
        written = {
            one.alias_or_name.lower() for one in self.tree.expressions if isinstance(one, exp.Alias | exp.Column)
        }
        names = names_for(self.groups.aggregate(inner), self.scope.entries)
        return next(name for name in names if name.lower() not in written | set(taken))

    def _check_alias(self, alias: Node) -> None:
        plain = WORD.fullmatch(alias.name) is not None and alias.name.upper() not in RESERVED
        if not plain and not alias.args.get("quoted"):
            raise self.source.error(
                f"{alias.name} is not expected here",
                self.span(alias),
                "a name that is a keyword, or not a word, stands in backticks",
            )

    def _check_star(self, star: Node, span: Span) -> None:
        if self.groups is not None:
            raise self.source.error(
                f"{self.source.shown(span)} cannot stand beside aggregates or GROUP BY",
                span,
                "write the columns of GROUP BY and the aggregates one by one",
            )
        if any(value for value in star.args.values()):
            raise self.source.unsupported(
                f"{self.source.shown(span)} is not supported", span, "write *, or the columns one by one"
            )

    def _starred(self, entries: list[int], span: Span, taken: dict[str, Output]) -> list[tuple[Output, Span]]:
        """All columns of some streams; one whose name is taken is called ``alias_column``."""
        names = set(taken)
        found: list[tuple[Output, Span]] = []
        for index in entries:
            alias = self.scope.entries[index].alias
            for ref in self.scope.refs(index):
                name = f"{alias}_{ref.name}" if ref.name.lower() in names else ref.name
                names.add(name.lower())
                found.append((Output(name, ref), span))
        return found

    def _output(self, name: str, node: Node) -> Output:
        expression = (self.groups or self.lowering).lower(node)
        if expression.type == INTERVAL:
            raise self.source.error(
                "an output column cannot be an INTERVAL",
                self.span(node),
                "compare it with one, as in a.ts - b.ts < INTERVAL '5' SECOND, or output both times",
            )
        if expression.type == NULL:
            expression = convert(expression, STRING)
        return Output(name, expression)

    def _conditions(self) -> tuple[Expression, ...]:
        found: list[Expression] = []
        for join in self.tree.args.get("joins") or ():
            if join.args.get("on"):
                found.extend(self._conjuncts(join.args["on"], "ON"))
        where = self.tree.args.get("where")
        if where is not None:
            found.extend(self._conjuncts(where.this, "WHERE"))
        return tuple(found)

    def _conjuncts(self, node: Node, clause: str) -> tuple[Expression, ...]:
        refuse_aggregates(self.lowering, node, f"in {clause}", _FOR_GROUPS)
        return conjuncts(self.lowering.condition(node, clause))
