"""Partial results of a multi-way join, extended from side to side: the nested loops of paper 002, on whole columns.

      bound  b            (k)  (k)  (k)            each partial result is one address a bound side;
      step to c            |  / |    x             a range of c's index a partial result and run,
             b, c         (k,y)(k,y')(k',y)        expanded, then checked

Owns: :class:`Walk`, which goes through steps, and the two ways of meeting: :class:`NewestFirst`, where the tuple that
a walk starts from (or passes) is the newest, and :class:`AnyNewest`, where it need not be. Cost: O(partial results x
runs x log run) to search, O(rows looked at) to expand; about ``EXPANDED_TOGETHER`` partial results exist at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from headrace.engine.arrow_types import arrow_type
from headrace.engine.evaluate import filter_mask
from headrace.engine.keys import Int64s
from headrace.engine.limits import limits_of, value_ranges
from headrace.engine.matching import expand_ranges, key_ranges
from headrace.engine.segments import PLACE, IndexView, Segment
from headrace.engine.spaces import KeySearch, Space
from headrace.engine.steps import Access, Step
from headrace.plan.expressions import ColumnRef
from headrace.plan.queries import Measure

EXPANDED_TOGETHER = 1 << 21

Bounds: TypeAlias = tuple[Int64s, Int64s]
"""For each partial result, from where to (not including) where on a clock."""
Piece: TypeAlias = tuple[Segment, int, tuple[int, int] | None]
Search: TypeAlias = Callable[[Segment, tuple[int, int] | None], tuple[Int64s, Int64s]]
"""From a segment and the times it spans to a range of its rows for each partial result."""


@dataclass(frozen=True, slots=True)
class Partial:
    """Partial results: an address for each bound side, all of one length."""

    addresses: Mapping[int, Int64s]
    size: int

    def where(self, keep: np.ndarray | slice) -> Partial:
        kept = {side: one[keep] for side, one in self.addresses.items()}
        return Partial(kept, len(next(iter(kept.values()))))

    def extended(self, times: Int64s, side: int, addresses: Int64s) -> Partial:
        """Each partial result so many times, with these partners."""
        repeated = {one: np.repeat(some, times) for one, some in self.addresses.items()}
        return Partial({**repeated, side: addresses}, len(addresses))


class Meeting(Protocol):
    """Which tuples may be in a result with the new tuple of the origin."""

    @property
    def origin(self) -> int: ...

    def bounds(self, walk: Walk, partial: Partial, side: int) -> Bounds | None:
        """Where on a side's clock partners may be; None while the new tuple is not bound."""

    def with_new(self, side: int) -> bool:
        """Whether a side's new tuples count."""

    def is_apart(self, walk: Walk, partial: Partial, side: int) -> np.ndarray | None:
        """Which partners are as they should be where a clock cannot tell; None: all."""


@dataclass(frozen=True, slots=True)
class Ages:
    """How far behind the newest tuple a side may be: more than ``after`` (None: from the tuple itself), at most
    ``upto``."""

    upto: int
    after: int | None = None


@dataclass(frozen=True, slots=True)
class NewestFirst:
    """The new tuple of the origin is the newest of a result."""

    origin: int
    ages: tuple[Ages, ...]
    new_sides: bool = True

    def bounds(self, walk: Walk, partial: Partial, side: int) -> Bounds | None:
        if side == self.origin or self.origin not in partial.addresses:
            return None
        probing, probed, age = walk.spaces[self.origin], walk.spaces[side], self.ages[side]
        mine = partial.addresses[self.origin]
        if walk.measures[side] is Measure.TIME:
            now = probing.new_clock(mine, Measure.TIME, probed.input)
            end = now + (probed.position <= probing.position)
        else:
            now = end = probing.new_clock(mine, Measure.ROWS, probed.input)
        return now - age.upto, end if age.after is None else now - age.after

    def with_new(self, side: int) -> bool:  # noqa: ARG002
        return self.new_sides

    def is_apart(self, walk: Walk, partial: Partial, side: int) -> np.ndarray | None:
        """Of one stream's tuples at one time, those before the newest by number; it meets itself in later sides."""
        probing, probed = walk.spaces[self.origin], walk.spaces[side]
        if probing.position != probed.position or walk.measures[side] is not Measure.TIME:
            return None
        newest, other = partial.addresses[self.origin], partial.addresses[side]
        numbers, mine = probed.numbers(other), probing.numbers(newest)
        before = (numbers < mine) | ((numbers == mine) & (side > self.origin))
        is_before: np.ndarray = before | (probed.times(other) < probing.times(newest))
        return is_before


