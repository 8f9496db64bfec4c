"""The join predicates of a group as a graph: what its streams have in common, and what each can be searched by.

      a.x = b.x AND b.y = c.y AND c.v < a.v          classes  {a.x, b.x}  {b.y, c.y}        ranges  c.v < a.v
                                                     a is searched by x and v, b by x and y, c by y and v

Owns :class:`JoinGraph` and how conditions become one. An attribute class is a set of expressions that the equalities
make equal, one a side; classes of the same sides are one class with a composite key. A comparison that can be solved
for a side is a range (``ranges.py``): that side can be searched by it once the others are bound. Whatever an index does
not guarantee stays a predicate, checked as soon as all of its sides are bound.

Invariants: expressions are over the group's sides; an index's expressions are over one side, written as source 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from headrace.model import BOOLEAN, StreamId, TypeKind
from headrace.plan.expressions import Call, ColumnRef, Expression, render, rewrite, sources_of
from headrace.plan.ranges import MIRRORED, Range, ranges_of


class KeyForm(Enum):
    """How a join key becomes the 64-bit number that segments are sorted by."""

    EXACT = "exact"
    """The value itself: equal numbers are equal keys."""
    HASHED = "hashed"
    """A hash: matches are compared once more by value."""
    ORDERED = "ordered"
    """A number that is not smaller where the value is larger: what ranges are searched by."""


_EXACT = (TypeKind.BOOLEAN, TypeKind.INT, TypeKind.BIGINT, TypeKind.TIMESTAMP, TypeKind.DATE, TypeKind.DOUBLE)


def key_form(key: Sequence[Expression]) -> KeyForm:
    return KeyForm.EXACT if len(key) == 1 and key[0].type.kind in _EXACT else KeyForm.HASHED


@dataclass(frozen=True, slots=True)
class Index:
    """What rows of a side are sorted by: the number of its keys, then time."""

    keys: tuple[Expression, ...]
    form: KeyForm


@dataclass(frozen=True, slots=True)
class AttributeClass:
    """Sides with equal keys; ``indexes`` says which of each side's indexes has them, in the order of ``sides``."""

    sides: tuple[int, ...]
    keys: tuple[tuple[Expression, ...], ...]
    form: KeyForm
    indexes: tuple[int, ...]

    def index_of(self, side: int) -> int:
        return self.indexes[self.sides.index(side)]


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """The predicates between the sides of a multi-way join."""

    streams: tuple[StreamId, ...]
    classes: tuple[AttributeClass, ...]
    ranges: tuple[Range, ...]
    predicates: tuple[Expression, ...]
    """What is left to check, each as soon as its sides are bound."""
    indexes: tuple[tuple[Index, ...], ...]
    """By side; the first is the order of its rows, a side without any is in time order."""
    others: tuple[Expression, ...]
    """The conditions that made no class, in an order and direction of their own."""

    @property
    def sides(self) -> range:
        return range(len(self.streams))

    @property
    def common(self) -> AttributeClass | None:
        """The class that all sides are in, where there is one."""
        return next((one for one in self.classes if len(one.sides) == len(self.streams)), None)

    @property
    def is_product(self) -> bool:
        """Whether a new tuple's partners on one side do not depend on those on another: one key, and nothing else."""
        alone = not self.predicates and len(self.classes) == 1 and not self.repeats_streams
        return alone and self.common is not None

    @property
    def repeats_streams(self) -> bool:
        return len(set(self.streams)) < len(self.streams)

    @property
    def numbers_tuples(self) -> bool:
        """Whether only numbers tell which of two tuples of a side at one time came first: its rows need not be in
        arrival order where a probe finds partners with different keys, or a stream is there twice."""
        by_key = self.common is not None and all(len(one) == 1 for one in self.indexes)
        by_time = not any(self.indexes)
        return self.repeats_streams or not (by_key or by_time)


def join_graph(streams: Sequence[StreamId], conditions: Sequence[Expression]) -> JoinGraph:
    """The graph of conditions that read more than one side; the same whatever their order and direction."""
    conditions = sorted({_directed(one) for one in conditions}, key=_side_text)
    classes, left = _classes(conditions)
    indexes: list[list[Index]] = [[] for _ in streams]
    placed = []
    for sides, keys in classes:
        form = key_form(keys[0])
        numbers = tuple(_place(indexes[side], Index(key, form)) for side, key in zip(sides, keys, strict=True))
        placed.append(AttributeClass(sides, keys, form, numbers))
    ranges = tuple(_placed_ranges(left, placed, indexes))
    verified = [_equality(one, pair) for one in placed if one.form is KeyForm.HASHED for pair in _neighbours(one)]
    return JoinGraph(
        tuple(streams),
        tuple(placed),
        ranges,
        (*(condition for pairs in verified for condition in pairs), *left),
        tuple(tuple(one) for one in indexes),
        tuple(left),
    )


