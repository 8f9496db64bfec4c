"""The states of a tree of joins: a stream's tuples, or joined tuples that are kept in between (paper 001).

      state of a stream    |-----run 1-----|--run 2--|--new--|      rows as they are, searched by their indexes
      state in between     |-----run 1-----|--run 2--|--new--|      rows "0:k", "0:ts", "2:name", ...: side and column

A joined tuple stands where its newest tuple does, and may be in a result with any newer tuple up to ``until``: the
first time at which one of its tuples is out of its window. Rows in between are sorted by (key, until), so that those
a new tuple can still meet are one contiguous range of their key.

      a (window 5)      x                      until = min(1 + 5, 4 + 9) = 6
      b (window 9)            y
                  0  1  2  3  4  5  6  7

Owns: :class:`Relation` with its two kinds, and :class:`SideView`, which shows one side of joined rows as the space of
that side. Invariants: all rows have what their collection says; new rows have ranks, held ones come before all of them.
Cost: a column is gathered at the addresses asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from headrace.engine.keys import Int64s
from headrace.engine.segments import NUMBER, PLACE, IndexView, Layout, Segment, seen_column
from headrace.engine.spaces import NewRows, Space
from headrace.engine.window import Collected, Run
from headrace.plan.joingraph import AttributeClass
from headrace.plan.queries import Measure
from headrace.plan.trees import Sides

CAME = "__came"
"""The column that holds when a tuple arrived."""
UNTIL = "__until"
"""The column that holds how long a joined tuple can be met; in what windows in between are measured in."""
NEWEST = "__newest"
"""The column that holds the side of a joined tuple's newest tuple."""
NEWEST_US = "__newest_us"
"""The column that holds the time of it."""
FRESH = "__fresh"
"""The column that holds until when a joined tuple's tuples are all fresh."""
ALWAYS = 2**62
"""A time that never comes."""

JOINED_LAYOUT = Layout(UNTIL)


def class_column(number: int) -> str:
    """The column that holds the number of an attribute class's key."""
    return f"__class{number}"


def side_column(side: int, name: str) -> str:
    """What a side's column is called in joined rows."""
    return f"{side}:{name}"


def joined_collection(collections: Mapping[int, Collected]) -> Collected:
    """How joined tuples are collected whose tuples are."""
    columns = [side_column(side, name) for side, one in collections.items() for name in one.columns]
    pushed = [side_column(side, text) for side, one in collections.items() for text in one.pushed]
    return Collected(tuple(columns), tuple(pushed))


@lru_cache(maxsize=256)
def collection_of(joined: Collected, side: int) -> Collected:
    """How one side's tuples in joined ones were collected."""
    mark = side_column(side, "")
    columns = tuple(one.removeprefix(mark) for one in joined.columns if one.startswith(mark))
    return Collected(columns, tuple(one.removeprefix(mark) for one in joined.pushed if one.startswith(mark)))


@dataclass(frozen=True, slots=True)
class SideFacts:
    """What a side's tuples are subject to: how far back it is looked at, and how long they are fresh."""

    side: int
    position: int
    time: str
    measure: Measure
    reach: int
    fresh: int

    @property
    def fresh_us(self) -> int:
        """How long after its arrival a tuple is fresh, where that is a time."""
        return self.fresh if self.measure is Measure.TIME else ALWAYS


@dataclass(frozen=True, slots=True)
class Piece:
    """A segment of a state, with its first address, the times of its clock (None: not known), and its rows' ranks if
    they are new."""

    segment: Segment
    base: int
    span: tuple[int, int] | None
    ranks: Int64s | None


