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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.engine.keys import Int64s
from headrace.engine.matching import bisect_within, expand_ranges, key_ranges, narrow_type
from headrace.engine.segments import NUMBER, Layout, Segment, build_segment
from headrace.engine.waiting import Released
from headrace.engine.window import Collected, Run

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
    ``ages_us`` (where windows differ) how far apart its tuples are."""

    left: Int64s
    right: Int64s
    probe: Int64s
    ages_us: Int64s | None = None

    def __len__(self) -> int:
        return len(self.left)

    def where(self, keep: np.ndarray | slice) -> Matches:
        """The results that a mask, an order of positions or a slice picks."""
        ages_us = None if self.ages_us is None else self.ages_us[keep]
        return Matches(self.left[keep], self.right[keep], self.probe[keep], ages_us)

    def with_ages(self, spaces: Sequence[Space]) -> Matches:
        return replace(self, ages_us=np.abs(spaces[0].times(self.left) - spaces[1].times(self.right)))


def make_block(released: Sequence[Released | None], layouts: Sequence[Layout]) -> Block:
    """A block of one release of each input. Inputs are in catalog order: the earlier wins ties."""
    parts = [one for one in released if one is not None]
    ts_us = np.concatenate([one.ts_us for one in parts])
    arrived_us = np.concatenate([one.arrived_us for one in parts])
    order = np.argsort(ts_us, kind="stable")
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


@dataclass(frozen=True, slots=True)
class Reach:
    """How far back a scan looks: partners older than ``after_us`` (None: from the probe itself) up to ``upto_us``."""

    upto_us: int
    after_us: int | None = None


@dataclass(frozen=True, slots=True)
class Ranges:
    """For each probe (row) and partner run (column) a range of partner addresses."""

    starts: Int64s
    lengths: Int64s
    own: Int64s
    ranks: Int64s


def scan(spaces: tuple[Space, Space], reach: Reach) -> Iterator[Matches]:
    """All pairs that the new tuples make within reach, in result order, a slice at a time."""
    roles = _roles(spaces, reach)
    if spaces[0].is_numbered or spaces[1].is_numbered or _comes_late(spaces):
        yield _by_places(spaces, _all_matches(roles), reach)
    elif spaces[0] is spaces[1]:
        yield _by_rank(_all_matches(roles))
    else:
        yield from _in_order(roles)


def count_pairs(spaces: tuple[Space, Space], windows_us: Sequence[int]) -> list[Int64s]:
    """For each window, how many pairs each new tuple finds, by rank, without listing them. Windows are nested: each
    one's range is searched within the next larger one's."""
    is_self = spaces[0] is spaces[1]
    ranked = sum(len(space.new.ranks) for space in {id(one): one for one in spaces}.values() if space.new)
    counts = [np.zeros(ranked, dtype=np.int64) for _ in windows_us]
    for side in (0, 1):
        new = spaces[side].new
        if new is None:
            continue
        found = [np.zeros(len(new.ranks), dtype=np.int64) for _ in windows_us]
        for match in _key_matches(spaces[1 - side], new, inclusive=is_self and side == 0):
            for window, window_us in reversed(list(enumerate(windows_us))):
                match = match.within(Reach(window_us), new.segment.ts_us)
                found[window] += match.high - match.low
        for count, mine in zip(counts, found, strict=True):
            count[new.ranks] += mine
    return counts


@dataclass(frozen=True, slots=True)
class KeyMatches:
    """In one run, each probe's range of rows with its key. ``span_us``: no row of the run is outside it (None: some
    may be); ``ahead``: some rows may be newer than a probe."""

    ts_us: Int64s
    span_us: tuple[int, int] | None
    low: Int64s
    high: Int64s
    ahead: bool = False

    def within(self, reach: Reach, probes_us: Int64s) -> KeyMatches:
        """The ranges cut down to the reach."""
        low, high = self._since(probes_us - reach.upto_us), self.high
        if self.ahead:
            high = bisect_within(self.ts_us, low, high, probes_us + reach.upto_us + 1)
        elif reach.after_us is not None:
            high = bisect_within(self.ts_us, low, high, probes_us - reach.after_us)
        return replace(self, low=low, high=high)

    def _since(self, bounds_us: Int64s) -> Int64s:
        """Where the rows at or after the bounds begin. A run wholly inside or outside the window is not searched."""
        if self.span_us is not None:
            if bounds_us.max() <= self.span_us[0]:
                return self.low
            if bounds_us.min() > self.span_us[1]:
                return self.high
        return bisect_within(self.ts_us, self.low, self.high, bounds_us)


def _key_matches(probed: Space, new: NewRows, *, inclusive: bool) -> Iterator[KeyMatches]:
    """The probes' matches in each run of the probed side; of the block's own rows, those before the probe."""
    probes = new.segment.keys
    for run in probed.runs:
        yield KeyMatches(run.segment.ts_us, run.span_us, *key_ranges(run.segment.keys, probes), _is_ahead(run, new))
    if probed.new is not None:
        own = probed.new.segment
        low, high = key_ranges(own.keys, probes)
        before = bisect_within(probed.new.ranks, low, high, new.ranks + int(inclusive))
        yield KeyMatches(own.ts_us, (own.min_us, own.max_us), low, before)


def _roles(spaces: tuple[Space, Space], reach: Reach) -> list[Ranges]:
    """What the new tuples find as left and as right. In a self-join a tuple meets itself once: as left."""
    is_self = spaces[0] is spaces[1]
    return [_ranges(spaces[side], spaces[1 - side], reach, inclusive=is_self and side == 0) for side in (0, 1)]


def _comes_late(spaces: tuple[Space, Space]) -> bool:
    """Whether a held tuple is newer than a new one of the other side; at one time, the right one is."""
    left = spaces[0].new
    apart = left is not None and spaces[0] is not spaces[1]
    tied = apart and any(run.max_us == left.segment.min_us for run in spaces[1].runs)  # type: ignore[union-attr]
    return tied or any(_is_ahead(run, spaces[side].new) for side in (0, 1) for run in spaces[1 - side].runs)


def _is_ahead(run: Run, new: NewRows | None) -> bool:
    return new is not None and run.max_us > new.segment.min_us


def _ranges(probing: Space, probed: Space, reach: Reach, *, inclusive: bool) -> Ranges:
    new = probing.new
    if new is None:
        none = np.empty(0, dtype=np.int64)
        return Ranges(none.reshape(0, 1), none.reshape(0, 1), none, none)
    probes_us = new.segment.ts_us
    found = [one.within(reach, probes_us) for one in _key_matches(probed, new, inclusive=inclusive)]
    if not found:
        zero = np.zeros(len(new.ranks), dtype=np.int64)
        found = [KeyMatches(zero, None, zero, zero)]
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
        yield Matches(left, right, np.repeat(ranks[probes].astype(narrow), times))


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
    found: list[tuple[Int64s, Int64s, Int64s]] = []
    for side, role in enumerate(roles):
        partner = expand_ranges(role.starts.ravel(), role.lengths.ravel())
        probe = np.repeat(np.arange(len(role.own)), role.lengths.sum(axis=1))
        pair = (role.own[probe], partner)
        found.append((pair[side], pair[1 - side], role.ranks[probe]))
    left, right, probes = (np.concatenate(column) for column in zip(*found, strict=True))
    return Matches(left, right, probes)


def _by_rank(matches: Matches) -> Matches:
    """A self-join's order: the probe is the newest; partners share its key, so their addresses are in place order."""
    older = np.minimum(matches.left, matches.right)
    return matches.where(np.lexsort((matches.left, older, matches.probe)))


def _by_places(spaces: tuple[Space, Space], matches: Matches, reach: Reach) -> Matches:
    """The order where a probe need not be the newest: by the newest tuple's place, the other's, then the left one's."""
    left_us, right_us = spaces[0].times(matches.left), spaces[1].times(matches.right)
    left, right = spaces[0].numbers(matches.left), spaces[1].numbers(matches.right)
    one_stream = spaces[0] is spaces[1] or spaces[0].is_numbered or spaces[1].is_numbered
    is_left = (left_us > right_us) | ((left_us == right_us) & (left > right) & one_stream)
    newest, other = np.where(is_left, left, right), np.where(is_left, right, left)
    oldest_us, newest_us = np.minimum(left_us, right_us), np.maximum(left_us, right_us)
    order = np.lexsort((is_left, other, oldest_us, newest, ~is_left & (not one_stream), newest_us))
    if reach.after_us is not None:
        order = order[(newest_us - oldest_us)[order] > reach.after_us]
    return matches.where(order)