@dataclass(frozen=True, slots=True)
class AnyNewest:
    """The origin is the first side with a new tuple in a result; partners are within ``far_us`` of it, either way, or
    anywhere, where rows are counted from one to the other."""

    origin: int
    far_us: int

    def bounds(self, walk: Walk, partial: Partial, side: int) -> Bounds | None:
        if Measure.ROWS in (walk.measures[self.origin], walk.measures[side]):
            return None
        now = walk.spaces[self.origin].new_clock(partial.addresses[self.origin], Measure.TIME, side)
        return now - self.far_us, now + self.far_us + 1

    def with_new(self, side: int) -> bool:
        return side > self.origin

    def is_apart(self, walk: Walk, partial: Partial, side: int) -> np.ndarray | None:  # noqa: ARG002
        return None


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk goes through."""

    spaces: tuple[Space, ...]
    measures: tuple[Measure, ...]
    steps: tuple[Step, ...]
    finds: tuple[KeySearch, ...]
    meeting: Meeting

    def results(self, start: Partial, done: int = 1) -> Iterator[Partial]:
        """Partial results through all steps that are left: large ones in parts, each to the end."""
        if done == len(self.steps):
            yield start
            return
        step = self.steps[done]
        for part in self._extended(start, step):
            checked = self._checked(part, step)
            if checked.size:
                yield from self.results(checked, done + 1)

    def _extended(self, partial: Partial, step: Step) -> Iterator[Partial]:
        """The partial results with the candidates on the step's side."""
        pieces = self._pieces(step.side)
        if not pieces:
            return
        bounds = self.meeting.bounds(self, partial, step.side)
        search = self._search(partial, step, bounds)
        if (
            bounds is not None
            and step.access in (Access.RANGE, Access.ALL)
            and self.measures[step.side] is Measure.TIME
        ):
            search = _reached(search, bounds)
        found = [search(segment, span) for segment, _, span in pieces]
        starts = np.stack([low for low, _ in found], axis=1)
        lengths = np.stack([high - low for low, high in found], axis=1)
        for some in parts_of(lengths.sum(axis=1)):
            addresses = _addresses(_index_of(step), pieces, starts[some], lengths[some])
            yield partial.where(some).extended(lengths[some].sum(axis=1), step.side, addresses)

    def _pieces(self, side: int) -> list[Piece]:
        space = self.spaces[side]
        if side == self.meeting.origin:
            assert space.new is not None
            return [(space.new.segment, space.new_base, None)]
        return list(space.pieces(new=self.meeting.with_new(side)))

    def _search(self, partial: Partial, step: Step, bounds: Bounds | None) -> Search:
        """How a segment of the step's side is searched for candidates; what is looked for is worked out once."""
        measure = self.measures[step.side]
        if step.access is Access.KEY:
            assert step.key is not None
            equal, bound_side = step.key, step.key.bound_side
            keys = self.spaces[bound_side].key_numbers(equal.bound_index, partial.addresses[bound_side])
            find = self._finder(step.side, keys)

            def by_key(segment: Segment, span: tuple[int, int] | None) -> tuple[Int64s, Int64s]:
                view = segment.index(equal.index)
                low, high = find(view.keys)
                spanned = span if measure is Measure.TIME else None
                return (
                    (low, high)
                    if bounds is None
                    else cut_range(view, segment.clock(measure), low, high, bounds, spanned)
                )

            return by_key
        if step.access is Access.RANGE:
            limits = limits_of(step.ranges, self._reader(partial), partial.size)
            index = step.ranges[0].index
            return lambda segment, _: value_ranges(segment.index(index).keys, limits, partial.size)
        if step.access is Access.TIME and bounds is not None:
            since, until = bounds[0], np.maximum(*bounds)
            return lambda segment, _: (
                np.searchsorted(segment.clock(measure), since),
                np.searchsorted(segment.clock(measure), until),
            )
        none = np.zeros(partial.size, dtype=np.int64)
        return lambda segment, _: (none, np.full(partial.size, segment.rows))

    def _finder(self, side: int, keys: Int64s) -> Callable[[Int64s], tuple[Int64s, Int64s]]:
        """How these keys are found in a run. By an index, in their order and each once: a search is then near the one
        before it, in the processor's cache too."""
        find = self.finds[side]
        if find is not key_ranges:
            return lambda held: find(held, keys)
        distinct, of_row = np.unique(keys, return_inverse=True)

        def found(held: Int64s) -> tuple[Int64s, Int64s]:
            low, high = key_ranges(held, distinct)
            return low[of_row], high[of_row]

        return found

    # --- what must hold

    def _checked(self, partial: Partial, step: Step) -> Partial:
        """The partial results for which all holds that the step's side completes."""
        origin = self.meeting.origin
        arrived = [side for side in partial.addresses if side != origin] if step.side == origin else [step.side]
        for side in arrived:
            partial = self._met(partial, step, side)
        for equal in step.equals:
            mine = self.spaces[step.side].key_numbers(equal.index, partial.addresses[step.side])
            theirs = self.spaces[equal.bound_side].key_numbers(equal.bound_index, partial.addresses[equal.bound_side])
            partial = partial.where(mine == theirs)
        return self._filtered(partial, step)

    def _met(self, partial: Partial, step: Step, side: int) -> Partial:
        """The partial results whose tuple of that side may be in a result with the new tuple."""
        if self.meeting.origin not in partial.addresses or not partial.size:
            return partial
        if step.side == self.meeting.origin or step.access in (Access.RANGE, Access.ALL):
            bounds = self.meeting.bounds(self, partial, side)
            if bounds is not None:
                clock = self._clock(side, partial.addresses[side])
                partial = partial.where((clock >= bounds[0]) & (clock < bounds[1]))
        apart = self.meeting.is_apart(self, partial, side)
        return partial if apart is None else partial.where(apart)

    def _clock(self, side: int, addresses: Int64s) -> Int64s:
        if self.measures[side] is Measure.TIME:
            return self.spaces[side].times(addresses)
        places: Int64s = self.spaces[side].column(PLACE, pa.int64(), addresses).to_numpy()
        return places

    def _filtered(self, partial: Partial, step: Step) -> Partial:
        if not step.predicates or not partial.size:
            return partial
        mask = filter_mask(step.predicates, self._reader(partial), partial.size)
        return partial if mask is None else partial.where(np.asarray(mask))

    def _reader(self, partial: Partial) -> Callable[[ColumnRef], pa.Array]:
        """Columns of partial results, each gathered once: that goes through all runs of a side."""
        gathered: dict[ColumnRef, pa.Array] = {}

        def column(ref: ColumnRef) -> pa.Array:
            if ref not in gathered:
                addresses = partial.addresses[ref.source]
                gathered[ref] = self.spaces[ref.source].column(ref.name, arrow_type(ref.type), addresses)
            return gathered[ref]

        return column


