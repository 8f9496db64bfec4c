"""A group whose join runs as a tree: one that meets overload by leaving out probes, or one that was given its tree.

      ADAPT    told: probes allowed, now  -->  blocks, all of them, up the tree  -->  results, fresh ones only
                                               every tuple kept and expired, whatever is probed
      DEFER    a turn  -->  a block up the tree, with every probe  -->  results; other blocks wait for theirs

Owns :class:`TreeOperator`. With ADAPT blocks never wait for a budget: what an allowance does not cover is left out, not
put off, and after a step nothing is pending. With DEFER (``SET plan``) a block is scanned whole in its first turn, and
later turns release what it found, window by window.
Invariant: a state in between holds no part that nothing can meet any more, or that is wholly stale. Cost: that of the
probes made; a comparison a part to expire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import gt
from typing import Any

import numpy as np

from headrace.engine.allowances import Allowances
from headrace.engine.budget import ProbeBudget
from headrace.engine.events import DropSegment, Effect
from headrace.engine.expiring import probed_by
from headrace.engine.halfway import Now, Probe, link_of, shared_classes
from headrace.engine.joining_up import StateForm, form_of, joined_rows
from headrace.engine.operators import GroupOperator
from headrace.engine.output import filtered, reach_of
from headrace.engine.relations import (
    ALWAYS,
    FRESH,
    JOINED_LAYOUT,
    JoinedRelation,
    Relation,
    SideFacts,
    StreamRelation,
    side_column,
)
from headrace.engine.segments import PLACE, int64s_of
from headrace.engine.spaces import Block, Matches, NewRows, Space
from headrace.engine.tree_join import HalfTally, JoinedState, TreeBlock, TreeOptions
from headrace.engine.tree_scan import TreeScan
from headrace.engine.window import Collected, Part, Run, SegmentSource, WindowStore, open_run
from headrace.plan.queries import Measure
from headrace.plan.spare import Spare
from headrace.plan.trees import Sides, linear_tree


class TreeOperator(GroupOperator):
    """One group's running state in one shard, its join as a tree."""

    def __init__(self, *told: Any) -> None:
        super().__init__(*told)
        graph, freshness = self.group.graph, self.group.freshness
        assert graph is not None
        self.graph = graph
        self.tree_options = self._tree_options()
        self.tree = self.tree_options.tree
        self.links = {half: link_of(graph, half) for half in self.tree.half_ways}
        reach = reach_of(self.windows)
        self.facts = tuple(
            SideFacts(
                side,
                state.position,
                state.input.time,
                measure,
                reach[side],
                ALWAYS if freshness is None else freshness[side].size,
            )
            for side, (state, measure) in enumerate(zip(self.inputs, self.group.measures, strict=True))
        )
        self.states = {sides: self._state(sides) for sides in self.tree.susceptible}
        self.allowances = Allowances(self.tree)
        self.tallies = {half: HalfTally() for half in self.tree.half_ways}
        self.now_us = 0
        self._clock: Callable[[], float] = lambda: 0.0
        self.widest = reach
        """The largest windows there ever were, by side: joined tuples may still be kept as long as those say."""
        self.spent_s = 0.0
        self.stale_results = 0
        """Results of this step that are not fresh."""
        self.lost = 0
        """Held parts in between that were let go because they were stale, ever."""

    def _tree_options(self) -> TreeOptions:
        if self.group.tree is not None:
            return TreeOptions(self.group.tree, is_enforced=False)
        given = self._options.trees.get(self.group.signature)
        return given or TreeOptions(linear_tree(self.graph.sides))

    def _state(self, sides: Sides) -> JoinedState:
        partner = next(half.partner for half in self.tree.half_ways if half.own == sides)
        classes = shared_classes(self.graph, sides, partner)
        rows = self.tree_options.state_rows.get(sides)
        form = form_of(self.graph, sides, classes[0] if classes else None, rows)
        fanout = self.inputs[0].window.fanout
        return JoinedState(form, WindowStore(JOINED_LAYOUT, fanout, self._serial))

    # --- a step

    def begin(self, now_us: int, probes: Sequence[float] | None, spare: Spare | None = None) -> None:
        """A step begins: when its results are released, and what may be probed (None: everything)."""
        self.now_us, self.stale_results = now_us, 0
        self.allowances.tell(probes, spare)
        self.tallies = {half: HalfTally() for half in self.tree.half_ways}

    def work(self, clock: Callable[[], float]) -> Iterator[Effect]:
        """All blocks, whatever may be probed, of a group that adapts; one that does not has turns like any other.
        ``clock``: the host's, to measure by."""
        self._clock, began_s = clock, clock()
        if not self.group.adapts:
            return
        self.allowances.begin([one for block in self.pending for one in block.rounds])
        for _ in list(self.pending):
            yield from self.take_turn(ProbeBudget())
        self.spent_s = clock() - began_s

    def _scan(self) -> TreeScan:
        """How blocks are scanned, for a turn: it is not kept, as it refers to this operator."""
        scan = super()._scan()
        told = (scan.inputs, scan.windows, scan.join, scan.outputs, scan.folds, scan.cut)
        return TreeScan(*told, self._up, self.group.adapts)

    def _up(self, block: Block) -> Iterator[tuple[Matches, tuple[Space, ...]]]:
        """A block up the tree: its results in order with the sides they are of, and what it makes in between, kept."""
        self.allowances.next_block(block)
        streams = [self._stream(side, new) for side, new in enumerate(block.inputs)]
        going_up = TreeBlock(
            self.graph,
            self.tree_options,
            self.links,
            streams,
            self.states,
            self.facts,
            self._now(),
            self.allowances.allowed,
            is_late=_is_late([stream.space for stream in streams]),
            clock=self._clock,
        )
        spaces = going_up.spaces
        for found in going_up.results():
            results = found if self.group.adapts else replace(found, fresh_us=None)
            yield self._aged(filtered(results, spaces, self.group.verified), spaces), spaces
        for half, tally in going_up.tallies.items():
            self.tallies[half].add(tally)
        self.stale_results += going_up.stale_results
        self._keep_joined(going_up.joined)

    def _aged(self, matches: Matches, spaces: Sequence[Space]) -> Matches:
        """The results with their ages where windows differ; where states in between keep a number of tuples, results
        are in every window, however old."""
        is_uneven = any(len(set(sizes)) > 1 for sizes in self.windows)
        reach = tuple(one.reach for one in self.facts)
        if reach != self.widest and not self.tree_options.state_rows:
            aged = matches.with_ages(spaces, self.group.measures, by_side=True)
            matches = matches.where(aged.in_window(reach))
        if len(self.windows) == 1 and not is_uneven:
            return matches
        if self.tree_options.state_rows:
            shape = (len(spaces), len(matches)) if is_uneven else (len(matches),)
            return replace(matches, ages=np.zeros(shape, dtype=np.int64))
        return matches.with_ages(spaces, self.group.measures, by_side=is_uneven)

    def _stream(self, side: int, new: NewRows | None) -> StreamRelation:
        state = self.inputs[side]
        space = Space(state.window.runs, new, state.window.layout, side, state.position)
        return StreamRelation(space, self.facts[side])

    def _now(self) -> Now:
        counted = [state.waiting.arrived_rows for state in self.inputs]
        return Now(self.now_us, tuple(counted), self.tree_options.is_enforced)

    def _keep_joined(self, joined: Mapping[Sides, Sequence[NewRows]]) -> None:
        for sides, new in joined.items():
            state = self.states[sides]
            for one in new:
                state.window.insert(one.segment, one.collected)
                state.made += one.segment.rows
            state.window.compact()

    # --- settling

    def settle(self, reached_us: Sequence[int | None], *, ended: bool) -> Iterator[Effect]:
        yield from super().settle(reached_us, ended=ended)
        cutoff_us = self._cutoff_us(reached_us)
        for state in self.states.values():
            if state.form.rows is not None:
                state.window.expire_before(state.made)
            elif cutoff_us is not None:
                state.window.expire_before(cutoff_us)
            for run in [one for one in state.window.runs if self._is_dead(state, one)]:
                state.window.let_go(run)
            yield from state.window.drain()

    def _cutoff_us(self, reached_us: Sequence[int | None]) -> int | None:
        """What no tuple that comes is older than."""
        oldest = [*reached_us, *(state.waiting.first_us for state in self.inputs if state.waiting.rows)]
        oldest += [block.oldest_us(index) for block in self.pending for index in range(len(self.inputs))]
        times = [one for one in oldest if one is not None]
        return None if None in reached_us else min(times)

    def _is_dead(self, state: JoinedState, run: Run) -> bool:
        """Whether a run's joined tuples are all stale, or all out of a window of rows."""
        batch = run.segment.batch
        if self.tree_options.is_enforced and int(int64s_of(batch, FRESH).max()) < self.now_us:
            self.lost += run.live_rows
            return True
        counted = [one for one in self.facts if one.measure is Measure.ROWS and one.side in state.form.sides]
        for facts in counted if state.form.rows is None else ():
            waiting = self.inputs[facts.side].waiting.counted
            seen = (one.least_seen(by, facts.side) for one in self.pending for by in probed_by(self.group, facts.side))
            least_seen = min([waiting, *(one for one in seen if one is not None)])
            if int(int64s_of(batch, side_column(facts.side, PLACE)).max()) < least_seen - facts.reach:
                return True
        return False

    # --- statistics

    def joined_runs(self) -> list[Run]:
        """What states in between hold."""
        return [run for state in self.states.values() for run in state.window.runs]

    def state_rows(self) -> dict[Sides, int]:
        """What each state holds; of one that is measured in tuples, those that can be met: segments go as a whole."""
        streams = {(side,): state.window for side, state in enumerate(self.inputs)}
        windows = streams | {sides: state.window for sides, state in self.states.items()}
        held = {sides: sum(run.live_rows for run in window.runs) for sides, window in windows.items()}
        counted = {sides: state.form.rows for sides, state in self.states.items() if state.form.rows is not None}
        return {sides: min(rows, counted.get(sides, rows)) for sides, rows in held.items()}

    # --- kept form

    def tree_to_json(self) -> dict[str, Any]:
        return {
            "states": [
                {
                    "sides": list(sides),
                    "key": state.form.key,
                    "is_counted": state.form.is_counted,
                    "made": state.made,
                    "runs": [_run_to_json(run) for run in state.window.runs],
                }
                for sides, state in self.states.items()
            ],
            "widest": self.widest,
            "credit": [[half.join, half.child.value, left] for half, left in self.allowances.credit.items()],
        }

    def tree_from_json(self, kept: dict[str, Any], source: SegmentSource) -> None:
        """Goes on with the states that this tree has too; the others' joined tuples are let go, and states that were
        not there are made of what is held below them, as are those that were measured otherwise (``retention``); all of
        them, where nothing is left out and windows are larger than any were."""
        found: set[Sides] = set()
        is_wider = self.group.tree is not None and any(map(gt, self.widest, kept["widest"]))
        self.widest = tuple(map(max, zip(self.widest, kept["widest"], strict=True)))
        for one in kept["states"]:
            state = self.states.get(tuple(one["sides"]))
            if state is None or is_wider or not _is_of_form(one, state.form):
                self._finished += [DropSegment(name) for name in names_joined({"states": [one]})]
                continue
            found.add(tuple(one["sides"]))
            state.made = one["made"]
            state.window.runs += [_run_from_json(run, source) for run in one["runs"]]
        credit = {(join, child): left for join, child, left in kept["credit"]}
        halves = self.tree.half_ways
        self.allowances.credit = {one: credit.get((one.join, one.child.value), 0.0) for one in halves}
        if not found.issuperset(self.states) and all(one.measure is Measure.TIME for one in self.facts):
            self._make_states(found)

    def _make_states(self, found: set[Sides]) -> None:
        """Fills the states that another tree did not have: every pair of held tuples below them, whichever is newer."""
        relations: dict[Sides, Relation] = {(one.side,): self._stream(one.side, None) for one in self.facts}
        for join in self.tree.joins[:-1]:
            state = self.states[join.sides]
            if join.sides not in found:
                own, partner = relations[join.left], relations[join.right]
                now = Now(-ALWAYS, (0,) * len(self.facts))
                probe = Probe(self.graph, self.links[join.halves[0]], own, partner, self.facts, now, is_late=True)
                every = np.arange(int(own.space.bases[-1]))
                for pairs in probe.pairs(every, np.zeros(len(every), dtype=np.int64)):
                    numbers = None if state.form.rows is None else state.made + np.arange(len(pairs))
                    self._keep_joined({join.sides: joined_rows(probe, pairs, state.form, numbers)})
            is_aged = state.form.rows is None
            relations[join.sides] = JoinedRelation(join.sides, state.window.runs, [], self.facts, is_aged=is_aged)


