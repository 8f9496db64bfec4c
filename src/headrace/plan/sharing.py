"""Sharing: many bound queries become a few groups, each with one join, one state and one pass over the input.

Queries whose streams and equality predicates agree, whatever their aliases, filters, select lists and windows, make one
:class:`Group` (paper 000, section 2.2: the same signature). Its windows split the results into bands

    0 ....... w1 ........... w2 ........................ w3      age of the older tuple of a result
    |  band 1  |    band 2    |          band 3           |      a query with window w2 reads bands 1 and 2

A window has a size for each side, which may differ; ages are microseconds or tuples, as a side is measured. More
than two streams, or two without an equality between them, are joined by their graph of predicates (``joingraph``); all
of its conditions belong to the signature then.

Filters that every member has run below the join (``Input.pushed``), and so do bounds of a column that every member's
filters imply (``Input.bounds``); the others after it, once for all members that
have the same filters and select list (``OutputClass``). Planning is quadratic in a group's members at worst.

Invariants: in a group's expressions, sources are the group's own sides, not a query's FROM order; the sides are
in catalog order, however a query wrote them (a stream joined with itself: as FROM has them, because FROM decides which
of two results with the same tuples comes first); every query is in exactly one class.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from headrace.errors import PlanError
from headrace.model import BOOLEAN, Catalog, Column, Options, QueryId, Schema, StreamId
from headrace.plan.aggregates import Aggregate
from headrace.plan.bounds import Bound, common_bounds, implies, told_bounds
from headrace.plan.canonical import Canonical, Sizes, canonical, grouping_texts, identity_of, side_numbers
from headrace.plan.expressions import Call, Expression, columns_of, expression_text, sources_of
from headrace.plan.folding import Final, Folding, folding_identity
from headrace.plan.joingraph import Index, JoinGraph, KeyForm, alone, key_form, on_side
from headrace.plan.queries import Extent, Measure, Output, Query
from headrace.plan.sinks import check_shared
from headrace.plan.trees import JoinTree


class Delivery(Enum):
    """What leaves the shard for a class of queries."""

    ROWS = "rows"
    COUNT = "count"
    """Only how many: the sink ``count``."""
    SHARED = "shared"
    """Rows, to files that hold many queries' rows: each query's are kept in order within a file."""
    FOLDED = "folded"
    """Nothing: results are folded into aggregates, and those of a group's rows leave that its queries ask for."""


@dataclass(frozen=True, slots=True)
class Input:
    """A stream as a group reads it: its key (of a multi-way join: what it is searched by), what is filtered out before
    it is kept, and the columns carried."""

    stream: StreamId
    time: str
    keys: tuple[Expression, ...]
    pushed: tuple[Expression, ...]
    schema: Schema
    indexes: tuple[Index, ...] = ()
    bounds: tuple[Bound, ...] = ()
    """Of columns, which all that is wanted of the stream is within: what filters left to do after the join imply."""

    @property
    def selection(self) -> tuple[Expression, ...]:
        """All that its rows are asked before they are sent anywhere."""
        return (*self.pushed, *(one.expression for one in self.bounds))


@dataclass(frozen=True, slots=True)
class Member:
    """A query of a class, and how far back it looks. ``identity`` names it together with all it asks for."""

    query: QueryId
    sizes: Sizes
    identity: str


