"""A group's operator in one shard: waiting rows in, blocks through the windows (or straight through), results out.

      waiting --admit--> blocks --take_turn, as the policy says--> results, held until a window is done --> emitted
                           \\--first turn--> window (searched by later blocks) --settle--> expired

Owns: :class:`InputState` (what one input holds) and :class:`GroupOperator`. The operator is told how far progress has
come; it makes blocks of what is due, takes the turns it is given, and expires what nothing can reach.
Invariants: after ``admit`` no waiting row is at or before progress; after ``settle`` every held row is within the
largest window of something that may still come or scan, or shares its part with one that is. Blocks, their weights and
so the turns follow from heartbeats alone: they are the same on every shard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from headrace.engine.blocks import HeldResults, PendingBlock
from headrace.engine.budget import ProbeBudget
from headrace.engine.checking import serves
from headrace.engine.cutting import BlockCut, Heard, boundaries, split_rows, stretches
from headrace.engine.events import Effect, EmitCount, EmitRows
from headrace.engine.guests import found_here, guest_marks, has_marks, still_visiting, with_marks
from headrace.engine.join import Sides
from headrace.engine.keys import Int64s
from headrace.engine.matching import key_ranges
from headrace.engine.multiway import MultiJoin
from headrace.engine.output import (
    Cut,
    Emission,
    GroupOutputs,
    cut_for,
    filtered,
    outputs_of,
    reach_of,
    weighted_arrivals,
)
from headrace.engine.policy import JoinPolicy, LargestWindowOnly, ScanLevel, Turn, policy_for
from headrace.engine.releasing import released_from, still_held
from headrace.engine.sampling import measure
from headrace.engine.segments import KEY, PLACE, Layout, Segment, int64s_of, seen_column
from headrace.engine.spaces import Block, KeySearch, Matches, NewRows, Reach, Space, make_block
from headrace.engine.steps import connected_order
from headrace.engine.waiting import Counted, Released, WaitingRows
from headrace.engine.window import Collected, Serial, WindowStore
from headrace.model import QueryId, TypeKind
from headrace.plan.expressions import ColumnRef, Expression
from headrace.plan.facts import Measured
from headrace.plan.joingraph import KeyForm
from headrace.plan.queries import Measure
from headrace.plan.sharing import Delivery, Group, Input, Member, Sizes, expression_text


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """How far a stream, or all streams of a group, have come: an event time, and the stream that is next at it."""

    ts_us: int
    position: int


END_OF_TIME = Place(2**63 - 1, 2**31)


def layout_of(input: Input, key_form: KeyForm) -> Layout:
    """Where an input's rows have their time and keys."""
    if input.indexes:
        first = input.indexes[0]
        return Layout(input.time, _number_column(first.keys, first.form), len(input.indexes) - 1)
    return Layout(input.time, _number_column(input.keys, key_form))


def _number_column(keys: Sequence[Expression], form: KeyForm) -> str:
    """A BIGINT or TIMESTAMP column that is the key serves as the key's number, in batches that carry it anyway."""
    if form is not KeyForm.HASHED and len(keys) == 1:
        (key,) = keys
        if isinstance(key, ColumnRef) and key.type.kind in (TypeKind.BIGINT, TypeKind.TIMESTAMP):
            return key.name
    return KEY


