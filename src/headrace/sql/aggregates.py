"""Aggregates as written: COUNT, SUM, AVG, MIN, MAX, with DISTINCT and FILTER.

Owns which calls are aggregates, where they may not stand, what each folds, and what an output that is one is called.
Their arguments and filters are expressions over the streams' columns, lowered like any other; ``grouping.py`` puts the
aggregates into a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from sqlglot import exp

from headrace.errors import PlanError
from headrace.model import INTERVAL, NULL
from headrace.plan.aggregates import Aggregate, Fold
from headrace.plan.expressions import ColumnRef, Expression, Literal
from headrace.sql.grammar import Node
from headrace.sql.lowering import Lowering
from headrace.sql.scope import ScopeEntry
from headrace.sql.text import Span

FOLDS = {"count": Fold.COUNT, "sum": Fold.SUM, "avg": Fold.AVG, "min": Fold.MIN, "max": Fold.MAX}
"""Aggregates by their names; COUNT of DISTINCT values is a fold of its own."""


def is_aggregate(node: Node) -> bool:
    """Whether a node is a call of an aggregate, with or without a FILTER."""
    if isinstance(node, exp.Filter):
        return is_aggregate(node.this)
    return isinstance(node, exp.Anonymous) and node.name.lower() in FOLDS


def first_aggregate(node: Node | None) -> Node | None:
    """An aggregate in the node, the outermost first."""
    return next((one for one in node.walk() if is_aggregate(one)), None) if node is not None else None


def refuse_aggregates(lowering: Lowering, node: Node, place: str, hint: str) -> None:
    """The error for an aggregate where only columns may be read; ``place`` says where, as ``in WHERE``."""
    found = first_aggregate(node)
    if found is not None:
        raise lowering.source.error(f"an aggregate cannot stand {place}", lowering.span(found), hint)


# --- what it folds


def read_aggregate(rows: Lowering, node: Node) -> Aggregate:
    """The aggregate that a node is; ``rows`` lowers what stands inside it."""
    called, where = (node.this, node.expression) if isinstance(node, exp.Filter) else (node, None)
    fold, argument = _folded(rows, called)
    try:
        return Aggregate(fold, argument, None if where is None else _filter(rows, node, where))
    except PlanError as error:
        raise rows.source.error(str(error), rows.span(called), "COUNT, MIN and MAX take values of any type") from error


def _folded(rows: Lowering, called: Node) -> tuple[Fold, Expression | None]:
    name = called.name.upper()
    fold = FOLDS[called.name.lower()]
    distinct, node = _argument(rows, called)
    if isinstance(node, exp.Star):
        if fold is Fold.COUNT and not distinct:
            return fold, None
        raise rows.source.error(f"{name} takes a value, not *", rows.span(called), f"name a column: {name}(a.x)")
    refuse_aggregates(rows, node, "inside another", "write an expression over both, such as MAX(x) - MIN(x)")
    argument = _checked(rows, called, node)
    if fold is Fold.COUNT:
        if distinct:
            return Fold.DISTINCT, argument
        return fold, None if isinstance(argument, Literal) else argument
    if distinct and fold in (Fold.SUM, Fold.AVG):
        hint = f"write {name}({rows.source.slice(rows.span(node))}), or count the values with COUNT(DISTINCT ...)"
        raise rows.source.unsupported(f"DISTINCT is not supported in {name}", rows.span(called), hint)
    return fold, argument


def _argument(rows: Lowering, called: Node) -> tuple[bool, Node]:
    """Whether there is DISTINCT, and the one thing that the aggregate is given."""
    args: Sequence[Node] = called.expressions
    distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
    if distinct:
        args = args[0].expressions
    name = called.name.upper()
    example = f"{name}(DISTINCT a.x)" if distinct else f"{name}(a.x)"
    if len(args) != 1:
        raise rows.source.error(f"{name} takes one value, not {len(args)}", rows.span(called), f"write {example}")
    node = args[0]
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        hint = "write COUNT(*)" if name == "COUNT" else f"write {example}"
        raise rows.source.error(f"{name} takes one value, not all columns of a stream", rows.span(called), hint)
    return distinct, node


def _checked(rows: Lowering, called: Node, node: Node) -> Expression:
    name = called.name.upper()
    argument = rows.lower(node)
    if argument.type == NULL:
        raise rows.source.error(f"{name} of NULL has nothing to fold", rows.span(called), f"write {name}(a.x)")
    if argument.type == INTERVAL:
        hint = "aggregate times, as in MAX(a.ts) - MIN(b.ts), or their parts"
        raise rows.source.error(f"{name} does not take an INTERVAL", rows.span(node), hint)
    return argument


def _filter(rows: Lowering, node: Node, where: Node) -> Expression:
    between = Span(rows.span(node.this).end, rows.span(where).start)
    if "WHERE" not in rows.source.slice(between).upper():
        raise rows.source.error("this FILTER has no WHERE", rows.span(node), "write FILTER (WHERE condition)")
    refuse_aggregates(rows, where.this, "in FILTER", "write a condition on columns; HAVING takes those on aggregates")
    return rows.condition(where.this, "FILTER")


# --- what it is called


def names_for(aggregate: Aggregate, entries: Sequence[ScopeEntry]) -> Iterator[str]:
    """Names for an output that is this aggregate and has none: ``max_value``, ``max_b_value``, ``max_b_value_2`` ..."""
    stem = "_".join(aggregate.fold.value.lower().split())
    if isinstance(aggregate.argument, ColumnRef):
        column = aggregate.argument.name.lower()
        yield f"{stem}_{column}"
        stem = f"{stem}_{entries[aggregate.argument.source].alias.lower()}_{column}"
    yield stem
    yield from (f"{stem}_{number}" for number in count(2))