@dataclass(frozen=True, slots=True)
class OutputClass:
    """Queries that differ in nothing but their window: filtered and projected once, band by band.

    ``pushed`` are its conditions that the inputs apply already, by side; ``filters`` those left to do. ``ties``: the
    sides as FROM has them, which orders results with one newest tuple; empty where the sides' own order does."""

    pushed: tuple[tuple[Expression, ...], ...]
    filters: tuple[Expression, ...]
    outputs: tuple[Output, ...]
    delivery: Delivery
    members: tuple[Member, ...]
    ties: tuple[int, ...] = ()
    folding: Folding | None = None
    """With it, ``outputs`` are what is folded."""
    deferred: tuple[Expression, ...] | None = None
    """Filters that another operator applies to what this class gives, which is columns as they are (``deferring``)."""
    only_filtered: frozenset[str] = frozenset()
    """The columns, by output name, that only those filters read."""
    is_early: bool = False
    """Whether rows leave as soon as they are found."""

    @property
    def windows(self) -> tuple[Sizes, ...]:
        """From the smallest to the largest: one that holds another comes after it."""
        return tuple(sorted({member.sizes for member in self.members}, key=lambda sizes: (sum(sizes), sizes)))

    @property
    def schema(self) -> Schema:
        return Schema(tuple(Column(output.name, output.expression.type) for output in self.outputs))

    def conditions_on(self, side: int) -> tuple[Expression, ...]:
        """All it asks of one side's tuples, as that side's stream sees them."""
        filters = (*self.filters, *(self.deferred or ()))
        return (*self.pushed[side], *(alone(one) for one in filters if sources_of(one) == {side}))

    def unchecked(self, side: int, passed: Collection[str]) -> tuple[Expression, ...]:
        """What it asks of one side's tuples beyond the conditions (as text) that they passed before they were kept."""
        return tuple(on_side(one, side) for one in self.conditions_on(side) if expression_text(one) not in passed)

    @property
    def residual(self) -> tuple[Expression, ...]:
        """The conditions that are not about one side alone."""
        return tuple(one for one in (*self.filters, *(self.deferred or ())) if len(sources_of(one)) != 1)

    @property
    def read(self) -> tuple[Expression, ...]:
        """What is made of its results that have passed all conditions."""
        return tuple(output.expression for output in self.outputs if output.name not in self.only_filtered)


@dataclass(frozen=True, slots=True)
class Group:
    """One shared join (two sides or more) or scan (one side). ``sides[i]`` is the input that side i reads: a self-join
    on one key reads the same input twice. ``graph``: the predicates of a multi-way join; None where a key is all."""

    signature: str
    inputs: tuple[Input, ...]
    sides: tuple[int, ...]
    key_form: KeyForm
    verified: tuple[Expression, ...]
    measures: tuple[Measure, ...]
    classes: tuple[OutputClass, ...]
    graph: JoinGraph | None = None
    freshness: tuple[Extent, ...] | None = None
    """By side, where overload is met by leaving out probes (``ON OVERLOAD ADAPT``): such a group runs as a tree of
    joins. None: nothing is left out."""
    tree: JoinTree | None = None
    """The tree of a group that leaves nothing out and runs by one all the same (``SET plan``)."""

    def __post_init__(self) -> None:
        folded = [one.folding.identity for one in self.classes if one.folding is not None]
        if len(set(folded)) != len(folded):  # their sums would be kept in one place
            raise PlanError(f"queries over {self.signature} fold alike and are not one class")

    @property
    def windows(self) -> tuple[Sizes, ...]:
        """From the smallest to the largest: one that holds another comes after it."""
        windows = {sizes for one in self.classes for sizes in one.windows}
        return tuple(sorted(windows, key=lambda sizes: (sum(sizes), sizes)))

    @property
    def counts_rows(self) -> tuple[bool, ...]:
        """For each input, whether its tuples' places in the whole stream are needed: a side that reads the stream is
        measured in rows."""
        counted = {self.input_of(side).stream for side, one in enumerate(self.measures) if one is Measure.ROWS}
        return tuple(input.stream in counted for input in self.inputs)

    @property
    def queries(self) -> tuple[QueryId, ...]:
        return tuple(member.query for cls in self.classes for member in cls.members)

    @property
    def is_join(self) -> bool:
        return len(self.sides) > 1

    @property
    def adapts(self) -> bool:
        """Whether probes may be left out."""
        return self.freshness is not None

    @property
    def is_tree(self) -> bool:
        """Whether its join runs as a tree, with states in between."""
        return self.adapts or self.tree is not None

    @property
    def key_sides(self) -> tuple[tuple[int, ...], ...]:
        """The sides that each attribute class is of: with a key and no graph, the one of all sides."""
        return tuple(one.sides for one in self.graph.classes) if self.graph is not None else ((0, 1),)

    @property
    def numbers_tuples(self) -> bool:
        """Whether only a number tells which of two tuples at one time came first: as where two inputs read one
        stream."""
        if self.graph is not None:
            return self.graph.numbers_tuples or self.is_tree
        return self.is_join and len({input.stream for input in self.inputs}) < len(self.inputs)

    def input_of(self, side: int) -> Input:
        return self.inputs[self.sides[side]]


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Every registered query, in groups; ``sinks`` says where each query's rows go."""

    catalog: Catalog
    groups: tuple[Group, ...]
    sinks: tuple[tuple[QueryId, Options], ...]

    @property
    def queries(self) -> tuple[QueryId, ...]:
        return tuple(query for query, _ in self.sinks)