class Relation(ABC):
    """The rows of a state, held and new, under one address each."""

    space: Space
    sides: Sides

    @property
    @abstractmethod
    def pieces(self) -> list[Piece]:
        """The segments, the oldest first, the new ones last."""

    @abstractmethod
    def view(self, side: int) -> Space:
        """One side of the rows, under the same addresses."""

    @abstractmethod
    def index(self, segment: Segment, of: AttributeClass | None) -> IndexView:
        """A segment's rows by the keys of a class; without one, in an order of time if they are in any."""

    @abstractmethod
    def class_numbers(self, number: int, of: AttributeClass, addresses: Int64s) -> Int64s:
        """The numbers of the keys of a class."""

    @abstractmethod
    def newest_us(self, addresses: Int64s) -> Int64s:
        """The time of each row's newest tuple."""

    @abstractmethod
    def newest_side(self, addresses: Int64s) -> np.ndarray:
        """The side of each row's newest tuple."""

    @abstractmethod
    def until(self, addresses: Int64s) -> Int64s:
        """How long each row can be met."""

    @abstractmethod
    def fresh_us(self, addresses: Int64s) -> Int64s:
        """Until when each row is fresh."""

    @property
    def new_addresses(self) -> tuple[Int64s, Int64s]:
        """The new rows, and their ranks."""
        none = np.empty(0, dtype=np.int64)
        new = [(one.base + np.arange(one.segment.rows), one.ranks) for one in self.pieces if one.ranks is not None]
        addresses, ranks = zip((none, none), *new, strict=True)
        return np.concatenate(addresses), np.concatenate(ranks)

    @property
    def held_rows(self) -> int:
        return sum(one.segment.rows for one in self.pieces if one.ranks is None)

    def seen(self, input: int, addresses: Int64s) -> Int64s:
        """How many tuples of an input's whole stream are before each row's newest tuple."""
        newest = self.newest_side(addresses)
        found = np.zeros(len(addresses), dtype=np.int64)
        for side in self.sides:
            mine = np.flatnonzero(newest == side)
            if len(mine) and side != input:
                found[mine] = self.view(side).column(seen_column(input), pa.int64(), addresses[mine]).to_numpy()
        return found

    def places(self, side: int, addresses: Int64s) -> Int64s:
        """A side's tuples' places in their whole stream."""
        values: Int64s = self.view(side).column(PLACE, pa.int64(), addresses).to_numpy()
        return values

    def kinds(self, addresses: Int64s) -> tuple[list[dict[int, Collected]], Int64s]:
        """The ways that rows are collected, by side, and which of them each row has."""
        distinct = list(dict.fromkeys(self.space.collections))
        codes = np.array([distinct.index(one) for one in self.space.collections])
        return [self._by_side(one) for one in distinct], codes[self.space.which(addresses)]

    @abstractmethod
    def _by_side(self, collected: Collected) -> dict[int, Collected]: ...


class StreamRelation(Relation):
    """A stream's tuples."""

    def __init__(self, space: Space, facts: SideFacts) -> None:
        self.space = space
        self.sides = (facts.side,)
        self._facts = facts

    @property
    def pieces(self) -> list[Piece]:
        in_time = self._facts.measure is Measure.TIME
        held = [
            Piece(run.segment, int(base), run.span_us if in_time else None, None)
            for run, base in zip(self.space.runs, self.space.bases, strict=False)
        ]
        new = self.space.new
        if new is None:
            return held
        span = (new.segment.min_us, new.segment.max_us) if in_time else None
        return [*held, Piece(new.segment, self.space.new_base, span, new.ranks)]

    def view(self, side: int) -> Space:  # noqa: ARG002
        return self.space

    def index(self, segment: Segment, of: AttributeClass | None) -> IndexView:
        return segment.index(0 if of is None else of.index_of(self._facts.side))

    def class_numbers(self, number: int, of: AttributeClass, addresses: Int64s) -> Int64s:  # noqa: ARG002
        return self.space.key_numbers(of.index_of(self._facts.side), addresses)

    def newest_us(self, addresses: Int64s) -> Int64s:
        return self.space.times(addresses)

    def newest_side(self, addresses: Int64s) -> np.ndarray:
        return np.full(len(addresses), self._facts.side, dtype=np.int8)

    def until(self, addresses: Int64s) -> Int64s:
        if self._facts.measure is Measure.ROWS:
            return np.full(len(addresses), ALWAYS)
        return self.space.times(addresses) + self._facts.reach

    def fresh_us(self, addresses: Int64s) -> Int64s:
        if self._facts.measure is Measure.ROWS:
            return np.full(len(addresses), ALWAYS)
        came: Int64s = self.space.column(CAME, pa.int64(), addresses).to_numpy()
        return came + self._facts.fresh_us

    def _by_side(self, collected: Collected) -> dict[int, Collected]:
        return {self._facts.side: collected}


