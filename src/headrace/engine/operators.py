"""A group's operator in one shard: waiting rows in, blocks through the windows (or straight through), results out.

      waiting --admit--> blocks --take_turn, as the policy says--> results, held until a window is done --> emitted
                           \\--first turn--> window (searched by later blocks) --settle--> expired

Owns :class:`GroupOperator`: what a shard calls, and the order in which a group's parts work. It is told how far
progress has come; it has blocks made of what is due (``admitting``), takes the turns it is given (``turns`` and
``block_scan``; in ``block_queue`` they wait), and expires what nothing can reach (``expiring``). Aggregates that come
live are given what they lack (``coming_live``).
Invariants: after ``admit`` no waiting row is at or before progress; after ``settle`` every held row is within the
largest window of something that may still come or scan, or shares its part with one that is. Blocks, their weights and
so the turns follow from heartbeats alone: they are the same on every shard. Cost: its parts'.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from headrace.engine.admitting import Intake
from headrace.engine.block_queue import BlockQueue
from headrace.engine.block_scan import BlockScan
from headrace.engine.blocks import Backlog, PendingBlock
from headrace.engine.budget import ProbeBudget
from headrace.engine.coming_live import ComingLive
from headrace.engine.cutting import stretches
from headrace.engine.downstream import ONE_FOR_ONE, Downstream, WorkDone
from headrace.engine.events import DropSegment, Effect, EmitRows
from headrace.engine.expiring import expire
from headrace.engine.group_folds import GroupFolds
from headrace.engine.guests import with_marks
from headrace.engine.histories import NEVER
from headrace.engine.holding import HoldBuffer
from headrace.engine.inputs import END_OF_TIME, InputState, Place
from headrace.engine.keys import Int64s
from headrace.engine.options import OperatorOptions
from headrace.engine.output import GroupOutputs, outputs_of
from headrace.engine.policy import policy_for
from headrace.engine.releasing import in_part
from headrace.engine.scanning import GroupJoin
from headrace.engine.turns import JoinTurns
from headrace.engine.window import SegmentSource, Serial
from headrace.model import QueryId
from headrace.plan.facts import Measured
from headrace.plan.opgraph import OperatorName
from headrace.plan.sharing import Group, OutputClass


class GroupOperator:
    """One group's running state in one shard. ``since``: from which epoch on each query is served, by identity.
    ``classes``: what is made of the results by operators of their own, called ``names``, where the group is such that
    it only gives columns."""

    def __init__(
        self,
        group: Group,
        inputs: Sequence[InputState],
        options: OperatorOptions,
        since: Mapping[str, int],
        epoch: int,
        serial: Serial,
        classes: Sequence[OutputClass] | None = None,
        names: Sequence[tuple[OperatorName, ...]] = (),
        source: SegmentSource | None = None,
    ) -> None:
        self.group = group
        self.inputs = tuple(inputs)
        self.windows = group.windows
        self._options = options
        self._serial = serial
        self._join = GroupJoin(group, self.inputs, options)
        self._queue = BlockQueue(group, since, epoch)
        self._intake = Intake(group, self.inputs, options, self._join, self._queue)
        self.heard = self._intake.heard
        self.folds = GroupFolds(group, options.points, serial, forwards=options.forwards)
        self.hold = HoldBuffer(serial, source, options.hold_bytes)
        policy = policy_for(options.policy, tuple(self._queue.levels)) if group.is_join else None
        self._turns = JoinTurns(self._queue, policy, self.hold, options.cut)
        self._turn_of: PendingBlock
        self._finished: list[Effect] = []
        self.is_deferred = classes is not None
        raw, folds = group.classes if classes else (), self.folds.operators
        self.downstream = Downstream(classes or (), raw, names, folds, since, epoch)
        given = group.classes if classes is None else tuple(classes)
        self._coming = ComingLive(group, given, self.inputs, self.folds, self.downstream, options, source)
        self.step_number = 0
        self.scanned_rows = 0.0
        """What a scan's stream brought in this step: an even part of what all shards heard."""
        self.joined_s = 0.0
        """How long turns took in this step, by ``now_s``, the host's clock for that."""
        self.now_s: Callable[[], float] = lambda: 0.0

    def measured(self) -> Measured | None:
        return self._join.measured()

    @cached_property
    def _outputs(self) -> GroupOutputs:
        return outputs_of(self.group.classes, tuple(self.inputs[index].collected for index in self.group.sides))

    def _scan(self) -> BlockScan:
        """How blocks are scanned, for a turn."""
        return BlockScan(self.inputs, self.windows, self._join, self._outputs, self.folds, self._options.cut)

    # --- where it stands; a restored one is told

    @property
    def pending(self) -> list[PendingBlock]:
        """The blocks that wait."""
        return self._queue.blocks

    @pending.setter
    def pending(self, blocks: list[PendingBlock]) -> None:
        self._queue.blocks = blocks

    @property
    def progress(self) -> Place | None:
        """Up to where all tuples have been taken in."""
        return self._intake.progress

    @progress.setter
    def progress(self, progress: Place | None) -> None:
        self._intake.progress = progress

    @property
    def ahead(self) -> Place | None:
        """How far any tuple has been taken in ahead of another stream; None once progress is past it."""
        return self._intake.ahead

    @ahead.setter
    def ahead(self, ahead: Place | None) -> None:
        self._intake.ahead = ahead

    @property
    def taken(self) -> list[int]:
        """How many tuples of each input were taken in so."""
        return self._intake.taken

    @taken.setter
    def taken(self, taken: list[int]) -> None:
        self._intake.taken = taken

    @property
    def was_ahead(self) -> bool:
        """Whether a turn may release results of any window."""
        return self._intake.was_ahead

    @was_ahead.setter
    def was_ahead(self, was_ahead: bool) -> None:
        self._intake.was_ahead = was_ahead

    # --- queries that come live

    def ask(self, kept: Mapping[str, Sequence[int]]) -> None:
        """Says what aggregates lack that was found before; ``kept``: what ``fold_reaches`` was when it was found."""
        if self.group.is_join:
            self._coming.ask(kept)

    def fold_reaches(self) -> dict[str, tuple[int, int]]:
        """By aggregate: its largest window; how far back the results lie that it is given."""
        return self._coming.reaches(self._outputs) if self.group.is_join else {}

    def look_back(self) -> Iterator[Effect]:
        """Gives aggregates what they lack of what has been found before: all of it, whatever the budget."""
        yield from self._coming.look_back(self.progress, self.pending)

    # --- taking in

    def accept(self, index: int, batch: pa.RecordBatch, arrived_us: int, chunk_us: Int64s | None) -> None:
        """Takes rows of one input, in arrival order."""
        state = self.inputs[index]
        state.waiting.add(batch, arrived_us, with_marks(state.collected, batch), chunk_us)

    def admit(
        self, progress: Place | None, newest_us: int | None, reached: Sequence[Place | None] | None = None
    ) -> Iterator[Effect]:
        """Makes blocks of what is due at ``progress``; a single stream's rows go straight through. ``newest_us``: the
        newest time of all its streams, which is how far things are when they have ended. ``reached``: how far each
        input's stream has come, where tuples are not to wait for other streams (Filter-Order)."""
        progress = self._intake.move_to(progress, newest_us)
        if progress != END_OF_TIME and self._intake.is_ahead_of(progress, reached):
            self._prune()
            self._intake.take_in_ahead(progress, reached, self.step_number)
            yield from self._released_first()
        elif progress is not None and self.group.is_join:
            self._prune()
            self._intake.take_in(progress, self.step_number)
            yield from self._released_first()
        elif progress is not None:
            yield from self._pass_through(progress)

    def _pass_through(self, progress: Place) -> Iterator[Effect]:
        """A single stream's rows that are due, filtered and projected."""
        emitted: list[EmitRows] = []
        first_us = NEVER
        due, _ = self.inputs[0].release(progress)
        rounds = stretches([due], [self.inputs[0].position])
        for part, released in enumerate(one for (one,) in rounds if one is not None):
            first_us = min(first_us, int(released.ts_us.min(initial=NEVER)))
            assert self._intake.complete_us is not None
            selected = self._scan().select(released, self._intake.complete_us)
            yield from self._sorted_out((in_part(one, part) for one in selected), emitted)
        known_us = first_us if first_us == NEVER else first_us - 1
        self._put(self.scanned_rows, self.step_number, known_us, emitted)

    def _prune(self) -> None:
        """Lets blocks go that no query waits for any more, before others come."""
        for block in [one for one in self.pending if self._queue.is_through(one)]:
            if block.done is None:
                self._scan().insert_unscanned(block)
            self._finished += self._queue.dropped(block)
        self._queue.forget_sums()

    # --- turns

    @property
    def backlog_rows(self) -> int:
        """What waits to be scanned, as all shards weigh it."""
        return self.summed().rows

    def summed(self) -> Backlog:
        """All that waits, added up."""
        return self._queue.summed()

    @property
    def held_bytes(self) -> int:
        """Results that are held for larger windows, here."""
        return self._queue.held_bytes

    def backlog(self) -> list[int]:
        """For each window, the tuples here that wait to scan it next."""
        return self._queue.backlog()

    def completed(self, block: PendingBlock) -> int:
        """How many windows, from the smallest, a block has scanned; all of them once no query waits for it."""
        return self._queue.completed(block)

    def _sorted_out(self, effects: Iterable[Effect], emitted: list[EmitRows]) -> Iterator[Effect]:
        """What leaves at once; what operators here have to go on with is put by."""
        for effect in effects:
            if isinstance(effect, EmitRows) and self.downstream.takes(effect):
                emitted.append(effect)
            elif isinstance(effect, EmitRows) and self.is_deferred:
                yield from self.downstream.finished(effect)
            else:
                yield effect

    def _put(
        self,
        weight: float,
        came: int,
        known_us: int,
        emitted: Sequence[EmitRows],
        parts: Mapping[OperatorName, float] = ONE_FOR_ONE,
        due: Collection[QueryId] | None = None,
    ) -> WorkDone:
        """Queues what a turn made for the operators after it."""
        found = self.folds.take_found()
        if not self.is_deferred:
            return WorkDone(weight)
        return self.downstream.put(weight, came, known_us, emitted, found, parts, due)

    def _due(self) -> Collection[QueryId] | None:
        """Whose results a turn may have given, as all shards know it; None: anybody's. What was held because it was
        taken in ahead leaves when progress is past it: the last of it with the turn that ends the scans of all that was
        taken in so, or the first one after."""
        if not self.was_ahead:
            return [member.query for member in self._turns.newly]
        self.was_ahead = self.ahead is not None or any(block.ahead for block in self.pending)
        return None

    def join_turn(
        self, budget: ProbeBudget, parts: Mapping[OperatorName, float], *, is_oldest: bool = False
    ) -> Iterator[Effect | WorkDone]:
        """A turn of the join; what it makes goes on to the operators after it, and at the end, what it did: of the
        block's tuples, the turn's part of the way back. ``parts``: about how many results a probe finds for each of
        these operators; ``is_oldest``: it is the turn of the oldest block."""
        before = budget.spent
        emitted: list[EmitRows] = []
        yield from self._sorted_out(self.take_turn(budget, is_oldest=is_oldest), emitted)
        probes, block = budget.spent - before, self._turn_of
        done = self._put(probes, block.came, block.known_us, emitted, parts, self._due())
        share = probes / max(1, block.weight * len(self.windows))
        yield replace(done, rows_in=share * block.tuples, bytes_in=share * block.nbytes)

    def take_turn(self, budget: ProbeBudget, *, is_oldest: bool = False) -> Iterator[Effect]:
        """One scan: as the policy chooses, or of the oldest block (``is_oldest``, and where there is no limit)."""
        turn = self._turns.next_turn(budget, is_oldest=is_oldest)
        block = self._turn_of = self.pending[turn.position]
        sums, before = self.summed(), self._queue.weighed(block)
        budget.charge(self._queue.cost(block, turn.upto))
        yield from self._clocked(self._turns.scanned(self._scan(), block, turn.upto, self._intake.released_to))
        self._finished += self._queue.after_turn(block, sums, before)
        yield from self._release_held()

    def _clocked(self, effects: Iterator[Effect]) -> Iterator[Effect]:
        """The effects, and how long it takes to make them; not what is done with them."""
        began_s = self.now_s()
        for effect in effects:
            self.joined_s += self.now_s() - began_s
            yield effect
            began_s = self.now_s()
        self.joined_s += self.now_s() - began_s

    def _released_first(self) -> Iterator[Effect]:
        """What progress completes by itself, before any turn is taken; where operators go on with it, at a turn."""
        if not self.is_deferred:
            yield from self._release_held()

    def _release_held(self) -> Iterator[Effect]:
        """What was held and is complete now."""
        yield from self._turns.release_held(self._intake.released_to)

    # --- settling

    def let_go(self, names: Iterable[str]) -> None:
        """Has these segments dropped: what they were for is not asked for any more."""
        self._finished += [DropSegment(name) for name in names]

    def settle(self, reached_us: Sequence[int | None], *, ended: bool) -> Iterator[Effect]:
        """Evaluates aggregates, expires, and tells the store. ``reached_us``: by input, what no future tuple is older
        than."""
        yield from self.downstream.finish()
        complete_us = self._intake.complete_us
        if complete_us is not None:
            known_until = self._queue.known_until
            known_us = {sizes: known_until(number, complete_us) for number, sizes in enumerate(self.windows)}
            yield from self.folds.evaluate(known_us, self.downstream.held_back_us, self.now_s, ended=ended)
            self._intake.complete_us = None
        yield from self.folds.settle()
        yield from self.downstream.settle(self._serial)
        if self.group.is_join:
            interval_us = self._options.expiry_us.get(self.group.signature, 0)
            expire(self.group, self.inputs, self.pending, reached_us, interval_us, self.progress)
        yield from self._finished
        self._finished.clear()
        yield from self.hold.settle()
        for block in self.pending:
            yield from block.keep(self.inputs[0].waiting.serial)
        for state in self.inputs:
            yield from state.drain()
