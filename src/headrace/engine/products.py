"""Multi-way joins on one key and nothing else: a new tuple's results are all combinations of its partners on each side.

      new k      side b: y1 y2       side c: z1 z2 z3           2 x 3 results, in order, from two ranges:
                                                                (y1,z1) (y1,z2) (y1,z3) (y2,z1) ...

Owns: :class:`ProductScan` (one side's new tuples against all others) and ``merged_products``. The order of the sides
only decides how early a tuple without partners is let go. Cost: O(new tuples x runs x log run) to search, O(results) to
expand, nothing to sort; counting expands nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.engine.keys import Int64s
from headrace.engine.matching import expand_ranges
from headrace.engine.segments import IndexView, Segment
from headrace.engine.spaces import KeySearch, Matches, Space
from headrace.engine.walking import cut_range
from headrace.plan.queries import Measure


@dataclass(frozen=True, slots=True)
class Ranges:
    """For each new tuple (row) and piece of a side (column) a range of addresses."""

    starts: Int64s
    lengths: Int64s

    @property
    def totals(self) -> Int64s:
        totals: Int64s = self.lengths.sum(axis=1)
        return totals

    def where(self, keep: np.ndarray | slice) -> Ranges:
        return Ranges(self.starts[keep], self.lengths[keep])


@dataclass(frozen=True, slots=True)
class Product:
    """The new tuples of one side that have partners everywhere, by rank; ``ranges`` by side, None for their own."""

    origin: int
    ranks: Int64s
    own: Int64s
    ranges: tuple[Ranges | None, ...]

    @property
    def counts(self) -> Int64s:
        counts = np.ones(len(self.ranks), dtype=np.int64)
        for one in self.ranges:
            if one is not None:
                counts *= one.totals
        return counts

    def expanded(self, some: slice) -> Matches:
        """All results of some of the tuples, in order: the last side runs fastest."""
        ranges = [None if one is None else one.where(some) for one in self.ranges]
        counts = self.counts[some]
        probe = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(probe)) - np.repeat(np.cumsum(counts) - counts, counts)
        sides: list[Int64s] = [self.own[some][probe]] * len(ranges)
        for side in reversed(range(len(ranges))):
            mine = ranges[side]
            if mine is not None:
                partners = expand_ranges(mine.starts.ravel(), mine.lengths.ravel())
                totals = mine.totals
                within, digit = np.divmod(within, totals[probe])
                sides[side] = partners[(np.cumsum(totals) - totals)[probe] + digit]
        newest = np.full(len(probe), self.origin, dtype=np.int8)
        return Matches(tuple(sides), self.ranks[some][probe], newest)


class ProductScan:
    """One side's new tuples and the rows of every other side that have their keys."""

    def __init__(
        self,
        spaces: Sequence[Space],
        measures: Sequence[Measure],
        order: Sequence[int],
        finds: Sequence[KeySearch],
        is_resumed: bool,
    ) -> None:
        self._spaces = spaces
        self._measures = measures
        self._origin, *self._others = order
        self._finds = finds
        self._is_resumed = is_resumed
        new = spaces[self._origin].new
        assert new is not None
        self._new = new
        self.ranks = new.ranks

    def counts(self, sizes: Sequence[int]) -> Int64s:
        """How many results each new tuple has in a window."""
        counts = np.ones(len(self.ranks), dtype=np.int64)
        rows = np.arange(len(self.ranks))
        for side in self._others:
            counts[rows] *= self._ranges(side, rows, sizes[side]).totals
            rows = np.flatnonzero(counts)
        return counts

    def product(self, upto: Sequence[int]) -> Product:
        """The new tuples that have partners on every side, with their partners."""
        rows = np.arange(len(self.ranks))  # by key: searches that rise through a run find it in the cache
        ranges: dict[int, Ranges] = {}
        for side in self._others:
            found = self._ranges(side, rows, upto[side])
            kept = np.flatnonzero(found.totals)
            rows = rows[kept]
            ranges = {one: mine.where(kept) for one, mine in (ranges | {side: found}).items()}
        by_rank = np.argsort(self.ranks[rows])
        rows = rows[by_rank]
        own = self._spaces[self._origin].new_base + rows
        sides = (ranges.get(side) for side in range(len(self._spaces)))
        return Product(self._origin, self.ranks[rows], own, tuple(one and one.where(by_rank) for one in sides))

    def _ranges(self, side: int, rows: Int64s, upto: int) -> Ranges:
        """The partners on one side of some of the new tuples."""
        probed, measure = self._spaces[side], self._measures[side]
        now = self._new.segment.probe_clock(measure, probed.input)[rows]
        first_at_tie = measure is Measure.TIME and probed.position < self._spaces[self._origin].position
        bounds = (now - upto, now + first_at_tie)
        keys = self._new.segment.keys[rows]
        starts, lengths = [], []
        for segment, base, span in probed.pieces(new=not self._is_resumed):
            low, high = self._within(side, segment, keys, bounds, span)
            starts.append(low + base)
            lengths.append(high - low)
        if not starts:
            none = np.zeros((len(rows), 1), dtype=np.int64)
            return Ranges(none, none)
        return Ranges(np.stack(starts, axis=1), np.stack(lengths, axis=1))

    def _within(
        self, side: int, segment: Segment, keys: Int64s, bounds: tuple[Int64s, Int64s], span: tuple[int, int] | None
    ) -> tuple[Int64s, Int64s]:
        low, high = self._finds[side](segment.keys, keys)
        measure = self._measures[side]
        spanned = span if measure is Measure.TIME else None
        return cut_range(IndexView(segment.keys), segment.clock(measure), low, high, bounds, spanned)


def merged_products(products: Sequence[Product], together: int) -> Iterator[Matches]:
    """The results of all sides' new tuples, in order, about so many at a time; at least a tuple's."""
    ranks = np.concatenate([one.ranks for one in products])
    order = np.argsort(ranks)
    ranks, total = ranks[order], np.cumsum(np.concatenate([one.counts for one in products])[order])
    begin = 0
    while begin < len(ranks):
        reached = int(total[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(total, reached + together, side="right")), begin + 1)
        yield _merged(products, int(ranks[begin]), int(ranks[end - 1]) + 1)
        begin = end


def _merged(products: Sequence[Product], first: int, last: int) -> Matches:
    """The results of the new tuples with these ranks."""
    found = []
    for one in products:
        low, high = np.searchsorted(one.ranks, [first, last])
        if high > low:
            found.append(one.expanded(slice(int(low), int(high))))
    if len(found) == 1:
        return found[0]
    sides = tuple(np.concatenate(some) for some in zip(*(one.sides for one in found), strict=True))
    probe = np.concatenate([one.probe for one in found])
    matches = Matches(sides, probe, np.concatenate([one.newest for one in found]))
    return matches.where(np.argsort(probe, kind="stable"))