def _reached(search: Search, bounds: Bounds) -> Search:
    """A search that does not look into segments which are out of reach; what it finds elsewhere is in no order of
    time."""
    since, until = bounds

    def reaching(segment: Segment, span: tuple[int, int] | None) -> tuple[Int64s, Int64s]:
        if span is None:
            return search(segment, span)
        is_out = (since > span[1]) | (until <= span[0])
        none = np.zeros(len(since), dtype=np.int64)
        if is_out.all():
            return none, none
        low, high = search(segment, span)
        return low, np.where(is_out, low, high)

    return reaching


def cut_range(
    view: IndexView, clock: Int64s, low: Int64s, high: Int64s, bounds: Bounds, span: tuple[int, int] | None
) -> tuple[Int64s, Int64s]:
    """Ranges of one key, in time order, cut to the bounds; a segment that is wholly inside is not searched."""
    since, until = bounds
    if span is None or since.max(initial=span[0]) > span[0]:
        low = view.within(clock, low, high, since)
    if span is None or until.min(initial=span[1] + 1) <= span[1]:
        high = view.within(clock, low, high, until)
    return low, high


def parts_of(lengths: Int64s) -> Iterator[slice]:
    """Stretches of partial results that become about ``EXPANDED_TOGETHER`` each; at least one each."""
    total = np.cumsum(lengths)
    begin = 0
    while begin < len(lengths):
        reached = int(total[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(total, reached + EXPANDED_TOGETHER, side="right")), begin + 1)
        yield slice(begin, end)
        begin = end


def _index_of(step: Step) -> int:
    return step.key.index if step.key else step.ranges[0].index if step.ranges else 0


def _addresses(index: int, pieces: Sequence[Piece], starts: Int64s, lengths: Int64s) -> Int64s:
    """The addresses of all rows in ranges of an index, a row of ranges (one a piece) for each partial result."""
    bases = np.array([base for _, base, _ in pieces])
    found = expand_ranges((starts + bases).ravel(), lengths.ravel())
    if index == 0:
        return found
    of_piece = np.repeat(np.tile(np.arange(len(pieces)), len(starts)), lengths.ravel())
    for number, (segment, base, _) in enumerate(pieces):
        rows = segment.index(index).rows
        assert rows is not None
        mine = np.flatnonzero(of_piece == number)
        found[mine] = base + rows[found[mine] - base]
    return found
