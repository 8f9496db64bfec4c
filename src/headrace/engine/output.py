"""From matches to what classes of queries get: filters, bands, projection. Once for all queries of a class, and what
several classes need of a slice of matches once for all of them (``slices``).

      matches of the scan     ages   1   7   3   40   2           windows of the class: 5 and 60
      band 1 (age <= 5)              x       x        x           read by the queries of both
      band 2 (5 < age <= 60)             x       x                read by the query with 60

Windows that differ from side to side are not nested: then a cell takes a band's place, the results that the same
queries read. Classes with the same select list are a family: their rows are made together and then told apart.
Cost: O(matches) for the ages, the filters' columns and indexes; O(results), and a little for each class, for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pyarrow as pa

from headrace.engine.arrival_times import Arrivals
from headrace.engine.arrow_types import arrow_schema, arrow_type
from headrace.engine.blocks import HeldResults, marked_results, with_arrivals
from headrace.engine.checking import Checks, Combination
from headrace.engine.evaluate import evaluate, filter_mask
from headrace.engine.events import EmitCount, EmitRows, Freshness
from headrace.engine.folded_rows import FoldedRows
from headrace.engine.keys import Int64s
from headrace.engine.segments import CAME
from headrace.engine.slices import Check, Slice
from headrace.engine.spaces import Matches, Space, ahead_ranks, newest_marks, place_ranks, tie_order
from headrace.model import QueryId
from headrace.plan.canonical import Sizes
from headrace.plan.expressions import ColumnRef, Expression
from headrace.plan.queries import Output
from headrace.plan.sharing import Delivery, Member, OutputClass

Emission = EmitRows | EmitCount

MOST_BANDS = 1 << 10
"""Combinations of bands, one a side, that are all told apart; of more, only those that occur."""
MADE_TOGETHER = 1 << 18
"""Rows of a family that are made at once: enough that a class costs little, and memory does not follow the classes."""


class Cut(Enum):
    """How a class's results are cut into batches."""

    BANDS = "bands"
    """Every result in one batch, that of its band; a query reads several. Results are made once."""
    WINDOWS = "windows"
    """A batch for each window, so that a query's results are one ordered stream: what a single shard promises, and
    what a file with many queries' rows (``Delivery.SHARED``) needs on any number."""


def cut_for(delivery: Delivery, cut: Cut) -> Cut:
    """How a class is cut, given how others are."""
    return Cut.WINDOWS if delivery is Delivery.SHARED else cut


def filtered(matches: Matches, spaces: Sequence[Space], conditions: Sequence[Expression]) -> Matches:
    """The matches for which all conditions hold."""
    if not conditions or not len(matches):
        return matches
    mask = filter_mask(conditions, column_reader(matches, spaces), len(matches))
    return matches if mask is None else matches.where(np.asarray(mask))


@dataclass(frozen=True, slots=True)
class _Class:
    """A class's number in its group, and what of it does not change: its reach, and who reads each window."""

    number: int
    members: tuple[Member, ...]
    reach: Sizes
    readers: tuple[tuple[Sizes, tuple[QueryId, ...]], ...]
    everyone: tuple[QueryId, ...]
    ties: tuple[int, ...]

    @staticmethod
    def of(number: int, cls: OutputClass) -> _Class:
        readers: dict[Sizes, list[QueryId]] = {sizes: [] for sizes in cls.windows}
        for member in cls.members:
            readers[member.sizes].append(member.query)
        pairs = tuple((sizes, tuple(queries)) for sizes, queries in readers.items())
        everyone = tuple(member.query for member in cls.members)
        return _Class(number, cls.members, reach_of(cls.windows), pairs, everyone, cls.ties)


@dataclass(frozen=True, slots=True)
class _Family:
    """Classes with one select list and one delivery; those that are only counted have none."""

    delivery: Delivery
    outputs: tuple[Output, ...]
    schema: pa.Schema
    classes: tuple[_Class, ...]
    is_raw: bool = False
    """Whether it gives columns for operators to come, with when each result's newest tuple arrived."""
    is_early: bool = False
    only_filtered: frozenset[str] = frozenset()
    """The columns that only filters to come read."""

    def passed(self) -> _Family:
        """The same for results that have passed all filters."""
        if not self.only_filtered:
            return self
        outputs = tuple(one for one in self.outputs if one.name not in self.only_filtered)
        return replace(self, outputs=outputs, schema=pa.schema([self.schema.field(one.name) for one in outputs]))

    def rows(self, columns: Callable[[ColumnRef], pa.Array], count: int) -> pa.RecordBatch:
        """The select list as a batch."""
        if self.delivery is Delivery.COUNT:
            return _NO_COLUMNS
        arrays = [_whole(evaluate(output.expression, columns, count)) for output in self.outputs]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


