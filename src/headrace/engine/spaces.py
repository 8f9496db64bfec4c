"""The rows of a join's sides, new and held, under one address each, and results as such addresses.

      space of a side    |-----run 1-----|--run 2--|-run 3-|--new--|        an address is a place on this line
      a match            one address a side, in the order of semantics

Owns: :class:`Block` (the tuples a group takes in together), :class:`Space`, :class:`Matches`. Invariants: runs are
oldest first, so that of one key, addresses rise with time and arrival. Cost: a column is gathered at the addresses
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.keys import Int64s
from headrace.engine.matching import bisect_within, key_ranges
from headrace.engine.segments import NUMBER, PLACE, TAKEN, Layout, Segment, build_segment, int64s_of, seen_column
from headrace.engine.waiting import Released
from headrace.engine.window import Collected, Run
from headrace.plan.queries import Measure

NOT_TAKEN = 1 << 40
"""More than there are rows of a key at one time."""
KeySearch: TypeAlias = Callable[[Int64s, Int64s], tuple[Int64s, Int64s]]
"""How the rows with each probe's key are found: by the index, or by looking at every row (``matching``)."""


@dataclass(frozen=True, slots=True)
class NewRows:
    """A block's tuples of one input, sorted by key; ``ranks`` are their places in the block's total order."""

    segment: Segment
    ranks: Int64s
    collected: Collected


@dataclass(frozen=True, slots=True)
class Block:
    """The tuples a group takes in together. ``arrived_us`` by rank."""

    inputs: tuple[NewRows | None, ...]
    arrived_us: Int64s


@dataclass(frozen=True, slots=True)
class Reach:
    """How far back a scan looks into each side: partners older than ``after`` (None: from the probe itself) up to
    ``upto``."""

    upto: tuple[int, ...]
    after: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Matches:
    """Results as addresses into the sides' spaces, in order; ``probe`` is the rank of the tuple that found each,
    ``newest`` the side its newest tuple is of. ``ages``, where windows differ: how far behind the newest the others
    are, at most; or by side, a row each, where windows differ from side to side. ``fresh_us``, where results may be too
    old to be released: until when each has only tuples that are not."""

    sides: tuple[Int64s, ...]
    probe: Int64s
    newest: np.ndarray
    ages: Int64s | None = None
    fresh_us: Int64s | None = None

    def __len__(self) -> int:
        return len(self.probe)

    def where(self, keep: np.ndarray | slice) -> Matches:
        """The results that a mask, an order of positions or a slice picks."""
        ages = None if self.ages is None else self.ages[..., keep]
        fresh_us = None if self.fresh_us is None else self.fresh_us[keep]
        return Matches(tuple(one[keep] for one in self.sides), self.probe[keep], self.newest[keep], ages, fresh_us)

    def with_ages(self, spaces: Sequence[Space], measures: Sequence[Measure], *, by_side: bool) -> Matches:
        """The matches with their ages."""
        if not by_side and Measure.ROWS not in measures:
            times = [space.times(addresses) for space, addresses in zip(spaces, self.sides, strict=True)]
            span: Int64s = np.maximum.reduce(times) - np.minimum.reduce(times)
            return replace(self, ages=span)
        ages = np.zeros((len(spaces), len(self)), dtype=np.int64)
        for newest in np.unique(self.newest).tolist():
            mine = np.flatnonzero(self.newest == newest)
            for side in (one for one in range(len(spaces)) if one != newest):
                behind = spaces[newest].behind(
                    self.sides[newest][mine], spaces[side], self.sides[side][mine], measures[side]
                )
                ages[side, mine] = behind
        return replace(self, ages=ages if by_side else ages.max(axis=0))

    def in_window(self, sizes: Sequence[int], positions: Int64s | None = None) -> np.ndarray:
        """Which of the results (there) a window has."""
        assert self.ages is not None
        ages = self.ages if positions is None else self.ages[..., positions]
        if ages.ndim == 1:
            inside: np.ndarray = ages <= sizes[0]
            return inside
        in_all: np.ndarray = np.all(ages <= np.asarray(sizes)[:, None], axis=0)
        return in_all