def share(
    catalog: Catalog, queries: Sequence[Query], tree: str | None = None, trees: Mapping[QueryId, str] | None = None
) -> SharedPlan:
    """The plan that runs all these queries. ``tree``: what joins of its streams run by; ``trees``, by query."""
    names = [query.name for query in queries]
    if len(set(names)) != len(names):
        raise PlanError("two queries have the same name")
    check_shared(queries)
    by_signature: dict[str, list[Canonical]] = {}
    for query in queries:
        member = canonical(catalog, query, tree if trees is None else trees.get(query.name))
        by_signature.setdefault(member.signature, []).append(member)
    groups = tuple(_group(catalog, members) for members in by_signature.values())
    return SharedPlan(catalog, groups, tuple((query.name, query.into) for query in queries))


def _group(catalog: Catalog, members: list[Canonical]) -> Group:
    first = members[0]
    is_pair = first.graph is None and len(first.streams) == 2
    is_self = is_pair and first.streams[0] == first.streams[1] and first.keys[0] == first.keys[1]
    sides = (0, 0) if is_self else tuple(range(len(first.streams)))
    joined = _key_conditions(first)
    form = key_form(first.keys[0]) if joined else KeyForm.EXACT
    verified = joined if form is KeyForm.HASHED else ()
    pushed = [_common(members, side) for side in range(len(sides))]
    if is_self:
        pushed = [tuple(one for one in pushed[0] if one in pushed[1])] * 2
    classes = _classes(members, joined, pushed)
    inputs = tuple(
        _input(
            catalog, first, side, sides, pushed[side], verified, classes, _bounds(members, side, sides, pushed[side])
        )
        for side in sorted({sides.index(i) for i in sides})
    )
    return Group(
        first.signature,
        inputs,
        sides,
        form,
        verified,
        first.measures,
        classes,
        first.graph,
        first.freshness,
        first.tree,
    )


def _key_conditions(canonical: Canonical) -> tuple[Expression, ...]:
    """The key equalities as conditions over the two sides."""
    if canonical.graph is not None or len(canonical.keys) < 2:
        return ()
    pairs = zip(*canonical.keys, strict=True)
    return tuple(Call("=", (on_side(left, 0), on_side(right, 1)), BOOLEAN) for left, right in pairs)


def _common(members: list[Canonical], side: int) -> tuple[Expression, ...]:
    """The one-sided conditions on this side that every member has, in the first member's order."""
    kept = [alone(one) for one in members[0].conditions if sources_of(one) == {side}]
    others = [{alone(one) for one in member.conditions if sources_of(one) == {side}} for member in members[1:]]
    return tuple(one for one in kept if all(one in other for other in others))


def _bounds(
    members: list[Canonical], side: int, sides: tuple[int, ...], pushed: tuple[Expression, ...]
) -> tuple[Bound, ...]:
    """What every member's conditions imply on every side that reads this side's input. (A tree's half-way joins keep
    with joined tuples what these passed, as text alone.)"""
    if members[0].tree is not None or members[0].freshness is not None:
        return ()
    alike = [other for other, index in enumerate(sides) if index == sides[side]]
    readers = [
        [alone(one) for one in member.conditions if sources_of(one) == {other}] for member in members for other in alike
    ]
    return tuple(one for one in common_bounds(readers) if not implies(pushed, told_bounds([one.expression])))