_NO_COLUMNS = pa.RecordBatch.from_arrays([], names=[])


class GroupOutputs:
    """What the classes of a group make of matches. ``current``: how tuples are collected under this plan, by side."""

    def __init__(self, classes: Sequence[OutputClass], current: Combination) -> None:
        self._checks = Checks(classes, current)
        found: dict[tuple[Delivery, tuple[Output, ...], bool, bool, frozenset[str]], list[int]] = {}
        self._folded = tuple(_folded_classes(classes))
        for number, cls in enumerate(classes):
            if cls.delivery is Delivery.FOLDED:
                continue
            outputs = () if cls.delivery is Delivery.COUNT else cls.outputs
            kind = (cls.deferred is not None, cls.is_early, cls.only_filtered)
            found.setdefault((cls.delivery, outputs, *kind), []).append(number)
        self._families = tuple(
            _Family(
                delivery,
                outputs,
                arrow_schema(classes[numbers[0]].schema),
                tuple(_Class.of(number, classes[number]) for number in numbers),
                is_raw,
                is_early,
                only_filtered,
            )
            for (delivery, outputs, is_raw, is_early, only_filtered), numbers in found.items()
        )

    @property
    def given_us(self) -> dict[int, int]:
        """By class that is folded, how far back the results lie that it is given."""
        return {cls.number: min(cls.reach) for cls in self._folded}

    def emissions(self, matches: Matches, spaces: Sequence[Space], arrived_us: Int64s, cut: Cut) -> Iterator[Emission]:
        """What is made of these matches, all of whose windows are done: batches (or counts) with their readers."""
        if not len(matches):
            return
        parts = _Parts(matches, spaces, self._checks)
        arrived = Arrivals(matches.probe, arrived_us)
        for family in self._given(parts):
            together: list[tuple[tuple[QueryId, ...], Int64s]] = []
            rows = 0
            for cls in family.classes:
                for readers, positions in _cuts(cls, parts, cut_for(family.delivery, cut)):
                    if not len(positions):
                        continue
                    together.append((readers, positions))
                    rows += len(positions)
                    if rows >= MADE_TOGETHER:
                        yield from _made(family, together, parts.whole, arrived)
                        together, rows = [], 0
            yield from _made(family, together, parts.whole, arrived)

    def _given(self, parts: _Parts) -> Iterator[_Family]:
        """The families, as they are given results of this slice."""
        return (family.passed() if parts.is_past else family for family in self._families)

    def folded(self, matches: Matches, spaces: Sequence[Space]) -> Iterator[tuple[int, Int64s, FoldedRows, bool]]:
        """For each class that is folded: its number, the matches that it gets, what it reads of them, in one with the
        classes that get the same, and whether they have passed all of its filters."""
        parts = _Parts(matches, spaces, self._checks)
        shared: dict[int, tuple[Int64s, FoldedRows]] = {}
        for cls in self._folded:
            positions = parts.passing(cls.number, cls.reach)
            if len(positions):
                found = shared.setdefault(
                    id(positions), (positions, FoldedRows(parts.whole.reader(positions), len(positions)))
                )
                yield cls.number, *found, parts.is_past

    def hold(
        self,
        matches: Matches,
        spaces: Sequence[Space],
        arrived_us: Int64s,
        first: int | None = None,
        placed: Cut | None = None,
        *,
        ahead: bool = False,
    ) -> Iterator[HeldResults]:
        """What is made of these matches, kept together until the windows are done: for each family one batch, class
        after class. ``first``: the place of the first match among those of its scan, where that is their rank.
        ``placed``: how results are cut, where those of several scans come between each other; ``ahead``: those of
        several blocks do, and it is their newest tuples' arrivals that count."""
        if not len(matches):
            return
        parts = _Parts(matches, spaces, self._checks)
        came_us = arrived_us[matches.probe]
        if ahead:  # a newest tuple without a mark was joined before: the one that found the result decides
            marks = newest_marks(matches, spaces, CAME)
            came_us = np.where(marks > 0, marks, came_us)
        for family in self._given(parts):
            readers: list[tuple[str, ...]] = []
            found: list[tuple[np.ndarray, ...]] = []
            for cls in family.classes:
                positions = parts.ordered(cls.ties, parts.passing(cls.number, cls.reach))
                if len(positions):
                    cells, codes = _cells(cls, parts.whole, positions)
                    ranks = parts.ahead(cls.ties) if ahead else _ranks(cls, family, parts, first, placed)
                    found.append((positions, codes.astype(np.int64) + len(readers), *(one[positions] for one in ranks)))
                    readers += [tuple(one.identity for one in cell) for cell in cells]
            if found:
                positions, codes, *ranks = (np.concatenate(column) for column in zip(*found, strict=True))
                rows = family.rows(parts.whole.reader(positions), len(positions))
                batch = marked_results(rows, ranks, came_us[positions], codes)
                is_counted, kinds = family.delivery is Delivery.COUNT, (family.is_raw, family.is_early)
                yield HeldResults(tuple(readers), batch, is_counted, 0, None, 0, *kinds)