@dataclass(slots=True)
class InputState:
    """One input of a group in one shard."""

    input: Input
    position: int
    collected: Collected
    waiting: WaitingRows
    window: WindowStore

    @staticmethod
    def empty(group: Group, index: int, position: int, serial: Serial, fanout: int) -> InputState:
        input = group.inputs[index]
        collected = Collected(input.schema.names, tuple(expression_text(one) for one in input.pushed))
        layout = layout_of(input, group.key_form)
        return InputState(
            input, position, collected, WaitingRows(input.time, serial), WindowStore(layout, fanout, serial)
        )

    def drain(self) -> Iterator[Effect]:
        yield from self.waiting.drain()
        yield from self.window.drain()

    def release(self, upto: Place) -> tuple[list[Released], Counted]:
        return self.waiting.release(upto.ts_us, inclusive=self.position <= upto.position)


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """How a group's work is done; none of it changes an answer."""

    cut: Cut = Cut.BANDS
    policy: type[JoinPolicy] = LargestWindowOnly
    finds: Callable[[str, int], tuple[KeySearch, ...]] = lambda _, sides: (key_ranges,) * sides
    """For a group with so many sides, how partners are found on each."""
    block: BlockCut = field(default_factory=BlockCut)
    orders: Mapping[str, Orders] = field(default_factory=dict)
    """By group, the order of the sides for new tuples of each; a group without: as its predicates connect them."""
    reevaluate_us: int = 0
    """Tuples are joined when progress has passed the end of their stretch of so much time; 0: at once."""
    expiry_us: Mapping[str, int] = field(default_factory=dict)
    """By group, after how much time tuples that left are let go; a group without: at once."""


Orders: TypeAlias = tuple[tuple[int, ...], ...]