def make_block(released: Sequence[Released | None], layouts: Sequence[Layout], positions: Sequence[int]) -> Block:
    """A block of one release of each input; ``positions``: their streams' places in the catalog, in order."""
    parts = [one for one in released if one is not None]
    arrived_us = np.concatenate([one.arrived_us for one in parts])
    order = total_order(parts, [place for one, place in zip(released, positions, strict=True) if one is not None])
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    inputs: list[NewRows | None] = []
    offset = 0
    for one, layout in zip(released, layouts, strict=True):
        if one is None:
            inputs.append(None)
            continue
        segment, by_key = build_segment(one.batch, layout)
        inputs.append(NewRows(segment, ranks[offset : offset + segment.rows][by_key], one.collected))
        offset += segment.rows
    return Block(tuple(inputs), arrived_us[order])


def total_order(parts: Sequence[Released], positions: Sequence[int]) -> Int64s:
    """The rows by time, ties as the inputs are given; of one stream's inputs, as the tuples came, and a tuple after
    itself as a later one: it meets itself as the first."""
    ts_us = np.concatenate([one.ts_us for one in parts])
    if not all(NUMBER in one.batch.schema.names for one in parts):
        return np.argsort(ts_us, kind="stable")
    numbers = np.concatenate([int64s_of(one.batch, NUMBER) for one in parts])
    sizes = [len(one.ts_us) for one in parts]
    of_input = np.repeat(np.arange(len(parts)), sizes)
    return np.lexsort((-of_input, numbers, np.repeat(positions, sizes), ts_us))


