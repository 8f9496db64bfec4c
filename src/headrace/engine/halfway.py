"""A half-way join: new tuples of one child of a join probe the state of the other (paper 001, section 2.1).

      new a b (k)  --key, until-->  state of c    . . x . x .|        partners are held, or new and before the probe;
                                                  ---------- k        windows, other keys, predicates, then freshness

Each pair is found once: of two new tuples by the later, of a new and a held one by the new. So it does not matter in
how many blocks tuples come. Where some come when newer ones have been processed (late), held partners may be newer than
a probe; then windows are looked at both ways.

Owns: :class:`Link` (what joins two states), :class:`Now` (what freshness is measured by), :class:`Probe`. Cost:
O(probes x runs x log run) to search, O(partners) to list; about ``EXPANDED_TOGETHER`` pairs exist at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.engine.arrow_types import arrow_type
from headrace.engine.evaluate import filter_mask
from headrace.engine.keys import Int64s
from headrace.engine.limits import limits_of, value_ranges
from headrace.engine.matching import expand_ranges, key_ranges
from headrace.engine.relations import Piece, Relation, SideFacts, StreamRelation
from headrace.engine.segments import IndexView
from headrace.engine.steps import best_ranges
from headrace.engine.walking import parts_of
from headrace.plan.expressions import ColumnRef, Expression, sources_of
from headrace.plan.joingraph import JoinGraph
from headrace.plan.queries import Measure
from headrace.plan.ranges import Range
from headrace.plan.trees import HalfWayJoin, Sides


@dataclass(frozen=True, slots=True)
class Link:
    """What joins a half-way join's two states: attribute classes (the first is searched by), a range where there is no
    class and the partner is a stream, and what can be checked now and could not below."""

    half: HalfWayJoin
    classes: tuple[int, ...]
    ranges: tuple[Range, ...]
    predicates: tuple[Expression, ...]


def link_of(graph: JoinGraph, half: HalfWayJoin) -> Link:
    own, partner, both = set(half.own), set(half.partner), set(half.result)
    classes = shared_classes(graph, half.own, half.partner)
    is_searched = not classes and len(partner) == 1
    ranges = best_ranges(graph, frozenset(own), half.partner[0]) if is_searched else ()
    reading = [(one, sources_of(one)) for one in graph.predicates]
    predicates = tuple(one for one, read in reading if read <= both and not read <= own and not read <= partner)
    return Link(half, classes, ranges, predicates)


def shared_classes(graph: JoinGraph, own: Sides, partner: Sides) -> tuple[int, ...]:
    """The attribute classes that both states have keys of."""
    found = [number for number, one in enumerate(graph.classes) if {*own} & {*one.sides} and {*partner} & {*one.sides}]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Now:
    """When a step's results are released: the time, and by side how many tuples of its stream have arrived, where that
    is counted. ``is_enforced``: stale ones are left out, not only counted."""

    us: int
    arrived_rows: tuple[int, ...]
    is_enforced: bool = True


@dataclass(frozen=True, slots=True)
class Found:
    """Pairs: the probe's address in its own state, the partner's in the other, and the probe's rank."""

    mine: Int64s
    theirs: Int64s
    ranks: Int64s

    def where(self, keep: np.ndarray) -> Found:
        return Found(self.mine[keep], self.theirs[keep], self.ranks[keep])

    def __len__(self) -> int:
        return len(self.ranks)


