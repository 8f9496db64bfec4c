"""The shared window join of one group in one shard: new tuples against held ones, in the total order of semantics.

      side 0   held runs  |-----r1-----|--r2--|-r3-|  new  a1   a2 a3        each new tuple probes the other side's
      side 1   held runs  |---r1---|----r2----|-r3-|  new    b1   b2         held runs, and its new tuples before it

Every pair is found once: by the newer of its two tuples. Probes are laid out in the total order and a probe's partners
are contiguous, oldest run first, so results come out in order without being sorted. Two cases are sorted afterwards:
self-joins (a tuple is newest in two roles; where the two roles have different keys, tuples bring their numbers) and
tuples that come when newer ones have been processed already (a run that goes on after its input had ended).

Owns: :class:`Block`, :class:`Space`, ``scan``. Cost: O(new tuples x runs x log run) plus O(matches); a slice of about
``SLICE_MATCHES`` matches at a time, so that memory does not follow the number of results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from headrace.engine.keys import Int64s
from headrace.engine.matching import bisect_within, expand_ranges, key_ranges, narrow_type
from headrace.engine.segments import NUMBER, PLACE, SEEN, Layout, Segment, build_segment, int64s_of
from headrace.engine.waiting import Released
from headrace.engine.window import Collected, Run
from headrace.plan.queries import Measure

SLICE_MATCHES = 1 << 20


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
class Matches:
    """Results as addresses into the two sides' spaces, in order; ``probe`` is the rank of the tuple that found each,
    ``from_left`` whether its newest is the left one, ``ages`` (where windows differ) how far behind it the other is."""

    left: Int64s
    right: Int64s
    probe: Int64s
    from_left: np.ndarray
    ages: Int64s | None = None

    def __len__(self) -> int:
        return len(self.left)

    def where(self, keep: np.ndarray | slice) -> Matches:
        """The results that a mask, an order of positions or a slice picks."""
        ages = None if self.ages is None else self.ages[keep]
        return Matches(self.left[keep], self.right[keep], self.probe[keep], self.from_left[keep], ages)

    def with_ages(self, sides: Sides) -> Matches:
        left, right = sides.spaces
        if sides.measures == (Measure.TIME, Measure.TIME):
            return replace(self, ages=np.abs(left.times(self.left) - right.times(self.right)))
        behind = [left.behind(self.left, right, self.right, sides.measures[1])]
        behind.append(right.behind(self.right, left, self.left, sides.measures[0]))
        return replace(self, ages=np.where(self.from_left, behind[0], behind[1]))


def make_block(released: Sequence[Released | None], layouts: Sequence[Layout]) -> Block:
    """A block of one release of each input. Inputs are in catalog order: the earlier wins ties."""
    parts = [one for one in released if one is not None]
    arrived_us = np.concatenate([one.arrived_us for one in parts])
    order = total_order(parts)
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


def total_order(parts: Sequence[Released]) -> Int64s:
    """The rows by time, ties as the inputs are given; of one stream's two inputs, as the tuples came, and a tuple after
    itself as right: it meets itself as left."""
    ts_us = np.concatenate([one.ts_us for one in parts])
    if not all(NUMBER in one.batch.schema.names for one in parts):
        return np.argsort(ts_us, kind="stable")
    numbers = np.concatenate([int64s_of(one.batch, NUMBER) for one in parts])
    of_input = np.repeat(np.arange(len(parts)), [len(one.ts_us) for one in parts])
    return np.lexsort((-of_input, numbers, ts_us))


class Space:
    """One side's rows, held and new, under one address each: run after run, the new tuples last."""

    def __init__(self, runs: Sequence[Run], new: NewRows | None, time: str) -> None:
        self.runs = tuple(runs)
        self.new = new
        self._time = time
        segments = [run.segment for run in runs] + ([new.segment] if new else [])
        self._batches = [segment.batch for segment in segments]
        self.bases = np.cumsum([0] + [segment.rows for segment in segments])

    @property
    def new_base(self) -> int:
        return int(self.bases[len(self.runs)])

    def column(self, name: str, kind: pa.DataType, addresses: Int64s) -> pa.Array:
        """The values of a column at these addresses; null where tuples were kept without it."""
        chunks = [_column_or_nulls(batch, name, kind) for batch in self._batches]
        if len(chunks) == 1:
            return chunks[0].take(pa.array(addresses))
        taken = pa.chunked_array(chunks, kind).take(pa.array(addresses))
        return taken.chunk(0) if taken.num_chunks == 1 else taken.combine_chunks()

    def behind(self, probes: Int64s, other: Space, partners: Int64s, measure: Measure) -> Int64s:
        """How far these partners are behind these probes, on the clock of the partners' side."""
        behind: Int64s
        if measure is Measure.TIME:
            behind = np.abs(self.times(probes) - other.times(partners))
        else:
            seen = self.column(SEEN, pa.int64(), probes).to_numpy()
            behind = seen - other.column(PLACE, pa.int64(), partners).to_numpy()
        return behind

    def times(self, addresses: Int64s) -> Int64s:
        values: Int64s = self.column(self._time, pa.timestamp("us", "UTC"), addresses).cast(pa.int64()).to_numpy()
        return values

    @property
    def is_numbered(self) -> bool:
        """Whether the rows have their places in the arrival order with them."""
        return any(NUMBER in batch.schema.names for batch in self._batches)

    def numbers(self, addresses: Int64s) -> Int64s:
        """What tells rows at one time apart: their numbers, or else their addresses, which rise with arrival within a
        key."""
        if not self.is_numbered:
            return addresses
        values: Int64s = self.column(NUMBER, pa.int64(), addresses).to_numpy()
        return values

    @property
    def collections(self) -> tuple[Collected, ...]:
        """How the rows of each run, and the new ones, were collected."""
        return (*(run.collected for run in self.runs), *((self.new.collected,) if self.new else ()))

    def which(self, addresses: Int64s) -> Int64s:
        """The run each address is in, counted as in ``collections``."""
        return np.searchsorted(self.bases, addresses, side="right") - 1