def _folded_classes(classes: Sequence[OutputClass]) -> Iterator[_Class]:
    """Those that are folded. Where an operator asks further what several of them read, one is given it for all of them:
    as far as the largest of their windows reaches. (What is beyond a window counts for nothing there.)"""
    windows: dict[Hashable, list[Sizes]] = {}
    for cls in classes:
        windows.setdefault(_read_together(cls), []).extend(cls.windows)
    for number, cls in enumerate(classes):
        if cls.delivery is Delivery.FOLDED:
            reach = reach_of(windows[_read_together(cls)])
            yield replace(_Class.of(number, cls), reach=reach if cls.deferred else reach_of(cls.windows))


def _read_together(cls: OutputClass) -> Hashable:
    """What classes have in common that one select-project may serve."""
    asked = (frozenset(cls.filters), frozenset(cls.deferred or ()))
    return cls.delivery, cls.outputs, *asked, cls.folding and cls.folding.offsets


REMEMBERED = 16
"""Groups whose outputs stay prepared."""
_prepared: dict[tuple[int, Combination], tuple[tuple[OutputClass, ...], GroupOutputs]] = {}


def outputs_of(classes: tuple[OutputClass, ...], current: Combination) -> GroupOutputs:
    """The outputs of a group. A host that restores the shard for every micro-batch has the same plan in its hands each
    time: what was prepared for these very classes serves again."""
    place = (id(classes), current)
    known = _prepared.get(place)
    if known is None or known[0] is not classes:
        while len(_prepared) >= REMEMBERED:
            del _prepared[next(iter(_prepared))]
        known = _prepared[place] = (classes, GroupOutputs(classes, current))
    return known[1]


