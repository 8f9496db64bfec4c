"""How far a group's tuples have been taken in, and the blocks that makes: from waiting rows to blocks.

      released  --> idle guests go --> rounds, rows marked --> blocks --> the group's queue
                    up to progress (Sync-Filter), or as far as each stream has come (Filter-Order), cut by time

Owns :class:`Intake` and what is done with rows on their way from waiting to a block: guests that have nothing left to
meet go; where windows are measured in rows, each row learns how many tuples of the other streams are before it; and
where they are taken in ahead of another stream, which of its input's they are and when they arrived, because another
may find their results. A tree's rows know when they arrived.
Invariants: after blocks were made no waiting row is at or before the place up to which that was; blocks and their
weights follow from heartbeats alone, so they are the same on every shard. Cost: a sort of what is released, and a look
at each chunk that was heard of for each block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headrace.engine.block_queue import BlockQueue
from headrace.engine.blocks import PendingBlock
from headrace.engine.cutting import Heard, boundaries, split_rows, stretches
from headrace.engine.expiring import probed_by
from headrace.engine.guests import has_marks, still_visiting
from headrace.engine.histories import LOWEST
from headrace.engine.inputs import ALL_STREAMS, END_OF_TIME, InputState, Place
from headrace.engine.options import OperatorOptions
from headrace.engine.scanning import GroupJoin
from headrace.engine.segments import CAME, PLACE, TAKEN, Segment, int64s_of, seen_column
from headrace.engine.spaces import Block, NewRows, make_block
from headrace.engine.waiting import Counted, Released
from headrace.plan.sharing import Group


class Intake:
    """How far one group's tuples have been taken in, in one shard; blocks of what is due go to its queue."""

    def __init__(
        self,
        group: Group,
        inputs: tuple[InputState, ...],
        options: OperatorOptions,
        join: GroupJoin,
        queue: BlockQueue,
    ) -> None:
        self._group = group
        self._inputs = inputs
        self._options = options
        self._join = join
        self._queue = queue
        self.heard = Heard()
        self.progress: Place | None = None
        self.ahead: Place | None = None
        """How far any tuple has been taken in ahead of another stream; None once progress is past it."""
        self.taken = [0] * len(inputs)
        """How many tuples of each input were taken in so."""
        self.was_ahead = False
        """Whether a turn may release results of any window: tuples were taken in ahead, and not all is out yet."""
        self.complete_us: int | None = None
        """Until when all tuples have been taken in, in this step."""
        self.released_to: Place | None = None
        """How far progress has come, in this step."""

    def move_to(self, progress: Place | None, newest_us: int | None) -> Place | None:
        """Says how far progress has come; gives how far tuples are taken in. ``newest_us``: the newest time of all the
        group's streams, which is how far things are when they have ended."""
        self.released_to = progress = None if progress is None else self._evaluated(progress)
        if progress is not None:
            self.complete_us = newest_us if progress == END_OF_TIME else progress.known_us
        return progress

    def is_ahead_of(self, progress: Place | None, reached: Sequence[Place | None] | None) -> bool:
        """Whether results must be put in order: tuples are taken in ahead, or were and progress is not past them."""
        return reached is not None or (self.ahead is not None and progress is not None)

    def take_in(self, progress: Place, came: int) -> None:
        """Makes blocks of what is due at ``progress``. ``came``: the step."""
        moved = self.progress is None or progress > self.progress
        if moved or self.heard.lately:
            self._make_blocks([progress] * len(self._inputs), progress, came, is_ahead=self.ahead is not None)
        self.heard.lately = False
        if moved and progress != END_OF_TIME:
            self.progress = progress

    def take_in_ahead(self, progress: Place | None, reached: Sequence[Place | None] | None, came: int) -> None:
        """Makes blocks of all that has come, whatever the other streams (paper 004, section 5); on the way back to
        waiting for them, of what is due (section 6, steps E to L)."""
        self.was_ahead = True
        nowhere = Place(LOWEST, 0)
        places = [place and self._evaluated(place) for place in reached or ()] or [progress] * len(self._inputs)
        upto = [place or nowhere for place in places]
        if self.heard.lately or progress != self.progress or max(upto) > (self.ahead or self.progress or nowhere):
            self._make_blocks(upto, progress, came, is_ahead=True)
        self.heard.lately = False
        # At the very time that was reached more may come, which is to be after what was taken in: marked like that.
        furthest = Place(max(upto).ts_us, ALL_STREAMS)
        self.ahead = furthest if self.ahead is None else max(furthest, self.ahead)
        if reached is None and progress is not None and progress >= self.ahead:
            self.ahead = None
        self.progress = progress if self.progress is None or progress is None else max(self.progress, progress)

    def _evaluated(self, progress: Place) -> Place:
        """How far tuples are taken in: lazily, to the end of the last stretch that progress has passed."""
        span_us = self._options.reevaluate_us
        if not span_us or progress == END_OF_TIME or not self._group.is_join:
            return progress
        return Place((progress.ts_us - 1) // span_us * span_us, END_OF_TIME.position)

    def _make_blocks(self, upto: Sequence[Place], progress: Place | None, came: int, *, is_ahead: bool) -> None:
        """Blocks of each input's rows up to a place, cut by time."""
        last = max(upto)
        before_us = self.heard.before_us() if self.progress is None else self.progress.ts_us
        last_us = self.complete_us if last == END_OF_TIME else last.ts_us
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
            upto_us = self.complete_us if place == END_OF_TIME else LOWEST if complete is None else complete.known_us
            upto_us = known_us if upto_us is None else upto_us
            weight = max(1, self.heard.due(self._last_times(upto_here)) // len(blocks))
            for rounds in blocks:
                tuples = sum(len(block.arrived_us) for block in rounds)
                whole = is_ahead or self._is_whole(rounds)
                placed = not whole and self._join.is_placed()
                block = PendingBlock(self._queue.epoch, weight, tuples, rounds, whole, placed)
                block.known_us, block.upto_us, block.came = known_us, upto_us, came
                block.after, block.ahead = after, is_ahead
                self._queue.blocks.append(block)
            after, known_us = place, upto_us

    def _is_whole(self, rounds: Sequence[Block]) -> bool:
        """Whether a block's results are only in order when it is scanned at once; a tree's states in between are for
        all windows."""
        return self._group.is_tree or self._join.is_whole(rounds)

    def _last_times(self, upto: Sequence[Place]) -> dict[int, int]:
        """By stream (its position), the last time up to which these places have its tuples."""
        pairs = [(state.position, place) for state, place in zip(self._inputs, upto, strict=True)]
        return {position: place.ts_us - (position > place.position) for position, place in pairs}

    def _blocks_upto(self, upto: Sequence[Place], progress: Place | None, *, is_ahead: bool) -> list[list[Block]]:
        """What is due there, as one block or several, each in as many rounds as the way of collecting changes."""
        assert not (is_ahead and self._group.is_tree)  # a tree takes its tuples in order (``why_in_order``)
        due = (state.release(place) for state, place in zip(self._inputs, upto, strict=True))
        all_released, counted = zip(*due, strict=True)
        reached = self.progress if progress == END_OF_TIME else progress if is_ahead else upto[0]
        reached_us = None if reached is None else reached.ts_us
        released = without_idle_guests(self._group, self._inputs, self._queue.blocks, all_released, reached_us)
        positions = [state.position for state in self._inputs]
        rounds = [with_seen(self._group, self._inputs, one, counted) for one in stretches(released, positions)]
        if is_ahead:
            rounds = [taken_ahead(one, self.taken) for one in rounds]
        rows = self._options.block.rows
        if rows is not None and len(rounds) == 1 and len(set(positions)) == len(positions):
            return [[self._block(piece, positions)] for piece in split_rows(rounds[0], positions, rows)]
        return [[self._block(one, positions) for one in rounds]]

    def _block(self, released: Sequence[Released | None], positions: Sequence[int]) -> Block:
        block = make_block(released, [state.window.layout for state in self._inputs], positions)
        return _with_arrivals(block) if self._group.is_tree else block


def without_idle_guests(
    group: Group,
    inputs: Sequence[InputState],
    pending: Sequence[PendingBlock],
    released: Sequence[list[Released]],
    reached_us: int | None,
) -> Sequence[list[Released]]:
    """What was released, less the guests that come when nothing is left that they are here for. ``reached_us``: what no
    tuple that comes later is older than."""
    if not any(has_marks(one.collected) for some in released for one in some):
        return released
    coming_us = -(2**63) if reached_us is None else reached_us
    oldest_us = []
    for index, (state, some) in enumerate(zip(inputs, released, strict=True)):
        held = [*(run.min_us for run in state.window.runs), *(int(one.ts_us[0]) for one in some)]
        waiting = (state.waiting.first_us, *(block.oldest_us(index) for block in pending))
        oldest_us.append(min([coming_us, *held, *(one for one in waiting if one is not None)]))
    by_side = [oldest_us[index] for index in group.sides]
    return [still_visiting(some, side, group.key_sides, by_side) for side, some in enumerate(released)]


def taken_ahead(released: Sequence[Released | None], taken: list[int]) -> list[Released | None]:
    """The rows with their numbers, which go on from ``taken``, by input. They are collected in a way of their own."""
    found: list[Released | None] = []
    for index, one in enumerate(released):
        if one is not None:
            numbers = np.arange(taken[index], taken[index] + len(one.ts_us))
            taken[index] += len(one.ts_us)
            batch = one.batch.append_column(TAKEN, pa.array(numbers)).append_column(CAME, pa.array(one.arrived_us))
            columns = (*one.collected.columns, TAKEN, CAME)
            one = replace(one, batch=batch, collected=replace(one.collected, columns=columns))
        found.append(one)
    return found


def with_seen(
    group: Group, inputs: Sequence[InputState], released: Sequence[Released | None], counted: Sequence[Counted]
) -> list[Released | None]:
    """The rows of a round, each with how many tuples of another side's stream are before it, where it matters."""
    found = list(released)
    for index, state in enumerate(inputs):
        one = found[index]
        if one is None:
            continue
        for other in (other for other in probed_by(group, index) if group.counts_rows[other]):
            if inputs[other].input.stream == state.input.stream:
                seen = int64s_of(one.batch, PLACE)
            else:
                first_at_tie = inputs[other].position < state.position
                seen = counted[other].seen(one.ts_us, first_at_tie=first_at_tie)
            one = replace(one, batch=one.batch.append_column(seen_column(other), pa.array(seen)))
        found[index] = one
    return found


def _with_arrivals(block: Block) -> Block:
    """The block, each row with when it arrived."""
    inputs = [None if new is None else _dated(new, block) for new in block.inputs]
    return replace(block, inputs=tuple(inputs))


def _dated(new: NewRows, block: Block) -> NewRows:
    came = pa.array(block.arrived_us[new.ranks].astype(np.int64))
    segment = new.segment
    return replace(new, segment=Segment(segment.batch.add_column(0, CAME, came), segment.keys, segment.ts_us))