class Space:
    """One side's rows, held and new, under one address each: run after run, the new tuples last."""

    def __init__(
        self, runs: Sequence[Run], new: NewRows | None, layout: Layout, input: int = 0, position: int = 0
    ) -> None:
        self.runs = tuple(runs)
        self.new = new
        self.input = input
        self.position = position
        self.layout = layout
        segments = [run.segment for run in runs] + ([new.segment] if new else [])
        self.batches = [segment.batch for segment in segments]
        self.bases = np.cumsum([0] + [segment.rows for segment in segments])

    def pieces(self, *, new: bool) -> Iterator[tuple[Segment, int, tuple[int, int] | None]]:
        """The segments, with their first address and the times they span (None: not known); the new tuples' or not."""
        for run, base in zip(self.runs, self.bases, strict=False):
            yield run.segment, int(base), run.span_us
        if new and self.new is not None:
            segment = self.new.segment
            yield segment, self.new_base, (segment.min_us, segment.max_us)

    def key_numbers(self, index: int, addresses: Int64s) -> Int64s:
        """The numbers of an index's key."""
        chunks = [_as_int64(batch.column(self.layout.column_in(batch, index))) for batch in self.batches]
        values: Int64s = _taken(chunks, pa.int64(), addresses).to_numpy()
        return values

    def new_clock(self, addresses: Int64s, measure: Measure, probed: int) -> Int64s:
        """Where new tuples stand on the clock of an input so measured."""
        assert self.new is not None
        return self.new.segment.probe_clock(measure, probed)[addresses - self.new_base]

    @property
    def new_base(self) -> int:
        return int(self.bases[len(self.runs)])

    def column(self, name: str, kind: pa.DataType, addresses: Int64s) -> pa.Array:
        """The values of a column at these addresses; null where tuples were kept without it."""
        return _taken([_column_or_nulls(batch, name, kind) for batch in self.batches], kind, addresses)

    def behind(self, probes: Int64s, other: Space, partners: Int64s, measure: Measure) -> Int64s:
        """How far these partners are behind these probes, on the clock of the partners' side."""
        behind: Int64s
        if measure is Measure.TIME:
            behind = np.abs(self.times(probes) - other.times(partners))
        else:
            seen = self.column(seen_column(other.input), pa.int64(), probes).to_numpy()
            behind = seen - other.column(PLACE, pa.int64(), partners).to_numpy()
        return behind

    def times(self, addresses: Int64s) -> Int64s:
        values: Int64s = self.column(self.layout.time, pa.timestamp("us", "UTC"), addresses).cast(pa.int64()).to_numpy()
        return values

    @property
    def is_numbered(self) -> bool:
        """Whether the rows have their places in the arrival order with them."""
        return any(NUMBER in batch.schema.names for batch in self.batches)

    def numbers(self, addresses: Int64s) -> Int64s:
        """What tells rows at one time apart: their numbers, or else their addresses, which rise with arrival within a
        key."""
        if not self.is_numbered:
            return addresses
        values: Int64s = self.column(NUMBER, pa.int64(), addresses).to_numpy()
        return values

    def marks(self, name: str, addresses: Int64s) -> Int64s:
        """The values of a column that not all rows have, or 0."""
        values: Int64s = pc.fill_null(self.column(name, pa.int64(), addresses), 0).to_numpy()
        return values

    def taken(self, addresses: Int64s) -> Int64s:
        """What orders rows at one time, as numbers that stay: as they were taken in ahead of another stream; those that
        were not are before all that were."""
        if self.is_numbered:
            return self.numbers(addresses)
        values = self.column(TAKEN, pa.int64(), addresses)
        if not values.null_count:
            numbers: Int64s = values.to_numpy()
            return numbers
        without = values.is_null().to_numpy(zero_copy_only=False)
        found: Int64s = pc.fill_null(values, 0).to_numpy().copy()
        found[without] = self.arrivals(addresses[without]) - NOT_TAKEN
        return found

    def arrivals(self, addresses: Int64s) -> Int64s:
        """The same as numbers that stay whatever else is held: places in the whole stream, or how many rows of a key
        and time came before."""
        if self.is_numbered:
            return self.numbers(addresses)
        if any(PLACE in batch.schema.names for batch in self.batches):
            values: Int64s = self.column(PLACE, pa.int64(), addresses).to_numpy()
            return values
        distinct, of_row = np.unique(addresses, return_inverse=True)
        keys, ts_us = self.key_numbers(0, distinct), self.times(distinct)
        before = np.zeros(len(distinct), dtype=np.int64)
        for segment, base, _ in self.pieces(new=True):
            low, high = key_ranges(segment.keys, keys)
            low = bisect_within(segment.ts_us, low, high, ts_us)
            high = bisect_within(segment.ts_us, low, high, ts_us + 1)
            before += np.clip(distinct - base, low, high) - low
        return before[of_row]

    def places(self, addresses: Int64s) -> Int64s:
        """Numbers that rise with the rows' places in their stream: addresses, where those do."""
        if not self.is_numbered:
            return addresses
        rows = int(self.bases[-1])
        if len(addresses) < rows // 8:
            distinct, of_row = np.unique(addresses, return_inverse=True)
            return self._ranked(distinct)[of_row]
        is_used = np.zeros(rows, dtype=bool)
        is_used[addresses] = True
        distinct = np.flatnonzero(is_used)
        ranks = np.empty(rows, dtype=np.int64)
        ranks[distinct] = self._ranked(distinct)
        return ranks[addresses]

    def _ranked(self, addresses: Int64s) -> Int64s:
        """The places of different rows among each other."""
        ranks = np.empty(len(addresses), dtype=np.int64)
        ranks[np.lexsort((self.numbers(addresses), self.times(addresses)))] = np.arange(len(addresses))
        return ranks

    @property
    def collections(self) -> tuple[Collected, ...]:
        """How the rows of each run, and the new ones, were collected."""
        return (*(run.collected for run in self.runs), *((self.new.collected,) if self.new else ()))

    def which(self, addresses: Int64s) -> Int64s:
        """The run each address is in, counted as in ``collections``."""
        return np.searchsorted(self.bases, addresses, side="right") - 1


def tie_order(matches: Matches, spaces: Sequence[Space], ties: Sequence[int], *, by_places: bool = False) -> Int64s:
    """The order of results: by the newest tuple's place, then by the places of the others as ``ties`` has the sides.

    Where each newest tuple is of one side and has found its results itself, its rank is its place, and a side is only
    compared with itself. ``by_places``: that need not be so."""
    if by_places or len({space.position for space in spaces}) < len(spaces):
        return _order_by_places(matches, spaces, ties)
    keys = [matches.probe.astype(np.int64, copy=False)]
    for side in ties:
        places = spaces[side].places(matches.sides[side])
        keys.append(places.astype(np.int64, copy=False))
    return _sorted_by(keys)