@dataclass(slots=True)
class Probe:
    """What goes on when new tuples of one state probe another. ``since``: where a partner is measured in joined tuples,
    by rank of a probe, from where on its clock they are held."""

    graph: JoinGraph
    link: Link
    own: Relation
    partner: Relation
    facts: Sequence[SideFacts]
    now: Now
    is_late: bool = False
    since: Callable[[Int64s], Int64s] | None = None
    is_root: bool = False
    stale: int = field(default=0)
    """Pairs that were not fresh any more."""

    def pairs(self, probes: Int64s, ranks: Int64s) -> Iterator[Found]:
        """What these new tuples find, large amounts in parts."""
        pieces = self.partner.pieces
        if not len(probes) or not pieces:
            return
        ranges = [self._range(piece, probes, ranks) for piece in pieces]
        starts = np.stack([low for _, low, _ in ranges], axis=1)
        lengths = np.stack([np.maximum(high - low, 0) for _, low, high in ranges], axis=1)
        views = [view for view, _, _ in ranges]
        for some in parts_of(lengths.sum(axis=1)):
            found = self._expanded(pieces, views, starts[some], lengths[some], probes[some], ranks[some])
            if len(found):
                checked = self._checked(found)
                if len(checked):
                    yield checked

    def is_fresh(self, relation: Relation, addresses: Int64s) -> np.ndarray:
        """Which rows have no tuple that is too old by now."""
        fresh: np.ndarray = relation.fresh_us(addresses) >= self.now.us
        for side in relation.sides:
            facts = self.facts[side]
            if facts.measure is Measure.ROWS:
                fresh &= relation.places(side, addresses) >= self.now.arrived_rows[side] - facts.fresh
        return fresh

    # --- searching

    def _range(self, piece: Piece, probes: Int64s, ranks: Int64s) -> tuple[IndexView, Int64s, Int64s]:
        """The rows of a piece that may be partners, as ranges of an index."""
        segment = piece.segment
        if self.link.classes:
            of = self.graph.classes[self.link.classes[0]]
            view = self.partner.index(segment, of)
            low, high = self._by_key(view, self.own.class_numbers(self.link.classes[0], of, probes))
            return view, *self._cut(piece, view, low, high, self._bounds(probes, ranks))
        if self.link.ranges:
            view = segment.index(self.link.ranges[0].index)
            read = self._reader(dict.fromkeys(self.own.sides, (self.own, probes)))
            limits = limits_of(self.link.ranges, read, len(probes))
            return view, *value_ranges(view.keys, limits, len(probes))
        view = self.partner.index(segment, None)
        low, high = np.zeros(len(probes), dtype=np.int64), np.full(len(probes), segment.rows)
        if not self._is_cut:
            return view, low, high
        return view, *self._cut(piece, view, low, high, self._bounds(probes, ranks))

    @property
    def _is_cut(self) -> bool:
        """Whether rows of one key, or all of them where there is none, are in the order of their clock."""
        if self.link.classes or not isinstance(self.partner, StreamRelation):
            return True
        return not self.link.ranges and not self.graph.indexes[self.partner.sides[0]]

    @staticmethod
    def _by_key(view: IndexView, keys: Int64s) -> tuple[Int64s, Int64s]:
        """Keys are looked for in their order and each once: a search is then near the one before it."""
        distinct, of_row = np.unique(keys, return_inverse=True)
        low, high = key_ranges(view.keys, distinct)
        return low[of_row], high[of_row]

    def _cut(self, piece: Piece, view: IndexView, low: Int64s, high: Int64s, since: Int64s) -> tuple[Int64s, Int64s]:
        """Ranges in the order of the partner's clock, without rows that are out of reach."""
        clock = piece.segment.ts_us
        if isinstance(self.partner, StreamRelation):
            clock = piece.segment.clock(self.facts[self.partner.sides[0]].measure)
        if piece.span is not None and since.max() <= piece.span[0]:
            return low, high
        return view.within(clock, low, high, since), high

    def _bounds(self, probes: Int64s, ranks: Int64s) -> Int64s:
        """From where on the partner's clock rows may be met."""
        if not isinstance(self.partner, StreamRelation):
            return self.own.newest_us(probes) if self.since is None else self.since(ranks)
        facts = self.facts[self.partner.sides[0]]
        if facts.measure is Measure.ROWS:
            return self.own.seen(facts.side, probes) - facts.reach
        return self.own.newest_us(probes) - facts.reach

    def _expanded(
        self,
        pieces: Sequence[Piece],
        views: Sequence[IndexView],
        starts: Int64s,
        lengths: Int64s,
        probes: Int64s,
        ranks: Int64s,
    ) -> Found:
        found = []
        for number, (piece, view) in enumerate(zip(pieces, views, strict=True)):
            rows = expand_ranges(starts[:, number], lengths[:, number]).astype(np.int64, copy=False)
            rows = rows if view.rows is None else view.rows[rows].astype(np.int64, copy=False)
            of_probe = np.repeat(np.arange(len(probes)), lengths[:, number])
            if piece.ranks is not None:
                before = piece.ranks[rows] < ranks[of_probe]
                rows, of_probe = rows[before], of_probe[before]
            found.append((of_probe, rows + piece.base))
        of_probe, theirs = (np.concatenate(column) for column in zip(*found, strict=True))
        return Found(probes[of_probe], theirs, ranks[of_probe])

    # --- what must hold

    def _checked(self, found: Found) -> Found:
        found = self._in_windows(found)
        for number in self.link.classes[1:]:
            of = self.graph.classes[number]
            mine = self.own.class_numbers(number, of, found.mine)
            found = found.where(mine == self.partner.class_numbers(number, of, found.theirs))
        if self.link.predicates and len(found):
            read = dict.fromkeys(self.own.sides, (self.own, found.mine))
            read |= dict.fromkeys(self.partner.sides, (self.partner, found.theirs))
            mask = filter_mask(self.link.predicates, self._reader(read), len(found))
            found = found if mask is None else found.where(np.asarray(mask))
        return self._fresh(found)

    def _in_windows(self, found: Found) -> Found:
        if self.since is None and (self.is_late or not self._is_cut):
            in_reach = self.partner.until(found.theirs) >= self.own.newest_us(found.mine)
            found = found.where(in_reach & (self.partner.newest_us(found.theirs) <= self.own.until(found.mine)))
        for side in self.partner.sides if self.since is None else ():
            if self.facts[side].measure is Measure.ROWS:
                found = found.where(self._is_behind(self.partner, side, found.mine, found.theirs))
        if self.is_root and self.graph.repeats_streams:
            for side in self.own.sides:
                if self.facts[side].measure is Measure.ROWS:
                    is_newest = self.own.newest_side(found.mine) == side
                    found = found.where(is_newest | self._is_behind(self.own, side, found.mine, found.mine))
        return found

    def _is_behind(self, relation: Relation, side: int, mine: Int64s, theirs: Int64s) -> np.ndarray:
        """Which tuples of a side are in its window of rows, as the probe's newest tuple sees it. One that is there
        twice is not before itself, but it may be before what makes a result of it."""
        behind = self.own.seen(side, mine) - relation.places(side, theirs)
        inside: np.ndarray = (behind >= int(self.is_root)) & (behind <= self.facts[side].reach)
        return inside

    def _fresh(self, found: Found) -> Found:
        if not len(found):
            return found
        fresh = self.is_fresh(self.partner, found.theirs)
        if not self.now.is_enforced:
            fresh &= self.is_fresh(self.own, found.mine)
        self.stale += int(len(fresh) - fresh.sum())
        return found.where(fresh) if self.now.is_enforced and not fresh.all() else found

    @staticmethod
    def _reader(rows: dict[int, tuple[Relation, Int64s]]) -> Callable[[ColumnRef], pa.Array]:
        def column(ref: ColumnRef) -> pa.Array:
            relation, addresses = rows[ref.source]
            return relation.view(ref.source).column(ref.name, arrow_type(ref.type), addresses)

        return column


def arrivals_of(relation: Relation, addresses: Int64s, number: str) -> Int64s:
    """The numbers of each row's newest tuple, from a column of its side."""
    newest = relation.newest_side(addresses)
    found = np.zeros(len(addresses), dtype=np.int64)
    for side in relation.sides:
        mine = np.flatnonzero(newest == side)
        if len(mine):
            found[mine] = relation.view(side).column(number, pa.int64(), addresses[mine]).to_numpy()
    return found
