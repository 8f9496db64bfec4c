"""A slice of matches as many classes of queries see it: every column, condition and index is worked out once.

      positions          0   1   2   3   4        matches, in result order
      b.value           7.0 2.0 9.0 4.0 9.0
      index by value     1   3   0   2   4        `b.value > 5` is the end of it: 0 2 4, a class's rows in order
                              \\-- those of a window, in the same order: what a class with that window looks through

Owns: :class:`Slice`, :class:`SortedIndex`, and what classes ask of them (:class:`Check`). Invariant: positions rise, so
that what is picked stays in result order. Cost: an index takes a sort of the slice, once; a class that is served by one
costs in proportion to the rows it gets, two searches besides. Conditions and columns are first worked out for the rows
that are asked for, and for the whole slice once more than that has been asked for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.arrow_types import arrow_type
from headrace.engine.evaluate import evaluate, filter_mask
from headrace.engine.keys import Int64s
from headrace.engine.spaces import Matches, Space
from headrace.model import TypeKind
from headrace.plan.canonical import Sizes
from headrace.plan.expressions import Call, ColumnRef, Expression, Literal

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_NUMBERS = (TypeKind.INT, TypeKind.BIGINT, TypeKind.DOUBLE, TypeKind.TIMESTAMP, TypeKind.DATE)
_SORTED = (*_NUMBERS, TypeKind.STRING, TypeKind.DECIMAL)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition ``expression function bound``; the bound is a number as NumPy has it, or a Python value."""

    expression: Expression
    function: str
    bound: Any

    @staticmethod
    def of(condition: Expression) -> Comparison | None:
        """The condition as a comparison that an index can answer; None if it is not one."""
        if not (isinstance(condition, Call) and condition.function in _MIRRORED):
            return None
        (left, right), function = condition.args, condition.function
        if isinstance(left, Literal):
            left, right, function = right, left, _MIRRORED[function]
        if isinstance(left, Literal) or not isinstance(right, Literal) or right.value is None:
            return None
        if left.type != right.type or left.type.kind not in _SORTED:
            return None
        return Comparison(left, function, _bound(right))


@dataclass(frozen=True, slots=True)
class Range:
    """Comparisons of one indexed expression, by its number."""

    indexed: int
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """What is left to ask of a class's matches: ranges of indexes, and other conditions, by number."""

    ranges: tuple[Range, ...]
    conditions: tuple[int, ...]


@dataclass(slots=True)
class Hull:
    """Bounds that all ranges of an expression are within, as far as there are any: alerts ask for a small part of the
    values, and only that part need be sorted. Told of every range before an index is made."""

    low: Any = None
    high: Any = None
    is_told: bool = False

    def tell(self, comparisons: Iterable[Comparison]) -> None:
        told = list(comparisons)
        lows = [one.bound for one in told if one.function in (">", ">=", "=")]
        highs = [one.bound for one in told if one.function in ("<", "<=", "=") and one.bound == one.bound]
        low = max((one for one in lows if one == one), default=None)  # NaN, above all, is within any lower bound
        high = min(highs, default=None)
        if not self.is_told:
            self.low, self.high, self.is_told = low, high, True
        else:
            self.low = None if low is None or self.low is None else min(low, self.low)
            self.high = None if high is None or self.high is None else max(high, self.high)

    def positions(self, numbers: np.ndarray) -> np.ndarray | None:
        """Where the numbers are within the bounds, or NaN; None: everywhere."""
        if self.low is None and self.high is None:
            return None
        outside = np.zeros(len(numbers), dtype=bool) if self.low is None else numbers < self.low
        if self.high is not None:
            outside |= numbers > self.high
        return np.flatnonzero(~outside)