class _Parts:
    """A slice, in parts by how the matches' tuples were collected: mostly one. ``is_past``: some were under an earlier
    plan, and no filter is left for later."""

    def __init__(self, matches: Matches, spaces: Sequence[Space], checks: Checks) -> None:
        self.whole = Slice(matches, spaces, checks.conditions, checks.indexed)
        self._spaces = spaces
        self._places: dict[tuple[int, ...], Int64s] = {}
        self._ranks: dict[tuple[int, ...], list[Int64s]] = {}
        self._parts: list[tuple[Int64s | None, Slice, list[Check | None]]] = []
        collections = [[one.asked_for for one in space.collections] for space in spaces]
        kinds = [list(dict.fromkeys(some)) for some in collections]
        self.is_past = not all(len(one) == 1 for one in kinds)
        if not self.is_past:
            only = tuple(one[0] for one in kinds)
            self.is_past = not checks.is_current(only)
            self._parts.append((None, self.whole, checks.of(only)))
            return
        codes = np.zeros(len(matches), dtype=np.int64)
        for side, space in enumerate(spaces):
            of_run = np.array([kinds[side].index(one) for one in collections[side]])
            codes = codes * len(kinds[side]) + of_run[space.which(matches.sides[side])]
        for code in np.unique(codes):
            positions = np.flatnonzero(codes == code)
            places = np.unravel_index(int(code), [len(one) for one in kinds])
            combination = tuple(kinds[side][int(place)] for side, place in enumerate(places))
            part = Slice(matches.where(positions), spaces, checks.conditions, checks.indexed)
            self._parts.append((positions, part, checks.all_of(combination)))

    def passing(self, number: int, sizes: Sizes) -> Int64s:
        """The positions, in the whole, of the matches in a window that a class gets."""
        found = []
        for positions, part, checks in self._parts:
            check = checks[number]
            if check is not None:
                passing = part.passing(check, sizes)
                if positions is None:
                    return passing
                found.append(positions[passing])
        together = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
        return np.sort(together)

    def places(self, ties: tuple[int, ...]) -> Int64s:
        """Each match's place among all, where ties are broken by the sides in this order."""
        if ties not in self._places:
            order = tie_order(self.whole.matches, self._spaces, ties)
            self._places[ties] = np.empty(len(order), dtype=np.int64)
            self._places[ties][order] = np.arange(len(order))
        return self._places[ties]

    def ranks(self, ties: tuple[int, ...]) -> list[Int64s]:
        """The same as numbers that can be compared with those of other scans."""
        if ties not in self._ranks:
            sides = ties or tuple(range(len(self._spaces)))
            self._ranks[ties] = place_ranks(self.whole.matches, self._spaces, sides)
        return self._ranks[ties]

    def ahead(self, ties: tuple[int, ...]) -> list[Int64s]:
        """The same as numbers that can be compared with those of other blocks."""
        if ties not in self._ranks:
            self._ranks[ties] = ahead_ranks(self.whole.matches, self._spaces, ties or tuple(range(len(self._spaces))))
        return self._ranks[ties]

    def ordered(self, ties: tuple[int, ...], positions: Int64s) -> Int64s:
        """These positions in that order; the matches are in it already where no ties are given."""
        return positions[np.argsort(self.places(ties)[positions])] if ties and len(positions) else positions


def _ranks(cls: _Class, family: _Family, parts: _Parts, first: int | None, placed: Cut | None) -> list[Int64s]:
    """What orders a class's held results among those of one block: the tuples that found them, where a later scan's
    come before an earlier one's."""
    if first is not None:
        return [first + (parts.places(cls.ties) if cls.ties else parts.whole.everything)]
    is_placed = placed is not None and cut_for(family.delivery, placed) is Cut.WINDOWS
    if is_placed and family.delivery is not Delivery.COUNT:
        return parts.ranks(cls.ties)
    return [parts.whole.matches.probe]


def _cuts(cls: _Class, parts: _Parts, cut: Cut) -> Iterator[tuple[tuple[QueryId, ...], Int64s]]:
    """A class's matches, batch by batch, with those who read each."""
    positions = parts.ordered(cls.ties, parts.passing(cls.number, cls.reach))
    ages = parts.whole.matches.ages
    if len(cls.readers) == 1 or ages is None or not len(positions):
        yield cls.everyone, positions
    elif cut is Cut.WINDOWS:
        for sizes, queries in cls.readers:
            within = parts.whole.matches.in_window(sizes, positions)
            yield queries, positions if within.all() else positions[within]
    else:
        cells, codes = _cells(cls, parts.whole, positions)
        by_cell = positions[np.argsort(codes, kind="stable")]
        ends = np.cumsum(np.bincount(codes, minlength=len(cells)))
        for members, begin, end in zip(cells, [0, *ends], ends, strict=False):
            if not members:
                continue
            yield tuple(member.query for member in members), by_cell[begin:end]


