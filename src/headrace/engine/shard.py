"""A shard: a whole small engine for its part of the keys. Events in, effects out; no clock, no I/O, no Spark.

    effects = shard.step(events, budget)   what a micro-batch brought -> what to emit, keep and drop
    shard.manifest()                       everything else it knows, small; with the kept segments it is the whole state
    Shard.restore(plan, ..., manifest, source)

The tests and Spark run this same object. ``step`` is deterministic: the same state and events give the same
effects. A restored shard may have another plan than the one that kept its state: groups go on where their signature is
the same, tuples kept without something a new query needs are not used for it, and groups that are gone drop theirs.
Blocks that wait to be scanned go on for the queries that were there when they came (an epoch is a set of queries).

Invariants (``validate``): no waiting row is at or before its group's progress; runs are sorted; names are unique.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow.compute as pc

from headrace.engine.aggregating import FoldOperator
from headrace.engine.apart import apart_from, graph_from
from headrace.engine.arriving import numbered_from, without_late_seats, without_parts, without_reports
from headrace.engine.budget import ProbeBudget
from headrace.engine.cutting import BlockCut
from headrace.engine.dispatching import Dispatcher, Pace, Scheduling
from headrace.engine.events import (
    Arrival,
    BlockArrived,
    DropSegment,
    Effect,
    Event,
    OrderingChosen,
    ProbesAllowed,
    ProgressMade,
    RejectRows,
    StreamsEnded,
    TimeTold,
)
from headrace.engine.histories import Points
from headrace.engine.holding import LIMIT_BYTES
from headrace.engine.inputs import END_OF_TIME, InputState, Place
from headrace.engine.keys import Int64s
from headrace.engine.matching import bucketed_ranges, compared_ranges, key_ranges
from headrace.engine.operators import GroupOperator
from headrace.engine.options import OperatorOptions, Orders
from headrace.engine.output import Cut
from headrace.engine.packing import LATE
from headrace.engine.policy import POLICIES
from headrace.engine.progressing import LOWEST, Floors, StreamProgress
from headrace.engine.segments import NUMBER, times_of
from headrace.engine.spaces import KeySearch
from headrace.engine.state import names_in, operator_from_json, operator_to_json
from headrace.engine.strategies import StrategyMemory
from headrace.engine.tree_join import TreeOptions
from headrace.engine.tree_operator import TreeOperator
from headrace.engine.waiting import without_seats
from headrace.engine.window import SegmentSource, Serial
from headrace.errors import InvariantError, StateError
from headrace.model import StreamId
from headrace.plan.approaches import why_in_order
from headrace.plan.facts import Measured
from headrace.plan.methods import SCANNING
from headrace.plan.shard_graph import join_name
from headrace.plan.sharing import Group, SharedPlan

STATE_VERSION = 8
_NUMBER_BITS = 32
"""Of a tuple's number: its place in its chunk; above them, the chunk's."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a shard holds now: the join buffers, and beside them tuples that wait for another stream, tuples that wait
    for their turn (input buffers) and results that wait for a window to be done (output buffers)."""

    held_rows: int
    waiting_rows: int
    size_bytes: int
    pending_rows: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    held_results: int = 0


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """How a shard works; none of it changes an answer."""

    cut: Cut = Cut.BANDS
    merge_fanout: int = 4
    policy: str = "lwo"
    method: str = "hybrid"
    block: BlockCut = field(default_factory=BlockCut)
    reevaluate_us: int = 0
    expiry_us: Mapping[str, int] = field(default_factory=dict)
    buckets: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By group, how many buckets the keys of each side's segments are put into; a group without: each key its own."""
    orders: Mapping[str, Orders] = field(default_factory=dict)
    trees: Mapping[str, TreeOptions] = field(default_factory=dict)
    """By group that runs as a tree, how."""
    scheduling: Scheduling | None = None
    """How turns are chosen where there is a budget; None: what a join finds is filtered and projected at once, and
    groups take turns one after the other."""
    is_eager: bool = False
    """Aggregates are evaluated whenever anything changes; or else every ``reevaluate_us``, or with each step."""
    forwards: bool = False
    hold_bytes: int = LIMIT_BYTES
    """What results that were found ahead may weigh before they go to the store within a step."""

    def for_operators(self) -> OperatorOptions:
        return OperatorOptions(
            self.cut,
            POLICIES[self.policy],
            self._finds,
            self.block,
            self.orders,
            self.reevaluate_us,
            self.expiry_us,
            Points(self.reevaluate_us, self.is_eager),
            self.hold_bytes,
            self.trees,
            self.forwards,
        )

    def _finds(self, group: str, sides: int) -> tuple[KeySearch, ...]:
        if self.method in SCANNING:
            return (compared_ranges,) * sides
        if group in self.buckets:
            return tuple(bucketed_ranges(count) for count in self.buckets[group])
        return (key_ranges,) * sides