def _column_or_nulls(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    index = batch.schema.get_field_index(name)
    return batch.column(index) if index >= 0 else pa.nulls(batch.num_rows, kind)


KeySearch: TypeAlias = Callable[[Int64s, Int64s], tuple[Int64s, Int64s]]
"""How the rows with each probe's key are found: by the index, or by looking at every row (``matching``)."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The two sides of a join: their rows, and what a window is measured in when it is looked back into each."""

    spaces: tuple[Space, Space]
    measures: tuple[Measure, Measure] = (Measure.TIME, Measure.TIME)
    find: KeySearch = key_ranges
    is_resumed: bool = False
    """Whether the new tuples have been scanned before: then they are among the held ones too."""

    @property
    def is_self(self) -> bool:
        """Whether both sides are the same rows."""
        return self.spaces[0] is self.spaces[1]


@dataclass(frozen=True, slots=True)
class Reach:
    """How far back a scan looks into each side: partners older than ``after`` (None: from the probe itself) up to
    ``upto``."""

    upto: tuple[int, ...]
    after: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Ranges:
    """For each probe (row) and partner run (column) a range of partner addresses."""

    starts: Int64s
    lengths: Int64s
    own: Int64s
    ranks: Int64s


def scan(sides: Sides, reach: Reach) -> Iterator[Matches]:
    """All pairs that the new tuples make within reach, in result order, a slice at a time."""
    spaces = sides.spaces
    roles = [_ranges(sides, side, reach) for side in (0, 1)]
    if spaces[0].is_numbered or spaces[1].is_numbered or (comes_late(sides) and not sides.is_resumed):
        yield _by_places(sides, _all_matches(roles))
    elif sides.is_self:
        yield _by_rank(_all_matches(roles))
    else:
        yield from _in_order(roles)


def count_pairs(sides: Sides, windows: Sequence[tuple[int, ...]]) -> list[Int64s]:
    """For each window, how many pairs each new tuple finds, by rank, without listing them. A side's sizes are nested:
    each one's range is searched within the next larger one's. Where tuples come late, both sides' sizes must agree."""
    ranked = sum(len(space.new.ranks) for space in {id(one): one for one in sides.spaces}.values() if space.new)
    counts = [np.zeros(ranked, dtype=np.int64) for _ in windows]
    for side in (0, 1):
        new = sides.spaces[side].new
        if new is None:
            continue
        sizes = sorted({window[1 - side] for window in windows}, reverse=True)
        found = {size: np.zeros(len(new.ranks), dtype=np.int64) for size in sizes}
        for match in _key_matches(sides, side):
            for size in sizes:
                match = match.within(size, None, size)
                found[size] += match.high - match.low
        for count, window in zip(counts, windows, strict=True):
            count[new.ranks] += found[window[1 - side]]
    return counts


@dataclass(frozen=True, slots=True)
class KeyMatches:
    """In one run, each probe's range of rows with its key. ``clock`` is what windows are cut by, ``probes`` where each
    probe stands on it; no row of the run is outside ``span`` (None: some may be); ``ahead``: some may be newer than a
    probe."""

    clock: Int64s
    probes: Int64s
    span: tuple[int, int] | None
    low: Int64s
    high: Int64s
    ahead: bool = False

    def within(self, upto: int, after: int | None, ahead: int) -> KeyMatches:
        """The ranges cut down to rows that are more than ``after`` and at most ``upto`` behind the probes, or, where
        some may be, at most ``ahead`` before them: those look back at the probe."""
        low, high = self._since(self.probes - upto), self.high
        if self.ahead:
            high = bisect_within(self.clock, low, high, self.probes + ahead + 1)
        elif after is not None:
            high = bisect_within(self.clock, low, high, self.probes - after)
        return replace(self, low=low, high=high)

    def _since(self, bounds: Int64s) -> Int64s:
        """Where the rows at or after the bounds begin. A run wholly inside or outside the window is not searched."""
        if self.span is not None:
            if bounds.max() <= self.span[0]:
                return self.low
            if bounds.min() > self.span[1]:
                return self.high
        return bisect_within(self.clock, self.low, self.high, bounds)


def _key_matches(sides: Sides, side: int) -> Iterator[KeyMatches]:
    """What a side's probes match in each run of the other; of the block's own rows, those before the probe. In a
    self-join a tuple meets itself once: as left, and only in a window of time, which has no tuple before itself."""
    new, probed, measure = sides.spaces[side].new, sides.spaces[1 - side], sides.measures[1 - side]
    assert new is not None
    keys, probes = new.segment.keys, new.segment.probe_clock(measure)
    in_time = measure is Measure.TIME
    for run in probed.runs:
        clock = run.segment.clock(measure)
        low, high = sides.find(run.segment.keys, keys)
        if in_time:
            ahead = _is_ahead(run, new) and not sides.is_resumed
            yield KeyMatches(clock, probes, run.span_us, low, high, ahead)
        else:
            yield KeyMatches(clock, probes, None, low, bisect_within(clock, low, high, probes))
    if probed.new is not None and not sides.is_resumed:
        own = probed.new.segment
        low, high = sides.find(own.keys, keys)
        before = bisect_within(probed.new.ranks, low, high, new.ranks + int(sides.is_self and side == 0 and in_time))
        clock = own.clock(measure)
        if in_time:
            yield KeyMatches(clock, probes, (own.min_us, own.max_us), low, before)
        else:
            yield KeyMatches(clock, probes, None, low, bisect_within(clock, low, before, probes))


def comes_late(sides: Sides) -> bool:
    """Whether a held tuple is newer than a new one of the other side; at one time, the right one is."""
    left = sides.spaces[0].new
    apart = left is not None and not sides.is_self
    tied = apart and any(run.max_us == left.segment.min_us for run in sides.spaces[1].runs)  # type: ignore[union-attr]
    return tied or any(_is_ahead(run, sides.spaces[side].new) for side in (0, 1) for run in sides.spaces[1 - side].runs)


def _is_ahead(run: Run, new: NewRows | None) -> bool:
    return new is not None and run.max_us > new.segment.min_us


def _ranges(sides: Sides, side: int, reach: Reach) -> Ranges:
    """What a side's new tuples find in the other."""
    probing, probed = sides.spaces[side], sides.spaces[1 - side]
    new = probing.new
    if new is None:
        none = np.empty(0, dtype=np.int64)
        return Ranges(none.reshape(0, 1), none.reshape(0, 1), none, none)
    upto, after = reach.upto[1 - side], None if reach.after is None else reach.after[1 - side]
    found = [one.within(upto, after, reach.upto[side]) for one in _key_matches(sides, side)]
    if not found:
        zero = np.zeros(len(new.ranks), dtype=np.int64)
        found = [KeyMatches(zero, zero, None, zero, zero)]
    starts = np.stack([one.low + base for one, base in zip(found, probed.bases, strict=False)], axis=1)
    lengths = np.stack([one.high - one.low for one in found], axis=1)
    return Ranges(starts, lengths, probing.new_base + np.arange(len(new.ranks)), new.ranks)


def _in_order(roles: Sequence[Ranges]) -> Iterator[Matches]:
    """Both roles' probes merged by rank, then expanded: the order of results."""
    width = max(role.starts.shape[1] for role in roles)
    starts = np.concatenate([_padded(role.starts, width) for role in roles])
    lengths = np.concatenate([_padded(role.lengths, width) for role in roles])
    own = np.concatenate([role.own for role in roles])
    ranks = np.concatenate([role.ranks for role in roles])
    is_left = np.arange(len(own)) < len(roles[0].own)
    order = np.argsort(ranks, kind="stable")
    found = lengths.sum(axis=1)[order]
    narrow = narrow_type(int(own.max(initial=0)))
    for begin, end in _slices(found):
        probes, times = order[begin:end], found[begin:end]
        partner = expand_ranges(starts[probes].ravel(), lengths[probes].ravel())
        mine = np.repeat(own[probes].astype(narrow), times)
        left_found = np.repeat(is_left[probes], times)
        left, right = np.where(left_found, mine, partner), np.where(left_found, partner, mine)
        yield Matches(left, right, np.repeat(ranks[probes].astype(narrow), times), left_found)


def _padded(matrix: Int64s, width: int) -> Int64s:
    missing = width - matrix.shape[1]
    return np.pad(matrix, ((0, 0), (0, missing))) if missing else matrix


def _slices(found: Int64s) -> Iterator[tuple[int, int]]:
    """Runs of probes with about ``SLICE_MATCHES`` matches together; at least one probe each."""
    total = np.cumsum(found)
    begin = 0
    while begin < len(found):
        reached = int(total[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(total, reached + SLICE_MATCHES, side="right")), begin + 1)
        yield begin, end
        begin = end


def _all_matches(roles: Sequence[Ranges]) -> Matches:
    """Every pair of both roles, in no particular order."""
    found: list[tuple[np.ndarray, ...]] = []
    for side, role in enumerate(roles):
        partner = expand_ranges(role.starts.ravel(), role.lengths.ravel())
        probe = np.repeat(np.arange(len(role.own)), role.lengths.sum(axis=1))
        pair = (role.own[probe], partner)
        found.append((pair[side], pair[1 - side], role.ranks[probe], np.full(len(probe), side == 0)))
    return Matches(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _by_rank(matches: Matches) -> Matches:
    """A self-join's order: the probe is the newest; partners share its key, so their addresses are in place order."""
    older = np.minimum(matches.left, matches.right)
    return matches.where(np.lexsort((matches.left, older, matches.probe)))


def _by_places(sides: Sides, matches: Matches) -> Matches:
    """The order where a probe need not be the newest: by the newest tuple's place, the other's, then the left one's."""
    spaces = sides.spaces
    left_us, right_us = spaces[0].times(matches.left), spaces[1].times(matches.right)
    left, right = spaces[0].numbers(matches.left), spaces[1].numbers(matches.right)
    one_stream = sides.is_self or spaces[0].is_numbered or spaces[1].is_numbered
    is_left = (left_us > right_us) | ((left_us == right_us) & (left > right) & one_stream)
    newest, other = np.where(is_left, left, right), np.where(is_left, right, left)
    oldest_us, newest_us = np.minimum(left_us, right_us), np.maximum(left_us, right_us)
    order = np.lexsort((is_left, other, oldest_us, newest, ~is_left & (not one_stream), newest_us))
    in_time = Measure.ROWS not in sides.measures
    return replace(matches, from_left=is_left if in_time else matches.from_left).where(order)