def _cells(cls: _Class, matches: Slice, positions: Int64s) -> tuple[list[tuple[Member, ...]], np.ndarray]:
    """The sets of members that read the same results, and which of them each match is for."""
    if matches.matches.ages is None or len(cls.readers) == 1:
        return [cls.members], np.zeros(len(positions), dtype=np.uint16)
    ages = np.atleast_2d(matches.matches.ages[..., positions])
    bands = np.zeros(len(positions), dtype=np.int64)
    sizes_by_side = [sorted({member.sizes[side] for member in cls.members}) for side in range(len(ages))]
    if (only := _one_band(sizes_by_side, ages)) is not None:
        return [_readers_of(cls, sizes_by_side, only)], np.zeros(len(positions), dtype=np.uint16)
    for sizes, mine in zip(sizes_by_side, ages, strict=True):
        band = np.searchsorted(np.asarray(sizes), mine, side="left")
        bands = bands * len(sizes) + np.minimum(band, len(sizes) - 1)
    shape = [len(sizes) for sizes in sizes_by_side]
    found, codes = np.arange(math.prod(shape)), bands
    if len(found) > MOST_BANDS:
        found, codes = np.unique(bands, return_inverse=True)
    cells: dict[tuple[Member, ...], int] = {}
    places = np.unravel_index(found, shape)
    cell_of_band = [
        cells.setdefault(_readers_of(cls, sizes_by_side, band), len(cells)) for band in zip(*places, strict=True)
    ]
    return list(cells), np.asarray(cell_of_band, dtype=np.uint16)[codes]


def _one_band(sizes_by_side: Sequence[list[int]], ages: np.ndarray) -> list[int] | None:
    """The band of all these results, where it is one: a scan that goes on from one window to the next has no other."""
    if not ages.shape[-1]:
        return None
    ends = zip(sizes_by_side, ages.min(axis=-1), ages.max(axis=-1), strict=True)
    bands = [np.searchsorted(np.asarray(sizes), [low, high], side="left").tolist() for sizes, low, high in ends]
    if any(low != high for low, high in bands):
        return None
    return [min(low, len(sizes) - 1) for sizes, (low, _) in zip(sizes_by_side, bands, strict=True)]


def _readers_of(cls: _Class, sizes_by_side: Sequence[list[int]], band: Sequence[int]) -> tuple[Member, ...]:
    """Those whose windows hold results that old."""
    least = [sizes[place] for sizes, place in zip(sizes_by_side, band, strict=True)]
    return tuple(
        member for member in cls.members if all(mine >= size for mine, size in zip(member.sizes, least, strict=False))
    )


def _made(
    family: _Family, together: list[tuple[tuple[QueryId, ...], Int64s]], matches: Slice, arrived: Arrivals
) -> Iterator[Emission]:
    """The rows of several classes, made at once; each gets its part of them."""
    if not together:
        return
    sizes = [len(mine) for _, mine in together]
    positions = together[0][1] if len(together) == 1 else np.concatenate([mine for _, mine in together])
    times = arrived.of(positions, sizes)
    fresh = [_freshness(matches.matches, mine, arrived) for _, mine in together]
    if family.delivery is Delivery.COUNT:
        for (readers, mine), each, until in zip(together, times, fresh, strict=True):
            yield EmitCount(readers, len(mine), each, until)
        return
    batch = family.rows(matches.reader(positions), len(positions))
    if family.is_raw:
        batch = with_arrivals(batch, arrived.at(positions))
    begin = 0
    for (readers, mine), each, until in zip(together, times, fresh, strict=True):
        yield EmitRows(readers, batch.slice(begin, len(mine)), each, fresh=until)
        begin += len(mine)


def _freshness(matches: Matches, positions: Int64s, arrived: Arrivals) -> Freshness | None:
    """Until when the matches there may be released; None where they always may."""
    if matches.fresh_us is None:
        return None
    return Freshness(matches.fresh_us[positions], arrived.at(positions))


def reach_of(windows: Sequence[Sizes]) -> Sizes:
    """The least reach into each side that all these windows are within.

    >>> reach_of([(1, 1), (5, 2), (3, 4)])
    (5, 4)
    """
    return tuple(max(sizes) for sizes in zip(*windows, strict=True))


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def column_reader(matches: Matches, spaces: Sequence[Space]) -> Callable[[ColumnRef], pa.Array]:
    """Columns of the matches, each gathered once."""
    gathered: dict[tuple[int, str], pa.Array] = {}
    addresses = matches.sides

    def column(ref: ColumnRef) -> pa.Array:
        place = (ref.source, ref.name)
        if place not in gathered:
            gathered[place] = spaces[ref.source].column(ref.name, arrow_type(ref.type), addresses[ref.source])
        return gathered[place]

    return column
