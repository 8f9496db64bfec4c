"""The shared window join of two sides on a key: new tuples against held ones, in the total order of semantics.

      side 0   held runs  |-----r1-----|--r2--|-r3-|  new  a1   a2 a3        each new tuple probes the other side's
      side 1   held runs  |---r1---|----r2----|-r3-|  new    b1   b2         held runs, and its new tuples before it

Every pair is found once: by the newer of its two tuples. Probes are laid out in the total order and a probe's partners
are contiguous, oldest run first, so results come out in order without being sorted. Two cases are sorted afterwards:
self-joins (a tuple is newest in two roles; where the two roles have different keys, tuples bring their numbers) and
tuples that come when newer ones have been processed already (a run that goes on after its input had ended).

Owns: :class:`Sides`, ``scan``. Cost: O(new tuples x runs x log run) plus O(matches); a slice of about
``SLICE_MATCHES`` matches at a time, so that memory does not follow the number of results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.engine.keys import Int64s
from headrace.engine.matching import bisect_within, expand_ranges, key_ranges, narrow_type
from headrace.engine.spaces import KeySearch, Matches, Reach, Space
from headrace.engine.window import Run
from headrace.plan.queries import Measure

SLICE_MATCHES = 1 << 20


@dataclass(frozen=True, slots=True)
class Sides:
    """The two sides of a join: their rows, and what a window is measured in when it is looked back into each."""

    spaces: tuple[Space, Space]
    measures: tuple[Measure, Measure] = (Measure.TIME, Measure.TIME)
    finds: tuple[KeySearch, KeySearch] = (key_ranges, key_ranges)
    is_resumed: bool = False
    """Whether the new tuples have been scanned before: then they are among the held ones too."""

    @property
    def is_self(self) -> bool:
        """Whether both sides are the same rows."""
        return self.spaces[0] is self.spaces[1]

    @property
    def is_of_one_stream(self) -> bool:
        """Whether the sides' tuples are told apart by number."""
        return self.is_self or self.spaces[0].is_numbered or self.spaces[1].is_numbered

    @property
    def is_late(self) -> bool:
        return comes_late(self)

    def scan(self, reach: Reach) -> Iterator[Matches]:
        return scan(self, reach)

    def scan_unordered(self, reach: Reach) -> Iterator[Matches]:
        return scan_unordered(self, reach)

    def counts(self, windows: Sequence[tuple[int, ...]]) -> list[Int64s]:
        return count_pairs(self, windows)


@dataclass(frozen=True, slots=True)
class Ranges:
    """For each probe (row) and partner run (column) a range of partner addresses."""

    starts: Int64s
    lengths: Int64s
    own: Int64s
    ranks: Int64s

    def part(self, begin: int, end: int) -> Ranges:
        """Those of some of the probes."""
        return Ranges(self.starts[begin:end], self.lengths[begin:end], self.own[begin:end], self.ranks[begin:end])


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


def scan_unordered(sides: Sides, reach: Reach) -> Iterator[Matches]:
    """The same pairs for who puts them in order: a slice at a time also where tuples come late, in order within it."""
    if sides.is_self or sides.is_resumed or not comes_late(sides):
        yield from scan(sides, reach)
        return
    for side in (0, 1):
        role = _ranges(sides, side, reach)
        found = role.lengths.sum(axis=1)
        for begin, end in _slices(found):
            if found[begin:end].any():
                yield _by_places(sides, _matches_of(role.part(begin, end), side))


def count_pairs(sides: Sides, windows: Sequence[tuple[int, ...]]) -> list[Int64s]:
    """For each window, how many pairs each new tuple finds, by rank, without listing them. A side's sizes are nested:
    each one's range is searched within the next larger one's. Where tuples come late, both sides' sizes must agree, and
    be of one kind."""
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
class Newer:
    """Where in each range of one key the rows begin that are newer than the probe. They look back at it: in time, if
    they do at all. Rows that an end has released are not moved on by what comes later."""

    begin: Int64s
    ts_us: Int64s
    probes_us: Int64s
    in_time: bool

    def until(self, high: Int64s, ahead_us: int) -> Int64s:
        """Where those end that are at most so far before the probe."""
        return (
            bisect_within(self.ts_us, self.begin, high, self.probes_us + ahead_us + 1) if self.in_time else self.begin
        )


