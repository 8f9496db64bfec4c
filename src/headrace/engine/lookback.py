"""What held tuples make of each other, found once more: for aggregates that come live and begin with what is held.

      held    |--a--|--b--|--c--| d |        a, b, c have been joined: their results were folded by those who were there
                                  ^          d is joined in part (its block waits): as far back as it has been, here too
      new aggregate               came       the rest of d, and what comes, it finds with everybody else

Owns ``Asked`` and ``held_matches``. Each result is found by its newest tuple, as it was before: the rows are joined
once more, oldest first, in windows of their own. Invariant: what is found here, and what blocks that wait find later,
are all results of held tuples, each once. Cost: that of joining all that is held, once when such a query comes; a
micro-batch in which none does pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.engine.blocks import PendingBlock
from headrace.engine.cutting import stretches
from headrace.engine.events import Lack
from headrace.engine.inputs import InputState, Place
from headrace.engine.keys import Int64s
from headrace.engine.options import OperatorOptions
from headrace.engine.scanning import GroupJoin
from headrace.engine.segments import TAKEN, merge_segments, take_rows, times_of, unpack_batch, view_segment
from headrace.engine.spaces import Block, Matches, Reach, Space, make_block
from headrace.engine.waiting import Released
from headrace.engine.window import Collected, Run, SegmentSource, Serial, WindowStore
from headrace.plan.canonical import Sizes
from headrace.plan.sharing import Group


@dataclass(frozen=True, slots=True)
class Asked:
    """What a class's aggregate lacks of what was found before its queries came. ``found_us``: it was given what lay so
    far back, of which it has what its windows have not let go of; None: it is new, and has nothing."""

    found_us: int | None = None

    def parts(self, newest_us: Int64s, since_us: Int64s) -> Iterator[tuple[Lack, np.ndarray]]:
        """Which of the results it may lack, and why."""
        if self.found_us is None:
            yield Lack.NEW, np.ones(len(newest_us), dtype=bool)
            return
        is_further = since_us < newest_us - self.found_us
        yield Lack.FURTHER, is_further
        yield Lack.LET_GO, ~is_further


def held_matches(
    group: Group,
    inputs: Sequence[InputState],
    pending: Sequence[PendingBlock],
    options: OperatorOptions,
    reach: Sizes,
    source: SegmentSource | None,
) -> Iterator[tuple[Matches, Sequence[Space]]]:
    """The results of held tuples that have been found before, and lie within reach."""
    begun = [block for block in pending if block.done is not None and not block.is_scanned]
    alone = [_emptied(state) for state in inputs]
    join = GroupJoin(group, alone, options)
    positions, layouts = [state.position for state in inputs], [state.window.layout for state in inputs]
    held = [_held_rows(state, source) for state in inputs]
    found: list[tuple[Block, Sizes]] = []
    for place, block in enumerate([*begun, None]):
        released = [
            [one for rows in some if (one := rows.between(begun[place - 1] if place else None, block, position))]
            for some, position in zip(held, positions, strict=True)
        ]
        found += [(make_block(piece, layouts, positions), reach) for piece in stretches(released, positions)]
        if block is not None and block.done is not None:
            found += [(one, tuple(map(min, block.done, reach))) for one in block.rounds]
    for new, upto in found:
        sides = join.sides(new)
        for matches in join.matches(sides, Reach(upto), in_order=False):
            yield matches, sides.spaces
        for state, rows in zip(alone, new.inputs, strict=True):
            if rows is not None and len(found) > 1:
                state.window.insert(rows.segment, rows.collected)


def _emptied(state: InputState) -> InputState:
    """The input with nothing held, to be thrown away."""
    return replace(state, window=WindowStore(state.window.layout, state.window.fanout, Serial()))


@dataclass(frozen=True, slots=True)
class _HeldRows:
    """An input's held rows that were collected in one way, in time order."""

    batch: pa.RecordBatch
    ts_us: Int64s
    collected: Collected

    def between(self, after: PendingBlock | None, before: PendingBlock | None, position: int) -> Released | None:
        """Those that were joined after one block that is not through came, and before another: of the first's own time
        on only what was taken in ahead, which is joined at once."""
        chosen = np.ones(len(self.ts_us), dtype=bool)
        if before is not None:
            chosen = self._upto(before.after, position)
        if after is not None:
            chosen &= ~self._upto(after.after, position) & self._is_ahead
        if not chosen.any():
            return None
        nowhen = np.zeros(int(chosen.sum()), dtype=np.int64)
        return Released(self.batch.filter(pa.array(chosen)), self.ts_us[chosen], nowhen, self.collected)

    def _upto(self, place: Place | None, position: int) -> np.ndarray:
        if place is None:
            return np.zeros(len(self.ts_us), dtype=bool)
        return self.ts_us <= place.ts_us if position <= place.position else self.ts_us < place.ts_us

    @property
    def _is_ahead(self) -> np.ndarray:
        if TAKEN not in self.batch.schema.names:
            return np.zeros(len(self.ts_us), dtype=bool)
        marks: np.ndarray = self.batch.column(TAKEN).is_valid().to_numpy(zero_copy_only=False)
        return marks


def _held_rows(state: InputState, source: SegmentSource | None) -> list[_HeldRows]:
    found = []
    for way in dict.fromkeys(run.collected for run in state.window.runs):
        runs = [_live_rows(run, state, source) for run in state.window.runs if run.collected == way]
        batch = pa.concat_batches(runs)
        ts_us = times_of(batch, state.input.time)
        order = np.argsort(ts_us, kind="stable")
        found.append(_HeldRows(take_rows(batch, order), ts_us[order], way))
    return found


def _live_rows(run: Run, state: InputState, source: SegmentSource | None) -> pa.RecordBatch:
    """A run's rows without those of parts that have expired, which only the copy at hand still has."""
    if run.live_rows == run.rows:
        return run.segment.batch
    assert source is not None, "only a stored run has expired parts"
    layout = state.window.layout
    segments = [view_segment(unpack_batch(source.stored(part.name)), layout) for part in run.parts]
    return merge_segments(segments, layout).batch