class JoinedRelation(Relation):
    """Joined tuples: what a state in between holds, and the new ones of a block."""

    def __init__(
        self, sides: Sides, held: Sequence[Run], new: Sequence[NewRows], facts: Sequence[SideFacts], *, is_aged: bool
    ) -> None:
        fresh = [Run("", (), one.collected, one.segment) for one in new]
        self.sides = sides
        self.space = Space([*held, *fresh], None, JOINED_LAYOUT)
        self._held = tuple(held)
        self._new = tuple(new)
        self._facts = facts
        self._is_aged = is_aged
        self._views: dict[int, SideView] = {}

    @property
    def new(self) -> tuple[NewRows, ...]:
        return self._new

    @property
    def pieces(self) -> list[Piece]:
        bases = [int(base) for base in self.space.bases]
        held = [Piece(run.segment, base, run.span_us, None) for run, base in zip(self._held, bases, strict=False)]
        new = [
            Piece(one.segment, base, (one.segment.min_us, one.segment.max_us), one.ranks)
            for one, base in zip(self._new, bases[len(self._held) :], strict=False)
        ]
        return [*held, *new]

    def view(self, side: int) -> SideView:
        if side not in self._views:
            self._views[side] = SideView(self.space, self._facts[side])
        return self._views[side]

    def index(self, segment: Segment, of: AttributeClass | None) -> IndexView:  # noqa: ARG002
        return IndexView(segment.keys)

    def class_numbers(self, number: int, of: AttributeClass, addresses: Int64s) -> Int64s:  # noqa: ARG002
        return self._numbers(class_column(number), addresses)

    def newest_us(self, addresses: Int64s) -> Int64s:
        return self._numbers(NEWEST_US, addresses)

    def newest_side(self, addresses: Int64s) -> np.ndarray:
        values: np.ndarray = self.space.column(NEWEST, pa.int8(), addresses).to_numpy()
        return values

    def until(self, addresses: Int64s) -> Int64s:
        return self._numbers(UNTIL, addresses) if self._is_aged else np.full(len(addresses), ALWAYS)

    def fresh_us(self, addresses: Int64s) -> Int64s:
        return self._numbers(FRESH, addresses)

    def _numbers(self, name: str, addresses: Int64s) -> Int64s:
        values: Int64s = self.space.column(name, pa.int64(), addresses).to_numpy()
        return values

    def _by_side(self, collected: Collected) -> dict[int, Collected]:
        return {side: collection_of(collected, side) for side in self.sides}


class SideView(Space):
    """One side of joined rows, as the space of that side: its tuples are there as often as they were joined."""

    def __init__(self, rows: Space, facts: SideFacts) -> None:
        super().__init__(rows.runs, None, Layout(facts.time), facts.side, facts.position)
        self._side = facts.side

    def column(self, name: str, kind: pa.DataType, addresses: Int64s) -> pa.Array:
        return super().column(side_column(self._side, name), kind, addresses)

    @property
    def is_numbered(self) -> bool:
        return True

    def _ranked(self, addresses: Int64s) -> Int64s:
        """Equal for one tuple, wherever it is."""
        numbers, ts_us = self.numbers(addresses), self.times(addresses)
        order = np.lexsort((numbers, ts_us))
        is_other = np.ones(len(order), dtype=bool)
        is_other[1:] = (np.diff(numbers[order]) != 0) | (np.diff(ts_us[order]) != 0)
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.cumsum(is_other) - 1
        return ranks

    @property
    def collections(self) -> tuple[Collected, ...]:
        return tuple(collection_of(one, self._side) for one in super().collections)


def carried_columns(relation: Relation, side: int, collected: Collected) -> Iterator[tuple[str, str, pa.DataType]]:
    """What of a side's tuples goes into joined ones: (name in its view, name in joined rows, type)."""
    view = relation.view(side)
    schema = next(batch.schema for batch, one in zip(view.batches, view.collections, strict=True) if one == collected)
    is_joined = isinstance(view, SideView)
    for field in schema:
        name = field.name.removeprefix(side_column(side, "")) if is_joined else field.name
        if is_joined and name == field.name:
            continue
        if name in collected.columns or name in (NUMBER, PLACE, CAME) or name.startswith(_SEEN):
            yield name, side_column(side, name), field.type


_SEEN = seen_column(0).removesuffix("0")