@dataclass(frozen=True, slots=True)
class SortedIndex:
    """Positions in the order of an expression's values, as far as its hull goes; where it is NULL there is none. NaN is
    above all numbers, as in every comparison of ours, because NumPy sorts it so too."""

    order: Int64s
    values: np.ndarray | pa.Array

    @staticmethod
    def over(values: pa.Array, kind: TypeKind, hull: Hull) -> SortedIndex:
        """The index of those values that somebody may ask for."""
        places = np.flatnonzero(values.is_valid()) if values.null_count else None
        present = values.drop_null() if values.null_count else values
        if kind in _NUMBERS:
            numbers = _numbers(present)
            inside = hull.positions(numbers)
            if inside is not None:
                numbers, places = numbers[inside], inside if places is None else places[inside]
            order = np.argsort(numbers)
            return SortedIndex(_placed(order, places), numbers[order])
        order = pc.array_sort_indices(present).to_numpy()
        return SortedIndex(_placed(order, places), present.take(pa.array(order)))

    def ranks(self, rows: int) -> Int64s:
        """Each position's place in the index; -1 where it has none."""
        places: Int64s = np.full(rows, -1, dtype=np.int32)
        places[self.order] = np.arange(len(self.order), dtype=np.int32)
        return places

    def span(self, comparisons: Iterable[Comparison]) -> tuple[int, int]:
        """Where the positions begin and end for which all the comparisons hold."""
        begin, end = 0, len(self.order)
        for one in comparisons:
            if one.function in ("=", ">="):
                begin = max(begin, self._before(one.bound))
            elif one.function == ">":
                begin = max(begin, self._upto(one.bound))
            if one.function in ("=", "<="):
                end = min(end, self._upto(one.bound))
            elif one.function == "<":
                end = min(end, self._before(one.bound))
        return begin, max(begin, end)

    def _before(self, bound: Any) -> int:
        if isinstance(self.values, pa.Array):
            return bisect_left(range(len(self.values)), bound, key=self._value)
        return int(self.values.searchsorted(bound, side="left"))

    def _upto(self, bound: Any) -> int:
        if isinstance(self.values, pa.Array):
            return bisect_right(range(len(self.values)), bound, key=self._value)
        return int(self.values.searchsorted(bound, side="right"))

    def _value(self, position: int) -> Any:
        return self.values[position].as_py()


@dataclass(frozen=True, slots=True)
class WindowIndex:
    """Those positions of an index that are in a window; ``before``: how many of them precede each place in it."""

    order: Int64s
    before: Int64s

    @staticmethod
    def of(index: SortedIndex, mask: np.ndarray) -> WindowIndex:
        keep = mask[index.order]
        return WindowIndex(index.order[keep], np.concatenate([[0], np.cumsum(keep)]))


def _placed(order: np.ndarray, places: np.ndarray | None) -> Int64s:
    found: Int64s = (order if places is None else places[order]).astype(np.int32)
    return found


def _bound(literal: Literal) -> Any:
    """A literal as it compares with an index's values; of their very type, so that NumPy need not convert them all."""
    if literal.type.kind is TypeKind.DOUBLE:
        return np.float64(literal.value)  # type: ignore[arg-type]
    if literal.type.kind in _NUMBERS:
        return _numbers(pa.array([literal.value], arrow_type(literal.type)))[0]
    return literal.value


def _numbers(values: pa.Array) -> np.ndarray:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    numbers: np.ndarray = values.to_numpy(zero_copy_only=False)
    return numbers