@dataclass(frozen=True, slots=True)
class KeyMatches:
    """In one run, each probe's range of rows with its key. ``clock`` is what windows are cut by, ``probes`` where each
    probe stands on it; no row of the run is outside ``span`` (None: some may be); ``newer``, where some may be."""

    clock: Int64s
    probes: Int64s
    span: tuple[int, int] | None
    low: Int64s
    high: Int64s
    newer: Newer | None = None

    def within(self, upto: int, after: int | None, ahead: int) -> KeyMatches:
        """The ranges cut down to rows that are more than ``after`` and at most ``upto`` behind the probes, or, where
        some may be, at most ``ahead`` before them: those look back at the probe."""
        low, high = self._since(self.probes - upto), self.high
        if self.newer is not None:
            low, high = np.minimum(low, self.newer.begin), self.newer.until(high, ahead)
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
    keys, probes = new.segment.keys, new.segment.probe_clock(measure, probed.input)
    in_time = measure is Measure.TIME
    for run in probed.runs:
        clock = run.segment.clock(measure)
        low, high = sides.finds[1 - side](run.segment.keys, keys)
        newer = _newer(sides, side, run, low, high)
        if in_time:
            yield KeyMatches(clock, probes, run.span_us, low, high, newer)
        else:
            yield KeyMatches(clock, probes, None, low, bisect_within(clock, low, high, probes), newer)
    if probed.new is not None and not sides.is_resumed:
        own = probed.new.segment
        low, high = sides.finds[1 - side](own.keys, keys)
        before = bisect_within(probed.new.ranks, low, high, new.ranks + int(sides.is_self and side == 0 and in_time))
        clock = own.clock(measure)
        if in_time:
            yield KeyMatches(clock, probes, (own.min_us, own.max_us), low, before)
        else:
            yield KeyMatches(clock, probes, None, low, bisect_within(clock, low, before, probes))


def _newer(sides: Sides, side: int, run: Run, low: Int64s, high: Int64s) -> Newer | None:
    """What of a run's ranges is newer than a side's new tuples. Where windows are of rows alone, those that were
    released before them are older, whatever their times."""
    new = sides.spaces[side].new
    if sides.is_resumed or Measure.TIME not in sides.measures or new is None or not _is_ahead(sides, side, run):
        return None
    ts_us, probes_us = run.segment.ts_us, new.segment.ts_us
    begin = bisect_within(ts_us, low, high, probes_us + (not _is_first_at_tie(sides, side)))
    return Newer(begin, ts_us, probes_us, sides.measures[side] is Measure.TIME)


def comes_late(sides: Sides) -> bool:
    """Whether a held tuple is newer than a new one of the other side."""
    return any(_is_ahead(sides, side, run) for side in (0, 1) for run in sides.spaces[1 - side].runs)


def _is_ahead(sides: Sides, side: int, run: Run) -> bool:
    """Whether some of a run is newer than a new tuple of a side."""
    new = sides.spaces[side].new
    return new is not None and run.max_us >= new.segment.min_us + (not _is_first_at_tie(sides, side))


def _is_first_at_tie(sides: Sides, side: int) -> bool:
    """Whether a side's tuples are older than the other's at their time. Of one stream, those that came first are."""
    return side == 0 and not sides.is_of_one_stream


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
        yield Matches((left, right), np.repeat(ranks[probes].astype(narrow), times), 1 - left_found.astype(np.int8))


def _padded(matrix: Int64s, width: int) -> Int64s:
    if matrix.shape[1] == width:
        return matrix
    wide = np.zeros((len(matrix), width), dtype=matrix.dtype)
    wide[:, : matrix.shape[1]] = matrix
    return wide


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
    left, right = (_matches_of(role, side) for side, role in enumerate(roles))
    sides = (np.concatenate([left.sides[side], right.sides[side]]) for side in (0, 1))
    ranks, newest = np.concatenate([left.probe, right.probe]), np.concatenate([left.newest, right.newest])
    return Matches(tuple(sides), ranks, newest)


def _matches_of(role: Ranges, side: int) -> Matches:
    """Every pair that a side's probes find."""
    partner = expand_ranges(role.starts.ravel(), role.lengths.ravel())
    probe = np.repeat(np.arange(len(role.own)), role.lengths.sum(axis=1))
    pair = (role.own[probe], partner)
    return Matches((pair[side], pair[1 - side]), role.ranks[probe], np.full(len(probe), side, dtype=np.int8))


def _by_rank(matches: Matches) -> Matches:
    """A self-join's order: the probe is the newest; partners share its key, so their addresses are in place order."""
    left, right = matches.sides
    return matches.where(np.lexsort((left, np.minimum(left, right), matches.probe)))


def _by_places(sides: Sides, matches: Matches) -> Matches:
    """The order where a probe need not be the newest: by the newest tuple's place, the other's, then the left one's."""
    spaces = sides.spaces
    left_us, right_us = (space.times(some) for space, some in zip(spaces, matches.sides, strict=True))
    left, right = (space.numbers(some) for space, some in zip(spaces, matches.sides, strict=True))
    one_stream = sides.is_of_one_stream
    is_left = (left_us > right_us) | ((left_us == right_us) & (left > right) & one_stream)
    newest, other = np.where(is_left, left, right), np.where(is_left, right, left)
    oldest_us, newest_us = np.minimum(left_us, right_us), np.maximum(left_us, right_us)
    order = np.lexsort((is_left, other, oldest_us, newest, ~is_left & (not one_stream), newest_us))
    in_time = Measure.TIME in sides.measures
    return replace(matches, newest=1 - is_left.astype(np.int8) if in_time else matches.newest).where(order)
