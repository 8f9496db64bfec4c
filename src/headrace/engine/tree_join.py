"""A multi-way join as a tree of joins of two: new tuples go up their paths, joined tuples are kept in between.

      block --> new a b --> [S(a b)]  --.
      block --> new c d --> [S(c d)]  ---+--> results, in result order              each arrow is a half-way join, and
                                                                                    makes at most the probes it may
Every new tuple is put into its state, whatever is probed; of those that may probe, ``choice`` picks as many as the
half-way join is allowed (paper 001, section 2.1). What an unmade probe would have found is never found.

Owns: :class:`TreeOptions`, :class:`HalfTally`, :class:`JoinedState` and :class:`TreeBlock`, which takes one block up.
Invariant: without allowances, results are those of ``multiway``, in result order. Cost: that of the probes made
(``halfway``), the columns of what is kept in between, and a sort of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from headrace.engine.halfway import Found, Link, Now, Probe
from headrace.engine.joining_up import StateForm, joined_rows, newest_of
from headrace.engine.keys import Int64s
from headrace.engine.multiway import FIRST_SLICE, SLICE_MATCHES
from headrace.engine.relations import JoinedRelation, Relation, SideFacts
from headrace.engine.spaces import Matches, NewRows, Space, tie_order
from headrace.engine.window import WindowStore
from headrace.plan.joingraph import JoinGraph
from headrace.plan.trees import HalfWayJoin, JoinTree, Sides


class Choice(Enum):
    """Which of the tuples offered to a half-way join probe, where not all may."""

    OLDEST = "oldest"
    NEWEST = "newest"
    SPREAD = "spread"


def chosen(ranks: Int64s, allowed: int, choice: Choice) -> Int64s:
    """The positions of those that probe.

    >>> ranks = np.array([4, 0, 3, 1, 2])
    >>> [ranks[chosen(ranks, 2, one)].tolist() for one in Choice]
    [[0, 1], [3, 4], [1, 3]]
    """
    if allowed >= len(ranks):
        return np.arange(len(ranks))
    order = np.argsort(ranks, kind="stable")
    if choice is Choice.OLDEST:
        return order[:allowed]
    if choice is Choice.NEWEST:
        return order[len(order) - allowed :]
    return order[((2 * np.arange(allowed) + 1) * len(order)) // (2 * max(allowed, 1))]


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """How a group's tree is run. ``state_rows``: by state in between, how many joined tuples it holds, as the paper's
    model has it, in place of the windows of their tuples: then results are not those of the query's windows."""

    tree: JoinTree
    choice: Choice = Choice.OLDEST
    is_enforced: bool = True
    state_rows: Mapping[Sides, int] = field(default_factory=dict)


@dataclass(slots=True)
class HalfTally:
    """What a half-way join did: tuples offered to it, those that probed, pairs found, and stale ones among them; tuples
    that were too old to probe at all are counted as offered and stale, and once more by themselves."""

    offered: int = 0
    probed: int = 0
    found: int = 0
    stale: int = 0
    spent_s: float = 0.0
    too_old: int = 0

    def add(self, other: HalfTally) -> None:
        self.offered += other.offered
        self.probed += other.probed
        self.found += other.found
        self.stale += other.stale
        self.spent_s += other.spent_s
        self.too_old += other.too_old

    @property
    def left_out(self) -> int:
        """Tuples that did not probe because they were not allowed to."""
        return self.offered - self.too_old - self.probed


@dataclass(slots=True)
class JoinedState:
    """A state in between: its form, what it holds, and how many joined tuples it has been given. Where that is its
    measure, a probe meets the newest ``form.rows`` of those that were made before it, also within a block: what it
    finds does not depend on how many tuples a block has."""

    form: StateForm
    window: WindowStore
    made: int = 0


Allow = Callable[[HalfWayJoin, int], int]
"""How many of the tuples offered to a half-way join may probe."""