def _classes(
    members: list[Canonical], joined: tuple[Expression, ...], pushed: Sequence[tuple[Expression, ...]]
) -> tuple[OutputClass, ...]:
    below_join = tuple(pushed)
    below = {on_side(one, side) for side, conditions in enumerate(pushed) for one in conditions} | set(joined)
    below |= {_flipped(one) for one in joined}
    found: dict[_ClassKey, list[Canonical]] = {}
    filters: dict[_ClassKey, tuple[Expression, ...]] = {}
    same: dict[Hashable, Any] = {}  # what is equal is one object: a plan is sent to every task, and is as small so
    for member in members:
        kept = tuple(same.setdefault(one, one) for one in member.conditions if one not in below)
        outputs = () if _is_only_counted(member) else same.setdefault(member.outputs, member.outputs)
        key = (frozenset(kept), outputs, *_kept_apart(member))
        filters.setdefault(key, kept)  # in the first member's order, which does not matter
        found.setdefault(key, []).append(member)
    identities = {one.query.name: identity_of(one, delivery_of(one.query.into).value) for one in members}
    return tuple(
        OutputClass(
            below_join,
            filters[key],
            outputs,
            delivery,
            tuple(Member(one.query.name, one.sizes, identities[one.query.name]) for one in some),
            ties,
            None if folded is None else _folding(some, identities),
            is_early=is_early,
        )
        for key, some in found.items()
        for _, outputs, delivery, ties, folded, is_early in [key]
    )


_Folded: TypeAlias = tuple[tuple[Aggregate, ...], tuple[int, ...]]
_KeptApart: TypeAlias = tuple[Delivery, tuple[int, ...], _Folded | None, bool]
_ClassKey: TypeAlias = tuple[frozenset[Expression], tuple[Output, ...], Delivery, tuple[int, ...], _Folded | None, bool]


def _is_only_counted(member: Canonical) -> bool:
    """Whether nobody reads what a result is made of."""
    is_counted = delivery_of(member.query.into) is Delivery.COUNT
    return is_counted and member.grouping is None and not member.query.emits_early


def _kept_apart(member: Canonical) -> _KeptApart:
    """What else queries of one class have in common: how results leave, how ties are broken, what is folded, and
    whether they wait for their turn."""
    if member.grouping is None:
        return delivery_of(member.query.into), member.ties, None, member.query.emits_early
    return Delivery.FOLDED, (), (member.grouping.aggregates, member.offsets), False


def _folding(members: list[Canonical], identities: Mapping[QueryId, str]) -> Folding:
    """What queries that fold the same make of it."""
    first = members[0]
    assert first.grouping is not None
    keys, aggregates = grouping_texts(first)
    filters = [expression_text(one, side_numbers(first)) for one in first.conditions]
    found: dict[tuple[int, Sizes, tuple[Output, ...], Expression | None, bool], list[QueryId]] = {}
    for one in members:
        assert one.grouping is not None
        is_counted = delivery_of(one.query.into) is Delivery.COUNT
        final = (one.window_us, one.sizes, one.query.outputs, one.grouping.having, is_counted)
        found.setdefault(final, []).append(one.query.name)
    return Folding(
        first.grouping.keys,
        first.grouping.aggregates,
        first.offsets,
        folding_identity(filters, keys, aggregates, first.offsets),
        tuple(
            Final(*final, tuple(queries), tuple(identities[query] for query in queries))
            for final, queries in found.items()
        ),
    )


def _flipped(equality: Expression) -> Expression:
    assert isinstance(equality, Call)
    return Call("=", equality.args[::-1], equality.type)


def delivery_of(into: Options) -> Delivery:
    options = dict(into)
    if options.get("connector") == "count":
        return Delivery.COUNT
    return Delivery.SHARED if "shared" in options else Delivery.ROWS


def _input(
    catalog: Catalog,
    first: Canonical,
    side: int,
    sides: tuple[int, ...],
    pushed: tuple[Expression, ...],
    verified: tuple[Expression, ...],
    classes: tuple[OutputClass, ...],
    bounds: tuple[Bound, ...],
) -> Input:
    """The input behind ``side``: it carries what any class reads from any side that shares it."""
    stream = catalog.get(first.streams[side])
    reading = {other for other, index in enumerate(sides) if index == sides[side]}
    joining = first.graph.predicates if first.graph else verified
    read = [*joining, *(one for cls in classes for one in (*cls.filters, *(out.expression for out in cls.outputs)))]
    needed = {ref.name for one in read for ref in columns_of(one) if ref.source in reading} | {stream.time}
    schema = Schema(tuple(column for column in stream.schema if column.name in needed))
    indexes = first.graph.indexes[side] if first.graph else ()
    return Input(stream.name, stream.time, first.keys[side] if first.keys else (), pushed, schema, indexes, bounds)
