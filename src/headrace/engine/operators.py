"""A group's operator in one shard: waiting rows in, blocks through the windows (or straight through), results out.

      waiting --admit--> blocks --take_turn, as the policy says--> results, held until a window is done --> emitted
                           \\--first turn--> window (searched by later blocks) --settle--> expired

Owns :class:`GroupOperator`. It is told how far progress has come; it makes blocks of what is due, takes the turns it is
given (``scanning`` is the join itself), and expires what nothing can reach (``expiring``).
Invariants: after ``admit`` no waiting row is at or before progress; after ``settle`` every held row is within the
largest window of something that may still come or scan, or shares its part with one that is. Blocks, their weights and
so the turns follow from heartbeats alone: they are the same on every shard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa

from headrace.engine.admitting import taken_ahead, with_seen, without_idle_guests
from headrace.engine.blocks import NO_BACKLOG, Backlog, HeldResults, PendingBlock
from headrace.engine.budget import ProbeBudget
from headrace.engine.cutting import Heard, boundaries, split_rows, stretches
from headrace.engine.downstream import ONE_FOR_ONE, Downstream, WorkDone
from headrace.engine.events import DropSegment, Effect, EmitRows
from headrace.engine.expiring import expire
from headrace.engine.group_folds import GroupFolds
from headrace.engine.guests import with_marks
from headrace.engine.histories import LOWEST, NEVER
from headrace.engine.holding import HoldBuffer, marked_early
from headrace.engine.inputs import ALL_STREAMS, END_OF_TIME, InputState, Place
from headrace.engine.keys import Int64s
from headrace.engine.levels import is_done, scan_levels, turn_cost
from headrace.engine.lookback import Asked, held_matches
from headrace.engine.options import OperatorOptions
from headrace.engine.output import Cut, Emission, GroupOutputs, cut_for, outputs_of, reach_of
from headrace.engine.policy import Turn, policy_for
from headrace.engine.releasing import in_part, in_parts, released_from, still_held
from headrace.engine.scanning import GroupJoin
from headrace.engine.segments import Layout, Segment
from headrace.engine.spaces import Block, Matches, NewRows, Reach, Space, make_block
from headrace.engine.waiting import Released
from headrace.engine.window import SegmentSource, Serial
from headrace.model import QueryId
from headrace.plan.canonical import Sizes
from headrace.plan.facts import Measured
from headrace.plan.opgraph import OperatorName
from headrace.plan.sharing import Delivery, Group, Member, OutputClass


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
        self.pending: list[PendingBlock] = []
        self._sums: Backlog | None = None
        """What waits, added up; None: other blocks are there than when it was."""
        self.progress: Place | None = None
        self.heard = Heard()
        self.windows = group.windows
        self._options = options
        self._since = since
        self._epoch = epoch
        self._members = [member for cls in group.classes for member in cls.members]
        self._delivery = {member.identity: cls.delivery for cls in group.classes for member in cls.members}
        self._holds = any(delivery is not Delivery.FOLDED for delivery in self._delivery.values())
        self._levels = scan_levels(self.windows, self._members) if group.is_join else []
        self._policy = policy_for(options.policy, tuple(self._levels)) if group.is_join else None
        self._join = GroupJoin(group, self.inputs, options)
        self._finished: list[Effect] = []
        self._turn_of: PendingBlock
        self.folds = GroupFolds(group, options.points, serial, forwards=options.forwards)
        self.is_deferred = classes is not None
        self._classes = group.classes if classes is None else tuple(classes)
        self._source = source
        self.asked: dict[int, Asked] = {}
        """By class, what its aggregate lacks of what was found before this step."""
        raw, folds = group.classes if classes else (), self.folds.operators
        self.downstream = Downstream(classes or (), raw, names, folds, since, epoch)
        self._serial = serial
        self.step_number = 0
        self.scanned_rows = 0.0
        """What a scan's stream brought in this step: an even part of what all shards heard."""
        self._complete_us: int | None = None
        """Until when all tuples have been taken in, in this step."""
        self.joined_s = 0.0
        """How long turns took in this step, by ``now_s``, the host's clock for that."""
        self.now_s: Callable[[], float] = lambda: 0.0
        self.hold = HoldBuffer(serial, source, options.hold_bytes)
        self.ahead: Place | None = None
        """How far any tuple has been taken in ahead of another stream; None once progress is past it."""
        self.taken = [0] * len(self.inputs)
        """How many tuples of each input were taken in so."""
        self.was_ahead = False
        """Whether a turn may release results of any window: tuples were taken in ahead, and not all is out yet."""
        self._newly: Sequence[Member] = ()
        """Whose windows the last turn has completed."""
        self._released_to: Place | None = None
        """How far progress has come, in this step."""

    def measured(self) -> Measured | None:
        return self._join.measured()

    @cached_property
    def _outputs(self) -> GroupOutputs:
        return outputs_of(self.group.classes, tuple(self.inputs[index].collected for index in self.group.sides))

    # --- queries that come live

    def ask(self, kept: Mapping[str, Sequence[int]]) -> None:
        """Says what aggregates lack that was found before; ``kept``: what ``fold_reaches`` was when it was found."""
        for number, fold in self.folds.operators.items() if self.group.is_join else ():
            window_us, given_us = kept.get(fold.folding.identity, (None, None))
            if window_us is None or max(fold.folding.windows_us) > window_us:
                self.asked[number] = Asked(given_us)

    def fold_reaches(self) -> dict[str, tuple[int, int]]:
        """By aggregate: its largest window; how far back the results lie that it is given."""
        if not self.group.is_join:
            return {}
        given_us = self._outputs.given_us
        return {
            fold.folding.identity: (max(fold.folding.windows_us), given_us[number])
            for number, fold in self.folds.operators.items()
        }

    def look_back(self) -> Iterator[Effect]:
        """Gives aggregates what they lack of what has been found before: all of it, whatever the budget."""
        asked, self.asked = self.asked, {}
        if not asked or self.group.is_tree:
            return
        finals = [final for number in asked for final in self.folds.operators[number].folding.finals]
        reach = reach_of([final.sizes for final in finals])
        outputs = outputs_of(self._classes, tuple(self.inputs[index].collected for index in self.group.sides))
        joined_us = LOWEST if self.progress is None else self.progress.known_us
        known_us = min([joined_us, *(block.known_us for block in self.pending)])
        new = {number for number, one in asked.items() if one.found_us is None}
        yield from self.downstream.fold_waiting(asked, new)
        for number in sorted(asked.keys() - new):
            yield from self.folds.operators[number].before_past()
        held = held_matches(self.group, self.inputs, self.pending, self._options, reach, self._source)
        for matches, spaces in held:
            yield from self.folds.look_back(outputs, matches, spaces, asked, known_us)

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
        self._released_to = progress = None if progress is None else self._evaluated(progress)
        if progress is not None:
            self._complete_us = newest_us if progress == END_OF_TIME else progress.known_us
        if progress != END_OF_TIME and self._is_ahead_of(progress, reached):
            yield from self._admit_ahead(progress, reached)
            return
        if progress is None:
            return
        if not self.group.is_join:
            emitted: list[EmitRows] = []
            first_us = NEVER
            due, _ = self.inputs[0].release(progress)
            rounds = stretches([due], [self.inputs[0].position])
            for part, released in enumerate(one for (one,) in rounds if one is not None):
                first_us = min(first_us, int(released.ts_us.min(initial=NEVER)))
                yield from self._sorted_out((in_part(one, part) for one in self._select(released)), emitted)
            known_us = first_us if first_us == NEVER else first_us - 1
            self._put(self.scanned_rows, self.step_number, known_us, emitted)
            return
        self._prune()
        self._sums = None
        moved = self.progress is None or progress > self.progress
        if moved or self.heard.lately:
            self._admit_blocks([progress] * len(self.inputs), progress, is_ahead=self.ahead is not None)
        self.heard.lately = False
        if moved and progress != END_OF_TIME:
            self.progress = progress
        yield from self._released_first()

    def _is_ahead_of(self, progress: Place | None, reached: Sequence[Place | None] | None) -> bool:
        """Whether results must be put in order: tuples are taken in ahead, or were and progress is not past them."""
        return reached is not None or (self.ahead is not None and progress is not None)

    def _admit_ahead(self, progress: Place | None, reached: Sequence[Place | None] | None) -> Iterator[Effect]:
        """Makes blocks of all that has come, whatever the other streams (paper 004, section 5); on the way back to
        waiting for them, of what is due (section 6, steps E to L)."""
        self.was_ahead = True
        self._prune()
        self._sums = None
        nowhere = Place(LOWEST, 0)
        places = [place and self._evaluated(place) for place in reached or ()] or [progress] * len(self.inputs)
        upto = [place or nowhere for place in places]
        if self.heard.lately or progress != self.progress or max(upto) > (self.ahead or self.progress or nowhere):
            self._admit_blocks(upto, progress, is_ahead=True)
        self.heard.lately = False
        # At the very time that was reached more may come, which is to be after what was taken in: marked like that.
        furthest = Place(max(upto).ts_us, ALL_STREAMS)
        self.ahead = furthest if self.ahead is None else max(furthest, self.ahead)
        if reached is None and progress is not None and progress >= self.ahead:
            self.ahead = None
        self.progress = progress if self.progress is None or progress is None else max(self.progress, progress)
        yield from self._released_first()

    def _evaluated(self, progress: Place) -> Place:
        """How far tuples are taken in: lazily, to the end of the last stretch that progress has passed."""
        span_us = self._options.reevaluate_us
        if not span_us or progress == END_OF_TIME or not self.group.is_join:
            return progress
        return Place((progress.ts_us - 1) // span_us * span_us, END_OF_TIME.position)

    def _prune(self) -> None:
        """Lets blocks go that no query waits for any more."""
        for block in [one for one in self.pending if self.completed(one) == len(self.windows)]:
            if block.done is None:
                self._insert_unscanned(block)
            self._finished += block.drop()
            self.pending.remove(block)

    def _insert_unscanned(self, block: PendingBlock) -> None:
        """Lets later blocks find the rows of one that has nothing to scan for."""
        for one in block.rounds:
            self._insert_round(one)

    def _is_whole(self, rounds: Sequence[Block]) -> bool:
        """Whether a block's results are only in order when it is scanned at once."""
        return self._join.is_whole(rounds)

    def _admit_blocks(self, upto: Sequence[Place], progress: Place | None, *, is_ahead: bool) -> None:
        """Blocks of each input's rows up to a place, cut by time."""
        last = max(upto)
        before_us = self.heard.before_us() if self.progress is None else self.progress.ts_us
        last_us = self._complete_us if last == END_OF_TIME else last.ts_us
        ends = boundaries(self._options.block, before_us, last_us)
        after, known_us = self.progress, LOWEST if self.progress is None else self.progress.known_us
        for place in [*(Place(end, END_OF_TIME.position) for end in ends), last]:
            if is_ahead:
                first_us = self.heard.before_us()
                after = last if first_us is None else Place(first_us, ALL_STREAMS)
                # Late tuples are among those heard of: no other is at or before progress.
                after = after if self.progress is None else max(after, self.progress)
                known_us = after.known_us
            upto_here = [min(place, one) for one in upto]
            blocks = self._blocks_upto(upto_here, progress, is_ahead=is_ahead)
            complete = place if not is_ahead else None if progress is None else min(place, progress)
            upto_us = self._complete_us if place == END_OF_TIME else LOWEST if complete is None else complete.known_us
            upto_us = known_us if upto_us is None else upto_us
            weight = max(1, self.heard.due(self._last_times(upto_here)) // len(blocks))
            for rounds in blocks:
                tuples = sum(len(block.arrived_us) for block in rounds)
                whole = is_ahead or self._is_whole(rounds)
                placed = not whole and self._join.is_placed()
                block = PendingBlock(self._epoch, weight, tuples, rounds, whole, placed)
                block.known_us, block.upto_us, block.came = known_us, upto_us, self.step_number
                block.after, block.ahead = after, is_ahead
                self.pending.append(block)
            after, known_us = place, upto_us

    def _last_times(self, upto: Sequence[Place]) -> dict[int, int]:
        """By stream (its position), the last time up to which these places have its tuples."""
        pairs = [(state.position, place) for state, place in zip(self.inputs, upto, strict=True)]
        return {position: place.ts_us - (position > place.position) for position, place in pairs}

    def _blocks_upto(self, upto: Sequence[Place], progress: Place | None, *, is_ahead: bool) -> list[list[Block]]:
        """What is due there, as one block or several, each in as many rounds as the way of collecting changes."""
        due = (state.release(place) for state, place in zip(self.inputs, upto, strict=True))
        all_released, counted = zip(*due, strict=True)
        reached = self.progress if progress == END_OF_TIME else progress if is_ahead else upto[0]
        reached_us = None if reached is None else reached.ts_us
        released = without_idle_guests(self.group, self.inputs, self.pending, all_released, reached_us)
        positions = [state.position for state in self.inputs]
        rounds = [with_seen(self.group, self.inputs, one, counted) for one in stretches(released, positions)]
        if is_ahead:
            rounds = [taken_ahead(one, self.taken) for one in rounds]
        layouts = [state.window.layout for state in self.inputs]
        rows = self._options.block.rows
        if rows is not None and len(rounds) == 1 and len(set(positions)) == len(positions):
            pieces = split_rows(rounds[0], positions, rows)
            return [[make_block(piece, layouts, positions)] for piece in pieces]
        return [[make_block(one, layouts, positions) for one in rounds]]

    def _select(self, released: Released) -> Iterator[Emission]:
        """A single stream's rows, filtered and projected."""
        rows = np.arange(len(released.ts_us))
        new = NewRows(Segment(released.batch, rows, released.ts_us), rows, released.collected)
        spaces = (Space((), new, Layout(self.inputs[0].input.time)),)
        matches = Matches((rows,), rows, np.zeros(len(rows), dtype=np.int8))
        assert self._complete_us is not None
        self.folds.take(self._outputs, matches, spaces, released.arrived_us, self._complete_us)
        yield from self._outputs.emissions(matches, spaces, released.arrived_us, self._options.cut)

    # --- turns

    @property
    def backlog_rows(self) -> int:
        """What waits to be scanned, as all shards weigh it."""
        return self.summed().rows

    def summed(self) -> Backlog:
        """All that waits, added up once for the blocks that are there; turns keep it up to date."""
        if self._sums is None:
            self._sums = NO_BACKLOG
            for block in self.pending:
                self._sums = self._sums.changed(NO_BACKLOG, self._weighed(block))
        return self._sums

    @property
    def held_bytes(self) -> int:
        """Results that are held for larger windows, here."""
        return sum(block.held_bytes for block in self.pending)

    def backlog(self) -> list[int]:
        """For each window, the tuples here that wait to scan it next."""
        queued = [0] * len(self.windows)
        for block in self.pending:
            queued[self.completed(block)] += block.tuples
        return queued

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
            return [member.query for member in self._newly]
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

    def _weighed(self, block: PendingBlock) -> Backlog:
        """What a block counts for."""
        probes = turn_cost(self._levels, block.weight, self.completed(block), len(self.windows))
        return Backlog(block.weight, probes, self._scanned(block), block.nbytes + block.held_bytes)

    def _scanned(self, block: PendingBlock) -> int:
        """What those of a block's turns cost that it holds results of, for windows to come: what is folded is not held,
        and what was found ahead of other streams waits for these (``holding``). That some shards scan a block whole is
        left out: others need not."""
        upto = 0 if not self._holds or block.ahead else self.completed(block)
        return turn_cost(self._levels, block.weight, 0, upto) if upto else 0

    def take_turn(self, budget: ProbeBudget, *, is_oldest: bool = False) -> Iterator[Effect]:
        """One scan: as the policy chooses, or of the oldest block (``is_oldest``, and where there is no limit)."""
        completed = [self.completed(block) for block in self.pending]
        assert self._policy is not None
        goes_first = is_oldest or budget.limit is None
        turn = self._oldest_turn(completed[0], budget) if goes_first else self._policy.next_turn(completed)
        block = self._turn_of = self.pending[turn.position]
        sums, before = self.summed(), self._weighed(block)
        budget.charge(turn_cost(self._levels, block.weight, completed[turn.position], turn.upto))
        yield from self._clocked(self._scan_ahead(block, turn.upto) if block.ahead else self._scan_on(block, turn.upto))
        if self.completed(block) == len(self.windows):
            self._finished += block.drop()
            self.pending.remove(block)
            self._sums = sums.changed(before, NO_BACKLOG)
        else:
            self._sums = sums.changed(before, self._weighed(block))
        yield from self._release_held()

    def _oldest_turn(self, done: int, budget: ProbeBudget) -> Turn:
        """The oldest block through all windows, if the budget is enough for that; or else through its next one, as a
        block of all that a micro-batch brought would leave nothing to anybody else."""
        cost = turn_cost(self._levels, self.pending[0].weight, done, len(self.windows))
        is_enough = budget.limit is None or cost <= budget.limit - budget.spent
        return Turn(0, len(self.windows) if is_enough else done + 1)

    def _clocked(self, effects: Iterator[Effect]) -> Iterator[Effect]:
        """The effects, and how long it takes to make them; not what is done with them."""
        began_s = self.now_s()
        for effect in effects:
            self.joined_s += self.now_s() - began_s
            yield effect
            began_s = self.now_s()
        self.joined_s += self.now_s() - began_s

    def completed(self, block: PendingBlock) -> int:
        """How many windows, from the smallest, a block has scanned; all of them once no query waits for it. (One that
        it does not serve counts like any other: a newer block must not overtake it there.)"""
        if block.completed is None:
            block.completed = self._completed(block)
        return block.completed

    def _completed(self, block: PendingBlock) -> int:
        if all(is_done(sizes, block.done) for sizes in self._served_windows(block)):
            return len(self.windows)
        return next(number for number, sizes in enumerate(self.windows) if not is_done(sizes, block.done))

    def _served_windows(self, block: PendingBlock) -> Collection[Sizes]:
        return self.windows if block.epoch == self._epoch else {member.sizes for member in self._served(block)}

    def _served(self, block: PendingBlock) -> list[Member]:
        if block.epoch == self._epoch:
            return self._members
        return [
            member
            for member in self._members
            if self._since[member.identity] <= block.epoch or self._delivery[member.identity] is Delivery.FOLDED
        ]

    def _scan_on(self, block: PendingBlock, upto: int) -> Iterator[Effect]:
        """Takes a block through the windows up to ``upto`` (a number of them), and emits what that completes."""
        served, before = self._served(block), block.done
        windows = self.windows[:upto] if upto < len(self.windows) else tuple(self._served_windows(block))
        reach = reach_of(windows if before is None else [*windows, before])
        newly = [one for one in served if is_done(one.sizes, reach) and not is_done(one.sizes, before)]
        self._newly = newly
        if before is None and len(newly) == len(self._members):
            yield from self._straight_through(block)
        else:
            later = {one.identity for one in served if not is_done(one.sizes, reach)}
            if not later and self._needs_no_order(block):
                yield from self._last_cells(block, reach, newly)
            else:
                yield from self._release(block, list(self._found(block, reach, served)), newly, later)
        block.scanned_to(reach)
        if before is None and len(block.rounds) == 1:
            self._insert_round(block.rounds[0])

    def _scan_ahead(self, block: PendingBlock, upto: int) -> Iterator[Effect]:
        """Finds all results of a block that was taken in ahead, for the hold buffer; further turns only say how far."""
        windows = self.windows[:upto] if upto < len(self.windows) else tuple(self._served_windows(block))
        if block.done is None:
            reach = Reach(reach_of(tuple(self._served_windows(block))))
            for one in block.rounds:
                sides = self._join.sides(one)
                for matches in self._join.matches(sides, reach, in_order=False):
                    self.folds.take(self._outputs, matches, sides.spaces, one.arrived_us, block.upto_us)
                    for held in self._outputs.hold(matches, sides.spaces, one.arrived_us, ahead=True):
                        if held.is_early:
                            yield from self._emitted([marked_early(held, self._released_to)], self._served(block))
                        else:
                            yield from self.hold.add(held, block.epoch)
                self._insert_round(one)
        block.scanned_to(reach_of(windows if block.done is None else [*windows, block.done]))

    def _released_first(self) -> Iterator[Effect]:
        """What progress completes by itself, before any turn is taken; where operators go on with it, at a turn."""
        if not self.is_deferred:
            yield from self._release_held()

    def _release_held(self) -> Iterator[Effect]:
        """What was held and is complete now: progress is past it, and so is every scan that waits, in its window."""
        if not self.hold.runs:
            return
        known = {sizes: self._known_place(number) for number, sizes in enumerate(self.windows)}
        bounds = {sizes: Place(LOWEST, 0) if place is None else place for sizes, place in known.items()}
        for held, windows in self.hold.release(bounds, self._served_in):
            yield from self._emitted(held, [one for one in self._members if one.sizes in windows])

    def _known_place(self, window: int) -> Place | None:
        """The same as ``_known_until``, as a place; None where nothing is known yet."""
        waiting = [block.after for block in self.pending if self.completed(block) <= window]
        if self._released_to is None or None in waiting:
            return None
        return min([self._released_to, *(one for one in waiting if one is not None)])

    def _served_in(self, epoch: int) -> set[str]:
        return {member.identity for member in self._members if self._since[member.identity] <= epoch}

    def _straight_through(self, block: PendingBlock) -> Iterator[Effect]:
        """A new block through all windows at once: nothing need be held."""
        reach = Reach(reach_of(self.windows))
        for one in block.rounds:
            sides = self._join.sides(one)
            if self._join.only_counts(sides):
                yield from self._join.count(one, sides)
            else:
                for matches in self._join.matches(sides, reach):
                    self.folds.take(self._outputs, matches, sides.spaces, one.arrived_us, block.upto_us)
                    yield from self._outputs.emissions(matches, sides.spaces, one.arrived_us, self._options.cut)
            if len(block.rounds) > 1:
                self._insert_round(one)

    def _needs_no_order(self, block: PendingBlock) -> bool:
        """Whether what a block's last scan finds may be given as it is found, before what was held: each cell is in a
        batch of its own, and there is one round of tuples, for all queries that there are."""
        bands = all(cut_for(one, self._options.cut) is Cut.BANDS for one in self._delivery.values())
        return bands and len(block.rounds) == 1 and not block.whole and block.epoch == self._epoch

    def _last_cells(self, block: PendingBlock, reach: Sizes, newly: Sequence[Member]) -> Iterator[Effect]:
        """A block's last scan: nothing that it finds need be held; what was held goes to those who waited for it."""
        held = released_from(block.held, {one.identity: one.query for one in newly}, Cut.BANDS)
        yield from in_parts(chain(self._last_found(block, reach), held))

    def _last_found(self, block: PendingBlock, reach: Sizes) -> Iterator[Emission]:
        (one,) = block.rounds
        sides = self._join.sides(one, is_resumed=block.done is not None)
        for matches in self._join.matches(sides, Reach(reach, block.done)):
            self.folds.take(self._outputs, matches, sides.spaces, one.arrived_us, block.upto_us)
            yield from self._outputs.emissions(matches, sides.spaces, one.arrived_us, Cut.BANDS)

    def _found(self, block: PendingBlock, reach: Sizes, served: Sequence[Member]) -> Iterator[HeldResults]:
        """What a scan from where the block stands finds, for each class, with its round."""
        if block.is_scanned:
            return
        upto = reach_of([member.sizes for member in served]) if block.whole else reach
        placed = self._options.cut if block.placed else None
        for number, one in enumerate(block.rounds):
            sides = self._join.sides(one, is_resumed=block.done is not None)
            first = 0 if block.whole else None
            for matches in self._join.matches(sides, Reach(upto, block.done)):
                self.folds.take(self._outputs, matches, sides.spaces, one.arrived_us, block.upto_us)
                for held in self._outputs.hold(matches, sides.spaces, one.arrived_us, first, placed):
                    held.round = number
                    yield held
                first = None if first is None else first + len(matches)
            if len(block.rounds) > 1:
                self._insert_round(one)

    def _release(
        self, block: PendingBlock, fresh: list[HeldResults], newly: Sequence[Member], later: set[str]
    ) -> Iterator[Effect]:
        """Emits what the windows just done complete, and holds on to what larger ones will need."""
        yield from self._emitted([*fresh, *block.held], newly)
        block.held = [*still_held(fresh, later), *block.held]

    def _emitted(self, scans: Sequence[HeldResults], members: Iterable[Member]) -> Iterator[Effect]:
        """What these members get of held results."""
        by_cut: dict[Cut, dict[str, QueryId]] = {}
        for member in members:
            cut = cut_for(self._delivery[member.identity], self._options.cut)
            by_cut.setdefault(cut, {})[member.identity] = member.query
        for cut, queries in by_cut.items():
            emissions = released_from(scans, queries, cut)
            yield from in_parts(emissions) if cut is Cut.BANDS else emissions

    def _insert_round(self, block: Block) -> None:
        """Lets later blocks find this one's rows."""
        for state, new in zip(self.inputs, block.inputs, strict=True):
            if new is not None:
                state.window.insert(new.segment, new.collected)
                state.window.compact()

    # --- settling

    def let_go(self, names: Iterable[str]) -> None:
        """Has these segments dropped: what they were for is not asked for any more."""
        self._finished += [DropSegment(name) for name in names]

    def _known_until(self, window: int) -> int:
        """Until when all results of a window are known: up to the first block that has not scanned it, and no further
        than all streams have come, which a block of tuples that were taken in ahead may be beyond."""
        assert self._complete_us is not None
        waiting = (block.known_us for block in self.pending if self.completed(block) <= window)
        return min([self._complete_us, *waiting])

    def settle(self, reached_us: Sequence[int | None], *, ended: bool) -> Iterator[Effect]:
        """Evaluates aggregates, expires, and tells the store. ``reached_us``: by input, what no future tuple is older
        than."""
        yield from self.downstream.finish()
        if self._complete_us is not None:
            known_us = {sizes: self._known_until(number) for number, sizes in enumerate(self.windows)}
            yield from self.folds.evaluate(known_us, self.downstream.held_back_us, self.now_s, ended=ended)
            self._complete_us = None
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