class TreeBlock:
    """One block on its way up: the states as it meets them, then the results."""

    def __init__(
        self,
        graph: JoinGraph,
        options: TreeOptions,
        links: Mapping[HalfWayJoin, Link],
        streams: Sequence[Relation],
        states: Mapping[Sides, JoinedState],
        facts: Sequence[SideFacts],
        now: Now,
        allow: Allow,
        *,
        is_late: bool,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._graph = graph
        self._options = options
        self._links = links
        self._states = states
        self._facts = facts
        self._now = now
        self._allow = allow
        self._is_late = is_late
        self._clock = clock
        self._relations: dict[Sides, Relation] = {one.sides: one for one in streams}
        self.tallies: dict[HalfWayJoin, HalfTally] = {}
        self.joined: dict[Sides, list[NewRows]] = {}
        self._made: dict[Sides, Int64s] = {}
        """Of states measured in joined tuples: the ranks of those that the block made, in order."""
        self.stale_results = 0
        """Results that are not, now: none, where stale ones are left out."""
        for join in options.tree.joins[:-1]:
            self._take_up(join.sides, join.halves)

    @property
    def spaces(self) -> tuple[Space, ...]:
        """The sides of the results, by side."""
        found: dict[int, Space] = {}
        for half in self._options.tree.joins[-1].halves:
            relation = self._relations[half.own]
            found |= {side: relation.view(side) for side in half.own}
        return tuple(found[side] for side in self._options.tree.sides)

    # --- the joins below the root

    def _take_up(self, sides: Sides, halves: Sequence[HalfWayJoin]) -> None:
        state = self._states[sides]
        new: list[NewRows] = []
        pairs: list[tuple[Probe, Found]] = []
        for half in halves:
            began_s = self._clock()
            probe = self._probe(half)
            probes, ranks = self._probing(half, probe)
            for found in probe.pairs(probes, ranks):
                if state.form.rows is None:
                    new += joined_rows(probe, found, state.form)
                else:
                    pairs.append((probe, found))
                self.tallies[half].found += len(found)
            self.tallies[half].stale += probe.stale
            self.tallies[half].spent_s += self._clock() - began_s
        if state.form.rows is not None:
            new = self._numbered(state, pairs)
        self.joined[sides] = new
        is_aged = state.form.rows is None
        self._relations[sides] = JoinedRelation(sides, state.window.runs, new, self._facts, is_aged=is_aged)

    def _numbered(self, state: JoinedState, pairs: Sequence[tuple[Probe, Found]]) -> list[NewRows]:
        """Pairs as rows of a state that is measured in them, in the order of what made them."""
        sizes = [len(found) for _, found in pairs]
        ranks = np.concatenate([found.ranks for _, found in pairs]) if pairs else np.zeros(0, dtype=np.int64)
        order = np.argsort(ranks, kind="stable")
        self._made[state.form.sides] = ranks[order]
        numbers = np.empty(len(order), dtype=np.int64)
        numbers[order] = state.made + np.arange(len(order))
        parts = np.split(numbers, np.cumsum(sizes)[:-1])
        given = zip(pairs, parts, strict=False)
        return [new for (probe, found), part in given for new in joined_rows(probe, found, state.form, part)]

    def _since(self, state: JoinedState) -> Callable[[Int64s], Int64s]:
        """By rank of a probe: how many joined tuples the state has been given before it."""
        ranks = self._made[state.form.sides]
        return lambda of: (state.made + np.searchsorted(ranks, of)).astype(np.int64)

    def _probe(self, half: HalfWayJoin) -> Probe:
        own, partner = self._relations[half.own], self._relations[half.partner]
        measured = self._states.get(half.partner)
        since = None if measured is None or measured.form.rows is None else self._since(measured)
        is_root = half.join == len(self._options.tree.joins) - 1
        told = (self._facts, self._now, self._is_late, since, is_root)
        return Probe(self._graph, self._links[half], own, partner, *told)

    def _probing(self, half: HalfWayJoin, probe: Probe) -> tuple[Int64s, Int64s]:
        """The new tuples of a half-way join's own state that probe: fresh ones, as many as are allowed."""
        addresses, ranks = probe.own.new_addresses
        tally = self.tallies[half] = HalfTally(offered=len(addresses))
        if len(addresses) and self._now.is_enforced:
            fresh = probe.is_fresh(probe.own, addresses)
            addresses, ranks = addresses[fresh], ranks[fresh]
            tally.too_old = tally.offered - len(addresses)
            tally.stale += tally.too_old
        some = chosen(ranks, self._allow(half, len(addresses)), self._options.choice)
        tally.probed = len(some)
        return addresses[some], ranks[some]

    # --- the root

    def results(self) -> Iterator[Matches]:
        """The results in result order, a slice of probes at a time."""
        roots = []
        for half in self._options.tree.joins[-1].halves:
            probe = self._probe(half)
            probes, ranks = self._probing(half, probe)
            order = np.argsort(ranks, kind="stable")
            roots.append((probe, probes[order], ranks[order]))
        for begin, end in (slices := _Slices(self._times, [ranks for _, _, ranks in roots], self._is_late)):
            found: list[Matches] = []
            for probe, probes, ranks in roots:
                began_s = self._clock()
                low, high = np.searchsorted(ranks, [begin, end])
                found += [self._matches(probe, one) for one in probe.pairs(probes[low:high], ranks[low:high])]
                self.tallies[probe.link.half].spent_s += self._clock() - began_s
            slices.made = sum(map(len, found))
            if found:
                yield self._in_order(found)
        for probe, _, _ in roots:
            self.tallies[probe.link.half].stale += probe.stale

    @property
    def _times(self) -> Int64s:
        """The times of the block's tuples by rank."""
        streams = (one for sides, one in self._relations.items() if len(sides) == 1)
        new = [(one.ranks, one.segment.ts_us) for relation in streams for one in relation.pieces]
        times = np.empty(sum(len(ranks) for ranks, _ in new if ranks is not None), dtype=np.int64)
        for ranks, ts_us in new:
            if ranks is not None:
                times[ranks] = ts_us
        return times

    def _matches(self, probe: Probe, found: Found) -> Matches:
        self.tallies[probe.link.half].found += len(found)
        fresh_us = np.minimum(probe.own.fresh_us(found.mine), probe.partner.fresh_us(found.theirs))
        is_fresh = probe.is_fresh(probe.own, found.mine) & probe.is_fresh(probe.partner, found.theirs)
        self.stale_results += len(found) - int(is_fresh.sum())
        own, partner = probe.own.sides, probe.partner.sides
        by_side = dict.fromkeys(own, found.mine) | dict.fromkeys(partner, found.theirs)
        newest, _ = newest_of(probe, found, self._facts)
        sides = tuple(by_side[side] for side in self._options.tree.sides)
        return Matches(sides, found.ranks, newest, fresh_us=fresh_us)

    def _in_order(self, found: Sequence[Matches]) -> Matches:
        sides = tuple(np.concatenate(some) for some in zip(*(one.sides for one in found), strict=True))
        probe, newest = (np.concatenate(some) for some in zip(*((one.probe, one.newest) for one in found), strict=True))
        together = Matches(sides, probe, newest, fresh_us=np.concatenate([one.fresh_us for one in found]))
        return together.where(tie_order(together, self.spaces, self._graph.sides, by_places=self._is_late))


class _Slices:
    """Stretches of ranks that make about ``SLICE_MATCHES`` results each, by what the one before ``made``; those at one
    time together, because one tuple may be in two sides; all at once where some came late."""

    def __init__(self, times_us: Int64s, ranks: Sequence[Int64s], is_late: bool) -> None:
        self._probing = np.sort(np.concatenate(ranks))
        self._times_us = times_us[self._probing]
        self._size = len(self._probing) if is_late else FIRST_SLICE
        self.made = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        begin = 0
        while begin < len(self._probing):
            last_us = self._times_us[min(begin + self._size, len(self._probing)) - 1]
            end = int(np.searchsorted(self._times_us, last_us, side="right"))
            yield int(self._probing[begin]), int(self._probing[end - 1]) + 1
            self._size = int(np.clip((end - begin) * SLICE_MATCHES / max(self.made, 1), 1, 16 * self._size))
            begin = end