def place_ranks(matches: Matches, spaces: Sequence[Space], ties: Sequence[int]) -> list[Int64s]:
    """What orders results as ``tie_order`` does, first things first, as numbers that do not depend on what else is
    held: a block's scans can be put in one order by them, whatever came and was merged in between."""
    numbers = [space.arrivals(some) for space, some in zip(spaces, matches.sides, strict=True)]
    if len({space.position for space in spaces}) < len(spaces):
        return _place_keys(matches, spaces, ties, numbers)
    keys: list[Int64s] = [matches.probe]
    for side in ties:
        is_other = matches.newest != side  # of the newest the rank says it all
        keys += [is_other * spaces[side].times(matches.sides[side]), is_other * numbers[side]]
    return keys


def newest_marks(matches: Matches, spaces: Sequence[Space], name: str) -> Int64s:
    """A column of each result's newest tuple, or 0 where it has none."""
    found = np.zeros(len(matches), dtype=np.int64)
    for side, space in enumerate(spaces):
        mine = np.flatnonzero(matches.newest == side)
        found[mine] = space.marks(name, matches.sides[side][mine])
    return found


def ahead_ranks(matches: Matches, spaces: Sequence[Space], ties: Sequence[int]) -> list[Int64s]:
    """The same for results that any of their tuples may have found, so that those of all blocks can be put in one
    order: first the newest tuple's time and stream."""
    numbers = [space.taken(some) for space, some in zip(spaces, matches.sides, strict=True)]
    if len({space.position for space in spaces}) < len(spaces):
        return _place_keys(matches, spaces, ties, numbers)
    times = [space.times(some) for space, some in zip(spaces, matches.sides, strict=True)]
    newest = matches.newest
    keys = [
        np.choose(newest, times),
        np.array([space.position for space in spaces])[newest],
        np.choose(newest, numbers),
    ]
    if len(spaces) == 2:
        return [*keys, np.choose(1 - newest, times), np.choose(1 - newest, numbers)]
    for side in ties:
        is_other = newest != side
        keys += [is_other * times[side], is_other * numbers[side]]
    return keys


def _sorted_by(keys: Sequence[Int64s]) -> Int64s:
    """The order by several keys of numbers from 0 on: as one number each, where that fits."""
    packed = np.zeros(len(keys[0]), dtype=np.int64)
    room = 1
    for key in keys:
        values = int(key.max(initial=0)) + 1
        room *= values
        if room > 2**62:
            return np.lexsort(list(keys)[::-1])
        packed = packed * values + key
    return np.argsort(packed, kind="stable")


def _order_by_places(matches: Matches, spaces: Sequence[Space], ties: Sequence[int]) -> Int64s:
    numbers = [space.numbers(some) for space, some in zip(spaces, matches.sides, strict=True)]
    return np.lexsort(_place_keys(matches, spaces, ties, numbers)[::-1])


def _place_keys(
    matches: Matches, spaces: Sequence[Space], ties: Sequence[int], numbers_by_side: Sequence[Int64s]
) -> list[np.ndarray]:
    """Places are (time, stream, number); the newest's, the others' in the order of ``ties``, then all of them."""
    everything = np.arange(len(matches))
    times = np.stack([space.times(some) for space, some in zip(spaces, matches.sides, strict=True)])
    numbers = np.stack(numbers_by_side)
    streams = np.array([space.position for space in spaces])
    others = np.array([[side for side in ties if side != newest] for newest in range(len(spaces))])
    keys: list[np.ndarray] = []
    for sides in (matches.newest, *others[matches.newest].T):
        keys += [times[sides, everything], streams[sides], numbers[sides, everything]]
    for side in ties:
        keys += [times[side], numbers[side]]
    return keys


def _as_int64(values: pa.Array) -> pa.Array:
    return values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values


def _taken(chunks: Sequence[pa.Array], kind: pa.DataType, addresses: Int64s) -> pa.Array:
    """The values at these addresses, the chunks being one after the other."""
    if len(chunks) == 1:
        return chunks[0].take(pa.array(addresses))
    taken = pa.chunked_array(chunks, kind).take(pa.array(addresses))
    return taken.chunk(0) if taken.num_chunks == 1 else taken.combine_chunks()


def _column_or_nulls(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    index = batch.schema.get_field_index(name)
    return batch.column(index) if index >= 0 else pa.nulls(batch.num_rows, kind)