class Slice:
    """Matches, and what has been worked out about them. ``conditions`` and ``indexed``: the expressions behind the
    numbers in a :class:`Check`."""

    def __init__(
        self,
        matches: Matches,
        spaces: Sequence[Space],
        conditions: Sequence[Expression],
        indexed: Sequence[tuple[Expression, Hull]],
    ) -> None:
        self.matches = matches
        self.everything: Int64s = np.arange(len(matches), dtype=np.int32)
        self._spaces = spaces
        self._conditions = conditions
        self._indexed = indexed
        self._columns: dict[tuple[int, str], pa.Array] = {}
        self._masks: dict[int, np.ndarray] = {}
        self._asked: dict[int | tuple[int, str], int] = {}
        self._within: dict[Sizes, tuple[np.ndarray, Int64s]] = {}
        self._indexes: dict[int, SortedIndex] = {}
        self._ranks: dict[int, Int64s] = {}
        self._window_indexes: dict[tuple[int, Sizes], WindowIndex] = {}

    def passing(self, check: Check, sizes: Sizes) -> Int64s:
        """The positions of the matches in that window that pass the check."""
        positions = self.within(sizes)
        if not len(positions):
            return positions
        if check.ranges:
            positions = self._ranged(check.ranges, sizes)
        for number in check.conditions:
            if not len(positions):
                break
            positions = self._holding(number, positions)
        return positions

    def _ranged(self, ranges: Sequence[Range], sizes: Sizes) -> Int64s:
        """The positions in a window that all these ranges have: the shortest range is looked through."""
        spans = [(one.indexed, *self._index(one.indexed).span(one.comparisons)) for one in ranges]
        cuts = [self._cut(indexed, begin, end, sizes) for indexed, begin, end in spans]
        shortest = min(range(len(cuts)), key=lambda number: len(cuts[number]))
        positions: Int64s = np.sort(cuts[shortest])
        for number, (indexed, begin, end) in enumerate(spans):
            if number != shortest and len(positions):
                ranks = self._ranks_of(indexed)[positions]
                positions = positions[(ranks >= begin) & (ranks < end)]
        return positions

    def _cut(self, indexed: int, begin: int, end: int, sizes: Sizes) -> Int64s:
        """A range of an index, of only the positions in a window."""
        index = self._index(indexed)
        if self.within(sizes) is self.everything:
            return index.order[begin:end]
        place = (indexed, sizes)
        if place not in self._window_indexes:
            self._window_indexes[place] = WindowIndex.of(index, self._window(sizes)[0])
        windowed = self._window_indexes[place]
        return windowed.order[windowed.before[begin] : windowed.before[end]]

    def within(self, sizes: Sizes) -> Int64s:
        """The positions of the matches in a window."""
        if self.matches.ages is None:
            return self.everything
        return self._window(sizes)[1]

    def _window(self, sizes: Sizes) -> tuple[np.ndarray, Int64s]:
        if sizes not in self._within:
            mask = self.matches.in_window(sizes)
            positions: Int64s = np.flatnonzero(mask).astype(np.int32)
            self._within[sizes] = (mask, self.everything if mask.all() else positions)
        return self._within[sizes]

    def _index(self, number: int) -> SortedIndex:
        if number not in self._indexes:
            expression, hull = self._indexed[number]
            values = _whole(evaluate(expression, self.column, len(self.matches)))
            self._indexes[number] = SortedIndex.over(values, expression.type.kind, hull)
        return self._indexes[number]

    def _ranks_of(self, number: int) -> Int64s:
        if number not in self._ranks:
            self._ranks[number] = self._index(number).ranks(len(self.matches))
        return self._ranks[number]

    def _holding(self, number: int, positions: Int64s) -> Int64s:
        """Those of the positions at which a condition holds."""
        if number not in self._masks and self._is_worth_all(number, positions):
            self._masks[number] = self._mask(number, self.column, len(self.matches))
        mask = self._masks.get(number)
        keep = self._mask(number, self.reader(positions), len(positions)) if mask is None else mask[positions]
        kept: Int64s = positions[keep]
        return kept

    def _mask(self, number: int, columns: Callable[[ColumnRef], pa.Array], rows: int) -> np.ndarray:
        mask = filter_mask((self._conditions[number],), columns, rows)
        return np.ones(rows, dtype=bool) if mask is None else np.asarray(mask)

    def _is_worth_all(self, place: int | tuple[int, str], positions: Int64s) -> bool:
        """Whether as much has been asked for, with these, as there is."""
        self._asked[place] = self._asked.get(place, 0) + len(positions)
        return self._asked[place] > len(self.matches) or positions is self.everything

    def column(self, ref: ColumnRef) -> pa.Array:
        """A column at all positions."""
        place = (ref.source, ref.name)
        if place not in self._columns:
            self._columns[place] = self._gathered(ref, self.everything)
        return self._columns[place]

    def reader(self, positions: Int64s) -> Callable[[ColumnRef], pa.Array]:
        """Columns at these positions, each picked once."""
        picked: dict[tuple[int, str], pa.Array] = {}

        def column(ref: ColumnRef) -> pa.Array:
            place = (ref.source, ref.name)
            if place not in picked:
                picked[place] = self._picked(ref, positions)
            return picked[place]

        return column

    def _picked(self, ref: ColumnRef, positions: Int64s) -> pa.Array:
        place = (ref.source, ref.name)
        if place in self._columns or self._is_worth_all(place, positions):
            whole = self.column(ref)
            return whole if positions is self.everything else whole.take(pa.array(positions))
        return self._gathered(ref, positions)

    def _gathered(self, ref: ColumnRef, positions: Int64s) -> pa.Array:
        addresses = self.matches.sides[ref.source]
        some = addresses if positions is self.everything else addresses[positions]
        return self._spaces[ref.source].column(ref.name, arrow_type(ref.type), some)


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