class Shard:
    """All groups of a plan, for one part of the keys."""

    def __init__(
        self, plan: SharedPlan, options: ShardOptions | None = None, source: SegmentSource | None = None
    ) -> None:
        self.plan = plan
        self._source = source
        self._options = options or ShardOptions()
        self._serial = Serial()
        self.progress = StreamProgress(plan.catalog)
        self._orphans: list[str] = []
        self._epoch = 0
        self._last_group = ""
        self._since = dict.fromkeys(_identities(plan), 0)
        self._steps = 0
        self._memory = StrategyMemory()
        self._now_us = 0
        self.dispatcher: Dispatcher | None = None
        self._operators = self._all_operators()

    def _all_operators(self) -> dict[str, GroupOperator]:
        groups = sorted(self.plan.groups, key=lambda group: group.signature)
        is_deferred = self._options.scheduling is not None
        return {group.signature: self._operator(group, is_deferred=is_deferred) for group in groups}

    def _operator(self, group: Group, *, is_deferred: bool, is_begun: bool = False) -> GroupOperator:
        inputs = [
            InputState.empty(
                group, index, self.plan.catalog.position(input.stream), self._serial, self._options.merge_fanout
            )
            for index, input in enumerate(group.inputs)
        ]
        told = (inputs, self._options.for_operators(), self._since, self._epoch, self._serial)
        if group.is_tree:
            return TreeOperator(group, *told)
        apart = apart_from(group, is_begun=is_begun) if is_deferred else None
        if apart is None:
            return GroupOperator(group, *told, source=self._source)
        return GroupOperator(apart.group, *told, group.classes, apart.names, self._source)

    def step(
        self, events: Iterable[Event], budget: ProbeBudget | None = None, pace: Pace | None = None
    ) -> Iterator[Effect]:
        """Takes in what arrived, does what progress and the budget allow, and lets go of what is out of reach. Effects
        come as they arise, so that results need not be held together; the step is over when they are exhausted."""
        told = list(events)
        self._steps += 1
        for operator in self._operators.values():
            operator.step_number, operator.scanned_rows = self._steps, 0.0
            operator.joined_s, operator.now_s = 0.0, (pace or Pace()).worked_s
        yield from (DropSegment(name) for name in self._orphans)
        self._orphans = []
        chosen = next((event for event in told if isinstance(event, OrderingChosen)), OrderingChosen())
        self.progress.idle = chosen.idle
        for operator in self._operators.values():
            yield from operator.look_back()
        self._begin(told)
        floors = self._hear([event for event in told if isinstance(event, ProgressMade)])
        self.progress.pass_idle(*self._reading())
        for operator in self._operators.values():
            operator.scanned_rows /= (pace or Pace()).shards
        blocks = sorted(
            (one for one in told if isinstance(one, BlockArrived)), key=lambda one: (one.arrival, one.chunk)
        )
        for block in self._numbered(blocks):
            yield from self._accept(block, floors)
        ended = any(isinstance(event, StreamsEnded) for event in told)
        for signature, operator in self._operators.items():
            is_early = signature in chosen.filter_order and why_in_order(operator.group) is None
            reached = [self._reached(state) for state in operator.inputs] if is_early else None
            progress = END_OF_TIME if ended else self._progress(operator)
            yield from operator.admit(progress, self._newest(operator), reached)
        self.progress.settle()
        yield from self._work(ProbeBudget() if ended or budget is None else budget, pace or Pace())
        for operator in self._operators.values():
            reached = [self._reached(state) for state in operator.inputs]
            yield from operator.settle([None if place is None else place.ts_us for place in reached], ended=ended)
        if self.dispatcher is not None:
            self.dispatcher.note_evaluations()

    def _reading(self) -> tuple[list[list[StreamId]], list[list[StreamId]]]:
        """The streams of each join or aggregate, and of each other group."""
        waiting: list[list[StreamId]] = []
        scanning: list[list[StreamId]] = []
        for operator in self._operators.values():
            waits = operator.group.is_join or any(cls.folding is not None for cls in operator.group.classes)
            (waiting if waits else scanning).append([one.input.stream for one in operator.inputs])
        return waiting, scanning

    def _begin(self, told: list[Event]) -> None:
        """Tells trees when their results are released, and what they may probe."""
        told_us = [one.now_us for one in told if isinstance(one, TimeTold)] or [self._now_us]
        self._now_us = max([*told_us, *(one.arrived_us for one in told if isinstance(one, BlockArrived))])
        allowed = {one.group: (one.probes, one.spare) for one in told if isinstance(one, ProbesAllowed)}
        for signature, operator in self.trees().items():
            operator.begin(self._now_us, *allowed.get(signature, (None, None)))

    def trees(self) -> dict[str, TreeOperator]:
        """The groups that run as trees, by signature."""
        return {signature: one for signature, one in self._operators.items() if isinstance(one, TreeOperator)}

    def _work(self, budget: ProbeBudget, pace: Pace) -> Iterator[Effect]:
        """Gives operators turns while the budget allows; trees that may leave probes out do all that they may."""
        for tree in self.trees().values():
            yield from tree.work(pace.now_s if tree.group.adapts else pace.worked_s)
        self.dispatcher = self._dispatcher()
        if self.dispatcher is None:
            yield from self._take_turns(budget)
        elif budget.limit is None:
            yield from self.dispatcher.work_off(budget, pace)
        else:
            yield from self.dispatcher.work(budget, pace, self._steps)

    def _dispatcher(self) -> Dispatcher | None:
        """Who chooses turns; None where nothing is kept apart."""
        operators = self._operators.values()
        if self._options.scheduling is None and not any(one.is_deferred for one in operators):
            return None
        group_of = self._group_of
        groups = tuple((group_of[signature], one.group) for signature, one in self._operators.items())
        named = {join_name(group): self._operators[group.signature] for group, _ in groups}
        return Dispatcher(graph_from(groups), named, self._options.scheduling or Scheduling(), self._memory)

    def _take_turns(self, budget: ProbeBudget) -> Iterator[Effect]:
        """Gives each group that has blocks waiting a turn, round and round, while the budget allows; the next step goes
        on with the group after the last one."""
        while busy := [signature for signature, operator in self._operators.items() if operator.pending]:
            if not budget.allows(sum(self._operators[signature].backlog_rows for signature in busy)):
                return
            self._last_group = next((one for one in busy if one > self._last_group), busy[0])
            yield from self._operators[self._last_group].take_turn(budget)

    def _hear(self, heartbeats: list[ProgressMade]) -> Floors:
        """Moves each stream's newest time on; gives, for each chunk, what its tuples must not be before."""
        floors = self.progress.hear(heartbeats)
        for beat in sorted(heartbeats, key=lambda one: one.arrival):
            for operator in self._operators.values():
                if not operator.group.is_join and operator.inputs[0].input.stream == beat.stream:
                    operator.scanned_rows += beat.rows
            for operator in self._operators.values():
                if operator.group.is_join and any(one.input.stream == beat.stream for one in operator.inputs):
                    position = self.plan.catalog.position(beat.stream)
                    operator.heard.add(beat.oldest_us, beat.newest_us, beat.rows, position)
        return floors

    def _numbered(self, blocks: Iterable[BlockArrived]) -> Iterator[BlockArrived]:
        """The blocks in order; where a group compares its tuples' numbers, with numbers that go on rising."""
        chunks: dict[tuple[Arrival, int], int] = {}
        for block in blocks:
            if NUMBER in block.batch.schema.names:
                place = (block.arrival, block.chunk)
                if place not in chunks:
                    chunks[place] = self._serial.take()
                yield replace(block, batch=numbered_from(block.batch, chunks[place] << _NUMBER_BITS))
            else:
                yield block

    def _accept(self, block: BlockArrived, floors: Floors) -> Iterator[Effect]:
        """Takes the rows that are in time; the late ones are rejected, by one of the inputs that take them."""
        operator = self._operators.get(block.group)
        if operator is None:
            raise InvariantError(f"rows came for a group that is not in the plan: {block.group}", (block,))
        stream = operator.inputs[block.input].input.stream
        batch, reported = without_reports(block.batch)
        batch, parts = without_parts(batch)
        chunk_us, allowed_us = block.chunk_us, _allowed(floors, stream, block)
        if allowed_us is not None:
            late = times_of(batch, operator.inputs[block.input].input.time) < allowed_us[parts]
            if late.any():
                rejected = late if reported is None else late & reported
                if rejected.any():
                    yield RejectRows(stream, LATE, without_seats(batch.filter(rejected)))
                batch = batch.filter(pc.invert(late))
            if chunk_us is not None:
                of_chunk = 0 if block.chunk_parts is None else block.chunk_parts
                batch, chunk_us = without_late_seats(batch, chunk_us, chunk_us >= allowed_us[of_chunk])
        operator.accept(block.input, batch, block.arrived_us, chunk_us)

    def _progress(self, operator: GroupOperator) -> Place | None:
        """The place that every stream of the group has reached."""
        reached = [self._reached(state) for state in operator.inputs]
        return None if None in reached else min(place for place in reached if place is not None)

    def _newest(self, operator: GroupOperator) -> int | None:
        """The newest time of any of the group's streams."""
        times = [self.progress.newest(state.input.stream) for state in operator.inputs]
        return max((time for time in times if time is not None), default=None)

    def _reached(self, state: InputState) -> Place | None:
        """The place that no future tuple of this input's stream is before."""
        reached_us = self.progress.reached(state.input.stream)
        return None if reached_us is None else Place(reached_us, state.position)

    def holdings(self) -> Holdings:
        states = [state for operator in self._operators.values() for state in operator.inputs]
        parts = [part for state in states for run in state.window.runs for part in run.parts]
        parts += [part for tree in self.trees().values() for run in tree.joined_runs() for part in run.parts]
        pending = [block for operator in self._operators.values() for block in operator.pending]
        waiting_bytes = sum(state.waiting.size_bytes for state in states)
        return Holdings(
            sum(part.rows for part in parts),
            sum(state.waiting.rows for state in states),
            sum(part.size_bytes for part in parts) + sum(fold.size_bytes for fold in self.folds()),
            sum(block.tuples for block in pending),
            sum(block.size_bytes for block in pending) + waiting_bytes,
            sum(block.held_bytes for block in pending)
            + sum(operator.hold.size_bytes for operator in self._operators.values()),
            self.held_results,
        )

    def reached(self) -> dict[str, tuple[int | None, bool]]:
        """By stream, how far it has come, and whether it is passed over."""
        names = [stream.name for stream in self.plan.catalog.streams]
        return {name: (self.progress.reached(name), self.progress.is_idle(name)) for name in names}

    def joins(self) -> dict[str, tuple[float, int, int, bool, int]]:
        """By join, how long it took in this step, the results that it holds and their bytes, whether tuples are ahead
        of another stream, and the most bytes of results that were in memory at once."""
        return {
            signature: (one.joined_s, one.hold.rows, one.hold.size_bytes, one.ahead is not None, one.hold.peak_bytes)
            for signature, one in self._operators.items()
            if one.group.is_join
        }

    def folds(self) -> list[FoldOperator]:
        """The aggregates of all groups' classes."""
        return [fold for operator in self._operators.values() for fold in operator.folds.operators.values()]

    @property
    def memory(self) -> StrategyMemory:
        """What the strategy that chooses turns remembers."""
        return self._memory

    @property
    def held_results(self) -> int:
        """Results that were found ahead and wait for other streams."""
        return sum(one.hold.rows for one in self._operators.values())

    @property
    def queued_items(self) -> int:
        """What waits between operators, in items."""
        return sum(sum(one.downstream.size_items()) for one in self._operators.values())

    @property
    def is_behind(self) -> bool:
        """Whether work waits for another step."""
        return self.queued_items > 0 or any(one.pending for one in self._operators.values())

    def backlog(self) -> dict[str, list[int]]:
        """By group, the tuples here that wait to scan each window next."""
        return {signature: one.backlog() for signature, one in self._operators.items() if one.group.is_join}

    def measured(self) -> dict[str, Measured]:
        """By group, what its multi-way join is like now."""
        found = {signature: operator.measured() for signature, operator in self._operators.items()}
        return {signature: one for signature, one in found.items() if one is not None}

    def manifest(self) -> bytes:
        """All but the segments' contents, as JSON."""
        groups = {signature: operator_to_json(operator) for signature, operator in self._operators.items()}
        told = {"version": STATE_VERSION, "serial": self._serial.next_number, "progress": self.progress.to_json()}
        told |= {"epoch": self._epoch, "since": self._since, "last_group": self._last_group}
        told |= {"steps": self._steps, "memory": self._memory.to_json(), "now_us": self._now_us}
        return json.dumps({**told, "groups": groups, "orphans": self._orphans}, separators=(",", ":")).encode()

    @classmethod
    def restore(cls, plan: SharedPlan, options: ShardOptions | None, manifest: bytes, source: SegmentSource) -> Shard:
        """The shard that wrote this manifest, under this plan."""
        told = json.loads(manifest)
        if told.get("version") != STATE_VERSION:
            raise StateError(
                f"the checkpoint's state has version {told.get('version')}, this Headrace reads {STATE_VERSION}: "
                "go on with the version that wrote it, or start a new checkpoint"
            )
        shard = cls(plan, options, source)
        shard._serial.next_number = told["serial"]
        shard.progress.from_json(told["progress"])
        shard._orphans = list(told["orphans"])
        shard._last_group = told["last_group"]
        shard._steps, shard._memory = told["steps"], StrategyMemory.from_json(told["memory"])
        shard._now_us = told.get("now_us", 0)
        shard._enter_epoch(told["epoch"], told["since"])
        for signature, kept in told["groups"].items():
            operator = shard._operators.get(signature)
            if operator is None:
                shard._orphans.extend(names_in(kept))
            else:
                if kept["is_deferred"] != operator.is_deferred and (
                    kept["pending"] or kept["queues"] or kept["hold"]["runs"]
                ):
                    # What was found in one way is finished in that way.
                    group = shard._group_of[signature]
                    operator = shard._operator(group, is_deferred=kept["is_deferred"], is_begun=True)
                    shard._operators[signature] = operator
                operator_from_json(kept, operator, source)
        return shard

    @property
    def _group_of(self) -> dict[str, Group]:
        return {group.signature: group for group in self.plan.groups}

    def _enter_epoch(self, epoch: int, since: dict[str, int]) -> None:
        """Goes on with the epoch that was; queries that were not there begin a new one."""
        coming = [identity for identity in self._since if identity not in since]
        self._epoch = epoch + bool(coming)
        self._since = {identity: since.get(identity, self._epoch) for identity in self._since}
        self._operators = self._all_operators()

    def validate(self) -> None:
        """Checks the invariants; for tests."""
        names: list[str] = []
        for operator in self._operators.values():
            names += list(names_in(operator_to_json(operator)))
            completed = [operator.completed(block) for block in operator.pending]
            if completed != sorted(completed, reverse=True):
                raise InvariantError("a newer block has done more windows than an older one")
            joined = operator.joined_runs() if isinstance(operator, TreeOperator) else []
            for state in operator.inputs:
                for run in [*state.window.runs, *joined]:
                    keys, ts_us = run.segment.keys, run.segment.ts_us
                    rising = (keys[1:] > keys[:-1]) | ((keys[1:] == keys[:-1]) & (ts_us[1:] >= ts_us[:-1]))
                    if not np.all(rising) or run.rows < run.live_rows:
                        raise InvariantError(f"run {run.name} is not sorted or lacks rows")
                first_us, progress = state.waiting.first_us, operator.progress
                if None not in (first_us, progress) and Place(first_us, state.position) <= progress:  # type: ignore[arg-type,operator]
                    raise InvariantError(f"rows of {state.input.stream} wait that progress has passed")
                for piece in state.waiting.pieces:
                    if np.any(piece.ts_us[1:] < piece.ts_us[:-1]) or piece.name is None:
                        raise InvariantError("a waiting piece is not in time order or not stored")
        if len(set(names)) != len(names):
            raise InvariantError("two kept segments have the same name")


def _allowed(floors: Floors, stream: StreamId, block: BlockArrived) -> Int64s | None:
    """By source of the block's chunk, what its tuples must not be before; None where they may be at any time."""
    known = [floors[stream, name, block.arrival] for name in block.partitions]
    if all(one is None for one in known):
        return None
    return np.array([LOWEST if one is None else one for one in known], dtype=np.int64)


def _identities(plan: SharedPlan) -> list[str]:
    return [member.identity for group in plan.groups for cls in group.classes for member in cls.members]
