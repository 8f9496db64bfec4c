"""The window join of any number of sides: new tuples of each, through the others in an order of their own (paper 002).

      new tuple k of b        order for b:  b, c, a                  no intermediate result is kept: partial results are
      a   . . x . x .|                      k -> c's partners        addresses, extended side by side, a slice of new
      c   . . . y . .|                        -> a's partners        tuples at a time (``walking``)
      -------------- k  time                  checked on the way

Every result is found once, from its newest tuple: partners are older than it, by time, then by the streams' order, then
by number. So it does not matter which rows are held and which are new, and a scan may be resumed when newer blocks are
held. One case is different: tuples that come when newer ones have been processed (``_late``).

Owns: :class:`MultiJoin`. Invariant: matches come out in result order. Cost: what the order makes of it
(``plan/costs.py``), and a sort of the results; where one key is all there is and is looked up (``products``), neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headrace.engine.keys import Int64s
from headrace.engine.matching import compared_ranges, key_ranges
from headrace.engine.products import ProductScan, merged_products
from headrace.engine.spaces import KeySearch, Matches, Reach, Space, tie_order
from headrace.engine.steps import steps_of
from headrace.engine.walking import Ages, AnyNewest, NewestFirst, Partial, Walk
from headrace.plan.joingraph import JoinGraph
from headrace.plan.queries import Measure

SLICE_MATCHES = 1 << 20
FIRST_SLICE = 1 << 10
"""New tuples whose results are made together, until it is known how many results a tuple has."""


@dataclass(frozen=True)
class MultiJoin:
    """The sides of a multi-way join, and the order of the sides for new tuples of each."""

    spaces: tuple[Space, ...]
    measures: tuple[Measure, ...]
    graph: JoinGraph
    orders: tuple[tuple[int, ...], ...]
    finds: tuple[KeySearch, ...]
    is_resumed: bool = False
    """Whether the new tuples have been scanned before: then they are among the held ones too."""

    @property
    def is_late(self) -> bool:
        """Whether a held tuple is after a new one."""
        fresh = [space for space in self.spaces if space.new is not None]
        return any(
            (run.max_us, held.position) > (new.new.segment.min_us, new.position)
            for new in fresh
            if new.new is not None
            for held in self.spaces
            for run in held.runs
        )

    @property
    def can_count(self) -> bool:
        """Whether results can be counted without being listed."""
        return self.graph.is_product and self._starts_with_new and self._is_looked_up

    def counts(self, windows: Sequence[tuple[int, ...]]) -> list[Int64s]:
        """For each window, how many results each new tuple finds, by rank."""
        ranked = sum(len(self._ranks(origin)) for origin in self._origins)
        found = [np.zeros(ranked, dtype=np.int64) for _ in windows]
        for origin in self._origins:
            scan = self._product_scan(origin)
            for count, sizes in zip(found, windows, strict=True):
                count[scan.ranks] = scan.counts(sizes)
        return found

    def scan(self, reach: Reach) -> Iterator[Matches]:
        """All results that the new tuples make within reach, in result order, a slice at a time."""
        if self._is_first_late:
            yield self._by_places(_together(list(self._late(reach))))
        elif self.can_count and reach.after is None:
            products = [self._product_scan(origin).product(reach.upto) for origin in self._origins]
            yield from merged_products(products, SLICE_MATCHES)
        else:
            yield from self._slices(reach)

    def scan_unordered(self, reach: Reach) -> Iterator[Matches]:
        """The same results for who puts them in order: a slice at a time also where tuples come late."""
        if self._is_first_late:
            yield from (self._by_places(found) for found in self._late(reach) if len(found))
        else:
            yield from self.scan(reach)

    @property
    def _is_first_late(self) -> bool:
        return self.is_late and not self.is_resumed and Measure.TIME in self.measures

    @cached_property
    def _origins(self) -> list[int]:
        return [side for side, space in enumerate(self.spaces) if space.new is not None]

    @property
    def _starts_with_new(self) -> bool:
        return all(order[0] == origin for origin, order in enumerate(self.orders))

    @property
    def _is_looked_up(self) -> bool:
        """Whether every side has an index of single keys. Other searches compare rows, as the paper's nested loops and
        buckets do: they go from side to side, so that an order costs what the paper says."""
        return all(find is key_ranges for find in self.finds)

    @property
    def _looks_up_ranges(self) -> bool:
        """Nested loops compare with every row, whatever the predicate."""
        return not all(find is compared_ranges for find in self.finds)

    def _product_scan(self, origin: int) -> ProductScan:
        return ProductScan(self.spaces, self.measures, self.orders[origin], self.finds, self.is_resumed)

    def _ranks(self, origin: int) -> Int64s:
        new = self.spaces[origin].new
        assert new is not None
        return new.ranks

    # --- slices of new tuples

    def _slices(self, reach: Reach) -> Iterator[Matches]:
        """The new tuples in their order, as many at a time as make about ``SLICE_MATCHES`` results; those at one time
        together, because one tuple may be in two sides."""
        by_rank = {origin: np.argsort(self._ranks(origin)) for origin in self._origins}
        times = self._times_by_rank()
        begin, size = 0, FIRST_SLICE if self._starts_with_new else len(times)
        while begin < len(times):
            end = int(np.searchsorted(times, times[min(begin + size, len(times)) - 1], side="right"))
            found = []
            for origin, order in by_rank.items():
                low, high = np.searchsorted(self._ranks(origin)[order], [begin, end])
                if high > low:
                    found.append(self._found(origin, order[low:high], reach))
            made = sum(map(len, found))
            if made:
                yield self._in_order(found)
            size = int(np.clip((end - begin) * SLICE_MATCHES / max(made, 1), 1, 16 * size))
            begin = end

    def _times_by_rank(self) -> Int64s:
        times = np.empty(sum(len(self._ranks(origin)) for origin in self._origins), dtype=np.int64)
        for origin in self._origins:
            new = self.spaces[origin].new
            assert new is not None
            times[new.ranks] = new.segment.ts_us
        return times

    def _found(self, origin: int, rows: Int64s, reach: Reach) -> Matches:
        """What some of a side's new tuples find; all of them, where an order does not begin with them."""
        steps = steps_of(self.graph, self.orders[origin], by_ranges=self._looks_up_ranges)
        start = self._start(origin, rows)
        parts: list[Partial] = []
        for ages in self._ages(origin, reach):
            meeting = NewestFirst(origin, ages, new_sides=not self.is_resumed)
            parts += Walk(self.spaces, self.measures, steps, self.finds, meeting).results(start)
        return self._gathered(origin, parts)

    def _gathered(self, origin: int, parts: Sequence[Partial]) -> Matches:
        none = np.empty(0, dtype=np.int64)
        sides = tuple(np.concatenate([none, *(part.addresses[side] for part in parts)]) for side in self.graph.sides)
        ranks = self._ranks(origin)[sides[origin] - self.spaces[origin].new_base]
        return Matches(sides, ranks, np.full(len(ranks), origin, dtype=np.int8))

    def _start(self, origin: int, rows: Int64s) -> Partial:
        """The first side of an origin's order: the new tuples themselves, or all tuples of another side."""
        first = self.orders[origin][0]
        space = self.spaces[first]
        if first != origin:
            held = space.new_base if self.is_resumed else int(space.bases[-1])
            return Partial({first: np.arange(held)}, held)
        return Partial({origin: space.new_base + rows}, len(rows))

    def _ages(self, origin: int, reach: Reach) -> list[tuple[Ages, ...]]:
        """The ages to look for, by side. What was found before had every side within ``after``: the first side of the
        order that is not decides, so that nothing is found twice and nothing again."""
        if reach.after is None:
            return [tuple(Ages(upto) for upto in reach.upto)]
        others = [side for side in self.orders[origin] if side != origin]
        found = []
        for number, first in enumerate(others):
            ages = {side: Ages(reach.after[side]) for side in others[:number]}
            ages |= {side: Ages(reach.upto[side]) for side in others[number:]}
            ages[first] = Ages(reach.upto[first], reach.after[first])
            found.append(tuple(ages.get(side, Ages(0)) for side in self.graph.sides))
        return found

    def _in_order(self, found: Sequence[Matches], *, by_places: bool = False) -> Matches:
        """Results of several origins as one list in result order."""
        together = _together(found)
        return together.where(tie_order(together, self.spaces, self.graph.sides, by_places=by_places))

    # --- tuples that come late

    def _late(self, reach: Reach) -> Iterator[Matches]:
        """All results with a new tuple, whichever is the newest: the first side that has a new one finds it. A slice at
        a time, in no order; at least one an origin."""
        in_time = [size for size, measure in zip(reach.upto, self.measures, strict=True) if measure is Measure.TIME]
        far_us = max(in_time)
        for origin in self._origins:
            order = (origin, *(side for side in self.orders[origin] if side != origin))
            meeting = AnyNewest(origin, far_us)
            walk = Walk(self.spaces, self.measures, steps_of(self.graph, order), self.finds, meeting)
            start = self.spaces[origin].new_base + np.arange(len(self._ranks(origin)))
            parts: list[Partial] = []
            size = 0
            for part in walk.results(Partial({origin: start}, len(start))):
                if size + part.size > SLICE_MATCHES and parts:
                    yield self._dated(self._gathered(origin, parts), reach)
                    parts, size = [], 0
                parts.append(part)
                size += part.size
            yield self._dated(self._gathered(origin, parts), reach)

    def _by_places(self, matches: Matches) -> Matches:
        return matches.where(tie_order(matches, self.spaces, self.graph.sides, by_places=True))

    def _dated(self, matches: Matches, reach: Reach) -> Matches:
        """The matches within reach of their newest tuple, which is told for each."""
        times = [space.times(some) for space, some in zip(self.spaces, matches.sides, strict=True)]
        newest = np.zeros(len(matches), dtype=np.int8)
        latest = self._place(matches, times, 0)
        for side in range(1, len(self.spaces)):
            place = self._place(matches, times, side)
            is_newer = _is_after(place, latest)
            newest[is_newer] = side
            latest = tuple(np.where(is_newer, mine, other) for mine, other in zip(place, latest, strict=True))
        inside = np.ones(len(matches), dtype=bool)
        dated = Matches(matches.sides, matches.probe, newest)
        for side, (ts_us, measure) in enumerate(zip(times, self.measures, strict=True)):
            in_time = measure is Measure.TIME
            inside &= latest[0] - ts_us <= reach.upto[side] if in_time else self._in_rows(dated, side, reach.upto[side])
        return dated.where(inside)

    def _in_rows(self, matches: Matches, side: int, rows: int) -> np.ndarray:
        """Which matches have, of that side, one of the last rows that were released before the newest."""
        inside: np.ndarray = matches.newest == side
        for newest in (one for one in self.graph.sides if one != side):
            mine = np.flatnonzero(matches.newest == newest)
            probes, partners = matches.sides[newest][mine], matches.sides[side][mine]
            behind = self.spaces[newest].behind(probes, self.spaces[side], partners, Measure.ROWS)
            inside[mine] = (behind >= 1) & (behind <= rows)
        return inside

    def _place(self, matches: Matches, times: Sequence[Int64s], side: int) -> tuple[np.ndarray, ...]:
        space = self.spaces[side]
        return times[side], np.full(len(matches), space.position), space.numbers(matches.sides[side])


def _together(found: Sequence[Matches]) -> Matches:
    sides = tuple(np.concatenate(some) for some in zip(*(one.sides for one in found), strict=True))
    probe = np.concatenate([one.probe for one in found])
    return Matches(sides, probe, np.concatenate([one.newest for one in found]))


def _is_after(place: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...]) -> np.ndarray:
    """Whether places (time, stream, number) come after others; one tuple in two sides is not after itself."""
    is_after = place[2] > other[2]
    for mine, theirs in ((place[1], other[1]), (place[0], other[0])):
        is_after = (mine > theirs) | ((mine == theirs) & is_after)
    return is_after