class GroupOperator:
    """One group's running state in one shard. ``since``: from which epoch on each query is served, by identity."""

    def __init__(
        self,
        group: Group,
        inputs: Sequence[InputState],
        options: OperatorOptions,
        since: Mapping[str, int],
        epoch: int,
    ) -> None:
        self.group = group
        self.inputs = tuple(inputs)
        self.pending: list[PendingBlock] = []
        self.progress: Place | None = None
        self.heard = Heard()
        self.windows = group.windows
        self._options = options
        self._since = since
        self._epoch = epoch
        self._members = [member for cls in group.classes for member in cls.members]
        self._delivery = {member.identity: cls.delivery for cls in group.classes for member in cls.members}
        self._levels = _scan_levels(self.windows, self._members) if group.is_join else []
        self._policy = policy_for(options.policy, tuple(self._levels)) if group.is_join else None
        self._finished: list[Effect] = []

    @cached_property
    def _outputs(self) -> GroupOutputs:
        return outputs_of(self.group.classes, tuple(self.inputs[index].collected for index in self.group.sides))

    # --- taking in

    def accept(self, index: int, batch: pa.RecordBatch, arrived_us: int, chunk_us: Int64s | None) -> None:
        """Takes rows of one input, in arrival order."""
        state = self.inputs[index]
        state.waiting.add(batch, arrived_us, with_marks(state.collected, batch), chunk_us)

    def admit(self, progress: Place | None) -> Iterator[Effect]:
        """Makes blocks of what is due at ``progress``; a single stream's rows go straight through."""
        if progress is None:
            return
        progress = self._evaluated(progress)
        if not self.group.is_join:
            for part, released in enumerate(self.inputs[0].release(progress)[0]):
                yield from (_in_part(one, part) for one in self._select(released))
            return
        self._prune()
        moved = self.progress is None or progress > self.progress
        if moved or self.heard.lately:
            self._admit_blocks(progress)
        self.heard.lately = False
        if moved and progress != END_OF_TIME:
            self.progress = progress

    def _evaluated(self, progress: Place) -> Place:
        """How far tuples are taken in: lazily, to the end of the last stretch that progress has passed."""
        span_us = self._options.reevaluate_us
        if not span_us or progress == END_OF_TIME or not self.group.is_join:
            return progress
        return Place(progress.ts_us // span_us * span_us - 1, END_OF_TIME.position)

    def _prune(self) -> None:
        """Lets blocks go that no query waits for any more."""
        for block in [one for one in self.pending if self.completed(one) == len(self.windows)]:
            if block.done is None:
                for one in block.rounds:
                    self._insert_round(one)
            self._finished += block.drop()
            self.pending.remove(block)

    def _admit_blocks(self, progress: Place) -> None:
        before_us = self.heard.before_us() if self.progress is None else self.progress.ts_us
        ends = boundaries(self._options.block, before_us, progress.ts_us)
        for place in [*(Place(end, END_OF_TIME.position) for end in ends), progress]:
            blocks = self._blocks_upto(place)
            weight = max(1, self.heard.due(place.ts_us) // len(blocks))
            for rounds in blocks:
                tuples = sum(len(block.arrived_us) for block in rounds)
                self.pending.append(PendingBlock(self._epoch, weight, tuples, rounds, self._is_whole(rounds)))

    def _blocks_upto(self, place: Place) -> list[list[Block]]:
        """What is due there, as one block or several, each in as many rounds as the way of collecting changes."""
        all_released, counted = zip(*(state.release(place) for state in self.inputs), strict=True)
        released = self._without_idle_guests(all_released, place)
        positions = [state.position for state in self.inputs]
        rounds = [self._with_seen(one, counted) for one in stretches(released, positions)]
        layouts = [state.window.layout for state in self.inputs]
        rows = self._options.block.rows
        if rows is not None and len(rounds) == 1 and len(set(positions)) == len(positions):
            pieces = split_rows(rounds[0], positions, rows)
            return [[make_block(piece, layouts, positions)] for piece in pieces]
        return [[make_block(one, layouts, positions) for one in rounds]]

    def _without_idle_guests(self, released: Sequence[list[Released]], place: Place) -> Sequence[list[Released]]:
        """What is due there, less the guests that come when nothing is left that they are here for."""
        if not any(has_marks(one.collected) for some in released for one in some):
            return released
        reached = self.progress if place == END_OF_TIME else place
        oldest_us = []
        for index, (state, some) in enumerate(zip(self.inputs, released, strict=True)):
            held = [*(run.min_us for run in state.window.runs), *(int(one.ts_us[0]) for one in some)]
            waiting = (state.waiting.first_us, *(block.oldest_us(index) for block in self.pending))
            coming_us = -(2**63) if reached is None else reached.ts_us
            oldest_us.append(min([coming_us, *held, *(one for one in waiting if one is not None)]))
        sides = self.group.key_sides
        return [still_visiting(some, side, sides, oldest_us) for side, some in enumerate(released)]

    def _with_seen(self, released: Sequence[Released | None], counted: Sequence[Counted]) -> list[Released | None]:
        """The rows of a round, each with how many tuples of another side's stream are before it, where it matters."""
        found = list(released)
        for index, state in enumerate(self.inputs):
            one = found[index]
            if one is None:
                continue
            for other in (other for other in self._others(index) if self.group.counts_rows[other]):
                if self.inputs[other].input.stream == state.input.stream:
                    seen = int64s_of(one.batch, PLACE)
                else:
                    first_at_tie = self.inputs[other].position < state.position
                    seen = counted[other].seen(one.ts_us, first_at_tie=first_at_tie)
                one = replace(one, batch=one.batch.append_column(seen_column(other), pa.array(seen)))
            found[index] = one
        return found

    def _others(self, index: int) -> list[int]:
        """The inputs that an input's new tuples probe; of a self-join on one key, itself."""
        others = [other for other in range(len(self.inputs)) if other != index]
        return others or [index]

    def _is_whole(self, rounds: Sequence[Block]) -> bool:
        """Whether a block's results are only in order when it is scanned at once."""
        joins = (self._join(block) for block in rounds)
        if self.group.graph is not None:
            ordered = Cut.WINDOWS in (cut_for(one, self._options.cut) for one in self._delivery.values())
            return len(rounds) > 1 or (ordered and len(self.windows) > 1) or any(join.is_late for join in joins)
        uneven = self.group.sides == (0, 0) and any(sizes[0] != sizes[1] for sizes in self.windows)
        mixed = self.group.sides == (0, 0) and len(set(self.group.measures)) > 1
        if len(rounds) > 1 or self.group.numbers_tuples or uneven or mixed:
            return True
        return any(join.is_late for join in joins)

    def _select(self, released: Released) -> Iterator[Emission]:
        """A single stream's rows, filtered and projected."""
        rows = np.arange(len(released.ts_us))
        new = NewRows(Segment(released.batch, rows, released.ts_us), rows, released.collected)
        spaces = (Space((), new, Layout(self.inputs[0].input.time)),)
        matches = Matches((rows,), rows, np.zeros(len(rows), dtype=np.int8))
        yield from self._outputs.emissions(matches, spaces, released.arrived_us, self._options.cut)

    # --- turns

    @property
    def backlog_rows(self) -> int:
        """What waits to be scanned, as all shards weigh it."""
        return sum(block.weight for block in self.pending)

    def backlog(self) -> list[int]:
        """For each window, the tuples here that wait to scan it next."""
        queued = [0] * len(self.windows)
        for block in self.pending:
            queued[self.completed(block)] += block.tuples
        return queued

    def take_turn(self, budget: ProbeBudget) -> Iterator[Effect]:
        """One scan, as the policy chooses; without a limit, the oldest block through all windows."""
        completed = [self.completed(block) for block in self.pending]
        assert self._policy is not None
        turn = Turn(0, len(self.windows)) if budget.limit is None else self._policy.next_turn(completed)
        block = self.pending[turn.position]
        budget.charge(self._probes(block, completed[turn.position], turn.upto))
        yield from self._scan_on(block, turn.upto)
        if self.completed(block) == len(self.windows):
            self._finished += block.drop()
            self.pending.remove(block)

    def _probes(self, block: PendingBlock, done: int, upto: int) -> int:
        """What a turn costs: time goes with how far back is scanned (paper 000, section 3.3)."""
        ends = [0, *(level.size for level in self._levels)]
        whole = max(ends[-1], 1)
        return max(1, round(block.weight * len(self.windows) * (ends[upto] - ends[done]) / whole))

    def completed(self, block: PendingBlock) -> int:
        """How many windows, from the smallest, a block has scanned; all of them once no query waits for it. (One that
        it does not serve counts like any other: a newer block must not overtake it there.)"""
        if all(_is_done(sizes, block.done) for sizes in self._served_windows(block)):
            return len(self.windows)
        return next(number for number, sizes in enumerate(self.windows) if not _is_done(sizes, block.done))

    def _served_windows(self, block: PendingBlock) -> Collection[Sizes]:
        return self.windows if block.epoch == self._epoch else {member.sizes for member in self._served(block)}

    def _served(self, block: PendingBlock) -> list[Member]:
        if block.epoch == self._epoch:
            return self._members
        return [member for member in self._members if self._since[member.identity] <= block.epoch]

    def _scan_on(self, block: PendingBlock, upto: int) -> Iterator[Effect]:
        """Takes a block through the windows up to ``upto`` (a number of them), and emits what that completes."""
        served, before = self._served(block), block.done
        windows = self.windows[:upto] if upto < len(self.windows) else tuple(self._served_windows(block))
        reach = reach_of(windows if before is None else [*windows, before])
        newly = [one for one in served if _is_done(one.sizes, reach) and not _is_done(one.sizes, before)]
        if before is None and len(newly) == len(self._members):
            yield from self._straight_through(block)
        else:
            fresh = list(self._found(block, reach, served))
            later = {one.identity for one in served if not _is_done(one.sizes, reach)}
            yield from self._release(block, fresh, newly, later)
        block.done = reach
        if before is None:
            self._insert(block)

    def _straight_through(self, block: PendingBlock) -> Iterator[Effect]:
        """A new block through all windows at once: nothing need be held."""
        reach = Reach(reach_of(self.windows))
        for one in block.rounds:
            join = self._join(one)
            if self._only_counts(join) and not (self._is_uneven and join.is_late):
                yield from self._count(one, join)
            else:
                for matches in self._matches(join, reach):
                    yield from self._outputs.emissions(matches, join.spaces, one.arrived_us, self._options.cut)
            if len(block.rounds) > 1:
                self._insert_round(one)

    def _found(self, block: PendingBlock, reach: Sizes, served: Sequence[Member]) -> Iterator[HeldResults]:
        """What a scan from where the block stands finds, for each class, with its round."""
        if block.is_scanned:
            return
        upto = reach_of([member.sizes for member in served]) if block.whole else reach
        for number, one in enumerate(block.rounds):
            join = self._join(one, is_resumed=block.done is not None)
            first = 0 if block.whole else None
            for matches in self._matches(join, Reach(upto, block.done)):
                for held in self._outputs.hold(matches, join.spaces, one.arrived_us, first):
                    held.round = number
                    yield held
                first = None if first is None else first + len(matches)
            if len(block.rounds) > 1:
                self._insert_round(one)

    def _release(
        self, block: PendingBlock, fresh: list[HeldResults], newly: Sequence[Member], later: set[str]
    ) -> Iterator[Effect]:
        """Emits what the windows just done complete, and holds on to what larger ones will need."""
        by_cut: dict[Cut, dict[str, QueryId]] = {}
        for member in newly:
            cut = cut_for(self._delivery[member.identity], self._options.cut)
            by_cut.setdefault(cut, {})[member.identity] = member.query
        for cut, queries in by_cut.items():
            emissions = released_from([*fresh, *block.held], queries, cut)
            yield from _apart(emissions) if cut is Cut.BANDS else emissions
        block.held = [*still_held(fresh, later), *block.held]

    def _matches(self, join: Sides | MultiJoin, reach: Reach) -> Iterator[Matches]:
        marks = guest_marks(self.group.key_sides, join.spaces)
        for found in join.scan(reach):
            at_home = found_here(found, join.spaces, marks)
            matches = filtered(at_home, join.spaces, self.group.verified)
            if len(self.windows) > 1 or self._is_uneven:
                matches = matches.with_ages(join.spaces, self.group.measures, by_side=self._is_uneven)
            yield matches

    @property
    def _is_uneven(self) -> bool:
        return any(len(set(sizes)) > 1 for sizes in self.windows)

    def _join(self, block: Block, *, is_resumed: bool = False) -> Sides | MultiJoin:
        """The sides as a block meets them."""
        shared = [
            Space(state.window.runs, new, state.window.layout, index, state.position)
            for index, (state, new) in enumerate(zip(self.inputs, block.inputs, strict=True))
        ]
        spaces = tuple(shared[index] for index in self.group.sides)
        measures = self.group.measures
        if self.group.graph is not None:
            return MultiJoin(spaces, measures, self.group.graph, self._orders, self._finds, is_resumed)
        finds = (self._finds[0], self._finds[1])
        return Sides((spaces[0], spaces[1]), (measures[0], measures[1]), finds, is_resumed)

    @cached_property
    def _finds(self) -> tuple[KeySearch, ...]:
        return self._options.finds(self.group.signature, len(self.group.sides))

    @cached_property
    def _orders(self) -> Orders:
        assert self.group.graph is not None
        given = self._options.orders.get(self.group.signature)
        return given or tuple(connected_order(self.group.graph, origin) for origin in self.group.graph.sides)

    def _insert(self, block: PendingBlock) -> None:
        """Lets later blocks find this one's rows."""
        if len(block.rounds) == 1:
            self._insert_round(block.rounds[0])

    def _insert_round(self, block: Block) -> None:
        for state, new in zip(self.inputs, block.inputs, strict=True):
            if new is not None:
                state.window.insert(new.segment, new.collected)
                state.window.compact()

    def _only_counts(self, join: Sides | MultiJoin) -> bool:
        """Whether lengths of ranges are all that is asked for."""
        if isinstance(join, MultiJoin) and (not join.can_count or join.is_late):
            return False
        if guest_marks(self.group.key_sides, join.spaces):
            return False
        counted = all(cls.delivery is Delivery.COUNT and not cls.filters for cls in self.group.classes)
        usable = counted and all(
            serves(cls, side, collected) and not cls.unchecked(side, collected.pushed)
            for cls in self.group.classes
            for side, space in enumerate(join.spaces)
            for collected in set(space.collections)
        )
        return usable and not self.group.verified

    def _count(self, block: Block, join: Sides | MultiJoin) -> Iterator[Emission]:
        """Counts each window; a window's count includes the smaller windows'."""
        for sizes, found in zip(self.windows, join.counts(self.windows), strict=True):
            queries = tuple(member.query for member in self._members if member.sizes == sizes)
            if found.any():
                yield EmitCount(queries, int(found.sum()), weighted_arrivals(found, block.arrived_us))

    def measured(self) -> Measured | None:
        """What a multi-way join is like now, for choosing its orders; of two sides there is only one."""
        if self.group.graph is None or len(self.group.sides) < 3:
            return None
        spaces = tuple(
            Space(state.window.runs, None, state.window.layout, index, state.position)
            for index, state in enumerate(self.inputs)
        )
        return measure(self.group.graph, spaces)

    # --- settling

    def settle(self, reached_us: Sequence[int | None]) -> Iterator[Effect]:
        """Expires, and tells the store. ``reached_us``: by input, what no future tuple is older than."""
        if self.group.is_join:
            self._expire(reached_us)
        yield from self._finished
        self._finished.clear()
        for block in self.pending:
            yield from block.keep(self.inputs[0].waiting.serial)
        for state in self.inputs:
            yield from state.drain()

    def _expire(self, reached_us: Sequence[int | None]) -> None:
        """A held tuple goes when the largest window of the oldest tuple that may still probe it has passed, in every
        role that it has."""
        reach = reach_of(self.windows)
        for index, state in enumerate(self.inputs):
            others = self._others(index)
            cutoffs: list[tuple[int | None, int | None]] = []
            for side in (side for side, used in enumerate(self.group.sides) if used == index):
                if self.group.measures[side] is Measure.ROWS:
                    seen = [block.least_seen(other, index) for block in self.pending for other in others]
                    cutoffs.append((None, _least(state.waiting.counted, *seen) - reach[side]))  # type: ignore[operator]
                elif all(reached_us[other] is not None for other in others):
                    oldest_us = _least(*(self._oldest_us(other, reached_us[other]) for other in others))
                    cutoffs.append((oldest_us - reach[side], None))  # type: ignore[operator]
                else:
                    cutoffs.append((None, None))
            if all(cutoff != (None, None) for cutoff in cutoffs):
                times = [cutoff_us for cutoff_us, _ in cutoffs if cutoff_us is not None]
                places = [place for _, place in cutoffs if place is not None]
                state.window.expire_before(self._floored(min(times, default=None)), min(places, default=None))

    def _floored(self, cutoff_us: int | None) -> int | None:
        """A cut-off in time, at the start of the stretch that it is in."""
        span_us = self._options.expiry_us.get(self.group.signature, 0)
        return cutoff_us // span_us * span_us if span_us and cutoff_us is not None else cutoff_us

    def _oldest_us(self, index: int, reached_us: int | None) -> int | None:
        """The oldest tuple of an input that may still probe."""
        pending = (block.oldest_us(index) for block in self.pending)
        return _least(reached_us, self.inputs[index].waiting.first_us, *pending)


def _least(*numbers: int | None) -> int | None:
    return min((number for number in numbers if number is not None), default=None)


def _is_done(sizes: Sizes, done: Sizes | None) -> bool:
    return done is not None and all(size <= reached for size, reached in zip(sizes, done, strict=True))


def _scan_levels(windows: Sequence[Sizes], members: Sequence[Member]) -> list[ScanLevel]:
    """The windows as a policy sees them: how far has been scanned when each is done, and by how many it is wanted."""
    return [
        ScanLevel(sum(reach_of(windows[: number + 1])), sum(member.sizes == sizes for member in members))
        for number, sizes in enumerate(windows)
    ]


def _apart(emissions: Iterator[Emission]) -> Iterator[Emission]:
    """Cells that the same queries read come in parts of their own: each is in order, and goes on with the next block's
    cell in its place."""
    times: dict[tuple[QueryId, ...], int] = {}
    for emission in emissions:
        if isinstance(emission, EmitRows):
            times[emission.queries] = times.get(emission.queries, 0) + 1
            yield replace(emission, part=-times[emission.queries])
        else:
            yield emission


def _in_part(emission: Emission, part: int) -> Emission:
    return replace(emission, part=part) if part and isinstance(emission, EmitRows) else emission