def names_joined(kept: dict[str, Any]) -> Iterator[str]:
    """Every stored segment of a tree's kept states."""
    for state in kept["states"]:
        yield from (part[0] for run in state["runs"] for part in run["parts"])


def _is_of_form(kept: dict[str, Any], form: StateForm) -> bool:
    """Whether a state was kept as it is to be now: searched by the same key, and measured alike."""
    return bool(kept["key"] == form.key and kept.get("is_counted", form.is_counted) == form.is_counted)


def _run_to_json(run: Run) -> dict[str, Any]:
    parts = [[one.name, one.rows, one.size_bytes, one.min_us, one.max_us, one.last_place] for one in run.parts]
    return {"name": run.name, "parts": parts, "collected": [run.collected.columns, run.collected.pushed]}


def _run_from_json(kept: dict[str, Any], source: SegmentSource) -> Run:
    columns, pushed = kept["collected"]
    parts = tuple(Part(*part) for part in kept["parts"])
    return open_run(kept["name"], parts, Collected(tuple(columns), tuple(pushed)), JOINED_LAYOUT, source)


def _is_late(spaces: Sequence[Space]) -> bool:
    """Whether a held tuple is after a new one."""
    held = max(((run.max_us, space.position) for space in spaces for run in space.runs), default=None)
    new = min(((one.new.segment.min_us, one.position) for one in spaces if one.new is not None), default=None)
    return held is not None and new is not None and held > new