def graph_text(graph: JoinGraph, names: Sequence[str]) -> str:
    """The predicates: the same text for all ways to write them."""
    classes = [
        " = ".join(key_text(names[side], key) for side, key in zip(one.sides, one.keys, strict=True))
        for one in graph.classes
    ]
    others = sorted(render(one, lambda ref: f"{names[ref.source]}.{ref.name}") for one in graph.others)
    return " AND ".join([*classes, *others])


def key_text(name: str, key: Sequence[Expression]) -> str:
    return f"{name}({', '.join(map(_text, key))})"


def _directed(condition: Expression) -> Expression:
    """A comparison written one way: the smaller on the left, of an equality the one whose text comes first."""
    if not (isinstance(condition, Call) and condition.function in MIRRORED):
        return condition
    left, right = condition.args
    is_mirrored = condition.function in (">", ">=")
    if condition.function == "=":
        is_mirrored = _side_text(left) > _side_text(right)
    return Call(MIRRORED[condition.function], (right, left), condition.type) if is_mirrored else condition


# --- attribute classes

Node = tuple[int, Expression]


def _classes(
    conditions: Sequence[Expression],
) -> tuple[list[tuple[tuple[int, ...], tuple[tuple[Expression, ...], ...]]], list[Expression]]:
    """(sides, their keys) of each class, the class of most sides first; and the conditions that made none."""
    found: list[dict[int, Expression]] = []
    left: list[Expression] = []
    for condition in conditions:
        pair = _equal_nodes(condition)
        if pair is None or not _unite(found, pair):
            left.append(condition)
    together: dict[tuple[int, ...], list[dict[int, Expression]]] = {}
    for one in found:
        together.setdefault(tuple(sorted(one)), []).append(one)
    classes = []
    for members, some in together.items():
        some.sort(key=lambda one: [_text(one[side]) for side in members])
        classes.append((members, tuple(tuple(one[side] for one in some) for side in members)))
    classes.sort(key=lambda one: (-len(one[0]), one[0]))
    return classes, left


def _equal_nodes(condition: Expression) -> tuple[Node, Node] | None:
    """The two one-sided expressions that an equality compares, as their sides see them."""
    if not (isinstance(condition, Call) and condition.function == "="):
        return None
    left, right = condition.args
    sources = (sources_of(left), sources_of(right))
    if len(sources[0]) != 1 or len(sources[1]) != 1 or sources[0] == sources[1]:
        return None
    return (next(iter(sources[0])), alone(left)), (next(iter(sources[1])), alone(right))


def _unite(classes: list[dict[int, Expression]], pair: tuple[Node, Node]) -> bool:
    """Puts an equality into the classes; not where a side would be in one class with two expressions."""
    mine = [one for one in classes if any(one.get(side) == expression for side, expression in pair)]
    merged: dict[int, Expression] = dict(pair)
    for one in mine:
        if any(merged.get(side, expression) != expression for side, expression in one.items()):
            return False
        merged |= one
    for one in mine:
        classes.remove(one)
    classes.append(merged)
    return True


def _neighbours(one: AttributeClass) -> Iterable[tuple[int, int]]:
    return pairwise(range(len(one.sides)))


def _equality(one: AttributeClass, pair: tuple[int, int]) -> list[Expression]:
    """The equalities of two sides' keys as conditions."""
    first, second = pair
    keys = zip(one.keys[first], one.keys[second], strict=True)
    sides = (one.sides[first], one.sides[second])
    return [Call("=", (on_side(left, sides[0]), on_side(right, sides[1])), BOOLEAN) for left, right in keys]


# --- ranges


def _placed_ranges(
    conditions: Sequence[Expression], classes: Sequence[AttributeClass], indexes: list[list[Index]]
) -> Iterable[Range]:
    """The ranges that a search can use, and their indexes: those of two sides first. Where a side has an equality with
    one that a range is bounded by, it is found by that."""
    for condition in sorted(conditions, key=lambda one: len(sources_of(one))):
        for indexed, found in ranges_of(condition):
            linked = {other for one in classes if found.side in one.sides for other in one.sides}
            if not linked & found.bound_sides:
                index = _place(indexes[found.side], Index((alone(indexed),), KeyForm.ORDERED))
                yield replace(found, index=index)


def _place(indexes: list[Index], index: Index) -> int:
    """The index's number among a side's; a new one comes last."""
    if index not in indexes:
        indexes.append(index)
    return indexes.index(index)


# --- expressions


def alone(expression: Expression) -> Expression:
    """An expression over one stream, as that stream sees it: source 0."""
    return rewrite(expression, lambda ref: ColumnRef(0, ref.name, ref.type))


def on_side(expression: Expression, side: int) -> Expression:
    return rewrite(expression, lambda ref: ColumnRef(side, ref.name, ref.type))


def _side_text(expression: Expression) -> str:
    return render(expression, lambda ref: f"{ref.source}.{ref.name}")


def _text(expression: Expression) -> str:
    return render(expression, lambda ref: ref.name)
