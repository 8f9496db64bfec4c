"""A query in the form that sharing compares: its sides in the group's order, its signature, what it folds.

Sides are in catalog order, however FROM wrote them (a stream joined with itself: as FROM has them); conditions, keys
and outputs are over the sides. Queries with one signature are one group. Owns :class:`Canonical`, ``canonical`` and the
identity of a query. Cost: a pass over a query's expressions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from headrace.model import Catalog, StreamId
from headrace.plan.aggregates import Aggregate, Grouping
from headrace.plan.conditions import simplified
from headrace.plan.expressions import Call, ColumnRef, Expression, expression_text, rewrite, sources_of
from headrace.plan.folding import aggregate_text, folded_columns, group_row_text
from headrace.plan.joingraph import JoinGraph, alone, graph_text, join_graph
from headrace.plan.queries import Extent, Measure, Output, Overload, Query
from headrace.plan.trees import JoinTree, is_of, parse_tree

Sizes: TypeAlias = tuple[int, ...]
"""A window: how far back each side is looked at, in what the side is measured in. Empty for a scan."""
_AS_TREE, _OVER = " as the tree ", " over "
"""What comes before the tree, and before its windows of rows, in the signature of a join that leaves nothing out."""


@dataclass(frozen=True, slots=True)
class Canonical:
    """A query with its sides in the group's order."""

    query: Query
    signature: str
    streams: tuple[StreamId, ...]
    keys: tuple[tuple[Expression, ...], ...]
    conditions: tuple[Expression, ...]
    outputs: tuple[Output, ...]
    measures: tuple[Measure, ...]
    sizes: Sizes
    graph: JoinGraph | None = None
    ties: tuple[int, ...] = ()
    grouping: Grouping | None = None
    window_us: int = 0
    offsets: tuple[int, ...] = ()
    freshness: tuple[Extent, ...] | None = None
    """By side, where probes may be left out; None: they may not."""
    tree: JoinTree | None = None
    """The tree that a join which leaves nothing out is to run by; None: by none."""


def canonical(catalog: Catalog, query: Query, tree: str | None = None) -> Canonical:
    """The query so. ``tree``: one that joins of its streams are to run by, those that leave nothing out, too."""
    query = replace(query, conditions=tuple(part for one in query.conditions for part in simplified(one)))
    if len(query.sources) == 1:
        return _arranged(query, (0,), ())
    positions = [catalog.position(source.stream) for source in query.sources]
    order = tuple(sorted(range(len(positions)), key=positions.__getitem__))
    equalities = [pair for condition in query.conditions if (pair := _equality(condition)) is not None]
    if query.overload is Overload.ADAPT:
        return _adapting(query, order)
    if len(query.sources) == 2 and equalities:
        return _arranged(query, order, equalities)
    found = _multiway(query, order)
    return found if tree is None or query.emits_early else _by_tree(found, tree)


def _equality(condition: Expression) -> tuple[Expression, Expression] | None:
    """The two sides of an equality between the streams, FROM's first stream first."""
    if not (isinstance(condition, Call) and condition.function == "="):
        return None
    left, right = condition.args
    sources = (tuple(sources_of(left)), tuple(sources_of(right)))
    if sources == ((0,), (1,)):
        return left, right
    return (right, left) if sources == ((1,), (0,)) else None


def _arranged(query: Query, order: tuple[int, ...], equalities: Iterable[tuple[Expression, Expression]]) -> Canonical:
    """The query with FROM entry ``order[i]`` as side i, and its key pairs in an order of their own."""
    side_of = {source: side for side, source in enumerate(order)}

    def move(expression: Expression) -> Expression:
        return rewrite(expression, lambda ref: ColumnRef(side_of[ref.source], ref.name, ref.type))

    pairs = {tuple(alone(pair[source]) for source in order) for pair in equalities}
    ordered = sorted(pairs, key=lambda pair: [expression_text(part) for part in pair])
    keys = tuple(tuple(pair[side] for pair in ordered) for side in range(len(order)))
    streams = tuple(query.sources[source].stream for source in order)
    extents = [query.windows[source] for source in order] if len(order) > 1 else []
    measures = tuple(extent.measure for extent in extents)
    arranged = Canonical(
        query,
        _signature(streams, keys, measures),
        streams,
        keys,
        tuple(dict.fromkeys(move(one) for one in query.conditions)),
        (),
        measures,
        tuple(extent.size for extent in extents),
    )
    if query.grouping is None:
        return replace(
            arranged, outputs=tuple(Output(output.name, move(output.expression)) for output in query.outputs)
        )
    return _grouped(arranged, query.grouping, [query.windows[source].size for source in order], move)


def _grouped(
    arranged: Canonical, grouping: Grouping, sizes: Sequence[int], move: Callable[[Expression], Expression]
) -> Canonical:
    """The query with what it folds in place of its outputs, which are over the group's row."""
    keys = tuple(move(key) for key in grouping.keys)
    aggregates = tuple(
        Aggregate(
            one.fold,
            None if one.argument is None else move(one.argument),
            None if one.filter is None else move(one.filter),
        )
        for one in grouping.aggregates
    )
    return replace(
        arranged,
        outputs=folded_columns(keys, aggregates),
        grouping=Grouping(keys, aggregates, grouping.having),
        window_us=min(sizes),
        offsets=tuple(size - min(sizes) for size in sizes),
    )


def _multiway(query: Query, order: tuple[int, ...]) -> Canonical:
    """The same for a join by a graph of predicates, which leaves the conditions on one side alone."""
    arranged = _arranged(query, order, ())
    joining = [one for one in arranged.conditions if len(sources_of(one)) > 1]
    graph = join_graph(arranged.streams, joining)
    names = _names(arranged.streams)
    predicates = graph_text(graph, names)
    signature = _signature(names, (), arranged.measures)
    ties = tuple(order.index(source) for source in range(len(order)))
    return replace(
        arranged,
        signature=f"{signature} on {predicates}" if predicates else signature,
        conditions=tuple(one for one in arranged.conditions if len(sources_of(one)) <= 1),
        graph=graph,
        ties=ties if len(ties) > 2 and list(ties) != sorted(ties) else (),
    )


def _adapting(query: Query, order: tuple[int, ...]) -> Canonical:
    """The same for a join whose probes may be left out: only with others that are to be as fresh."""
    found = _multiway(query, order)
    freshness = tuple(query.fresh_within(source) for source in order)
    told = ", ".join(map(str, freshness))
    return replace(found, signature=f"{found.signature} adapting, fresh within {told}", freshness=freshness)


def _by_tree(found: Canonical, text: str) -> Canonical:
    """The same by a tree, where that is of its streams. Only queries by one tree share states in between; those with
    windows of rows only if they look as far back."""
    names = _names(found.streams)
    if len(names) < 3 or not is_of(text, names):
        return found
    tree = parse_tree(text, names)
    signature = f"{found.signature}{_AS_TREE}{tree.text(names)}"
    if Measure.ROWS in found.measures:
        extents = map(Extent, found.measures, found.sizes)
        signature = f"{signature}{_OVER}{', '.join(map(str, extents))}"
    return replace(found, signature=signature, tree=tree)


def told_tree(signature: str) -> tuple[str, str]:
    """A signature without the tree that a join which leaves nothing out runs by, and that tree; empty: by none.

    >>> told_tree("a x b x c as the tree ((a b) c) over 5 rows, 5 rows, 5 rows")
    ('a x b x c', '((a b) c)')
    """
    joined, _, tree = signature.partition(_AS_TREE)
    return joined, tree.partition(_OVER)[0]


def _names(streams: Sequence[StreamId]) -> list[str]:
    """What the sides are called: their streams, numbered where one is there more than once."""
    return [
        f"{stream}#{streams[: side + 1].count(stream)}" if streams.count(stream) > 1 else str(stream)
        for side, stream in enumerate(streams)
    ]


def _signature(streams: Sequence[str], keys: Sequence[tuple[Expression, ...]], measures: Sequence[Measure]) -> str:
    sides = " x ".join(streams)
    if any(keys):
        sides = " = ".join(_side_text(stream, key) for stream, key in zip(streams, keys, strict=True))
    if Measure.ROWS not in measures:
        return sides
    return f"{sides} by {', '.join(measure.value for measure in measures)}"


def _side_text(stream: str, key: tuple[Expression, ...]) -> str:
    return f"{stream}({', '.join(expression_text(part) for part in key)})" if key else str(stream)


def side_numbers(member: Canonical) -> list[str]:
    return [str(side) for side in range(len(member.streams))]


def grouping_texts(member: Canonical) -> tuple[list[str], list[str]]:
    """Its keys and aggregates."""
    assert member.grouping is not None
    names = side_numbers(member)

    def text(one: Expression | None) -> str | None:
        return None if one is None else expression_text(one, names)

    aggregates = [aggregate_text(one, text(one.argument), text(one.filter)) for one in member.grouping.aggregates]
    return [expression_text(key, names) for key in member.grouping.keys], aggregates


def identity_of(member: Canonical, delivery: str) -> str:
    """The query's name, and a number that another query under that name would not have."""
    asked = sorted(expression_text(one, side_numbers(member)) for one in member.conditions)
    asked += [
        f"{text} AS {output.name}" for text, output in zip(_output_texts(member), member.query.outputs, strict=True)
    ]
    asked += [str((member.sizes, *member.ties)), delivery, *(["early"] if member.query.emits_early else [])]
    if member.grouping is not None:
        keys, aggregates = grouping_texts(member)
        asked += [*keys, *aggregates, str((member.window_us, member.offsets))]
        asked += [group_row_text(one, keys, aggregates) for one in [member.grouping.having] if one is not None]
    told = "\n".join([member.signature, *asked])
    return f"{member.query.name}-{hashlib.blake2b(told.encode(), digest_size=6).hexdigest()}"


def _output_texts(member: Canonical) -> list[str]:
    if member.grouping is None:
        return [expression_text(output.expression, side_numbers(member)) for output in member.outputs]
    texts = grouping_texts(member)
    return [group_row_text(output.expression, *texts) for output in member.query.outputs]
