"""What blocks find in the windows: straight through all of them, up to some, or ahead of other streams.

      block --a round after the other--> matches --> folds (at once)
                    |                            --> emissions (all windows done), or held results (some are to come)
                    \\--> window, once it was scanned: later rounds and blocks find its rows

Owns :class:`BlockScan`. It is made for a turn and holds nothing; who gets what it finds, and when, is the turn's matter
(``turns``). Invariants: a round's rows are searchable once it has had its first scan, so that it meets older ones only;
of several rounds, each before the next is scanned. Cost: that of the kernels (``scanning``, ``output``, ``folds``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.engine.blocks import HeldResults, PendingBlock
from headrace.engine.events import Effect
from headrace.engine.group_folds import GroupFolds
from headrace.engine.inputs import InputState
from headrace.engine.output import Cut, Emission, GroupOutputs, reach_of
from headrace.engine.scanning import GroupJoin
from headrace.engine.segments import Layout, Segment
from headrace.engine.spaces import Block, Matches, NewRows, Reach, Space
from headrace.engine.waiting import Released
from headrace.plan.canonical import Sizes
from headrace.plan.sharing import Member


@dataclass(frozen=True, slots=True)
class BlockScan:
    """How a group's blocks are scanned: its join, what is made of the results, and where its rows are held."""

    inputs: tuple[InputState, ...]
    windows: tuple[Sizes, ...]
    join: GroupJoin
    outputs: GroupOutputs
    folds: GroupFolds
    cut: Cut

    def straight_through(self, block: PendingBlock) -> Iterator[Effect]:
        """A new block through all windows at once: nothing need be held."""
        reach = Reach(reach_of(self.windows))
        for one in block.rounds:
            sides = self.join.sides(one)
            if self.join.only_counts(sides):
                yield from self.join.count(one, sides)
            else:
                for matches in self.join.matches(sides, reach):
                    self.folds.take(self.outputs, matches, sides.spaces, one.arrived_us, block.upto_us)
                    yield from self.outputs.emissions(matches, sides.spaces, one.arrived_us, self.cut)
            if len(block.rounds) > 1:
                self.insert_round(one)

    def last_found(self, block: PendingBlock, reach: Sizes) -> Iterator[Emission]:
        """What the last scan of a block of one round finds, each cell in a batch of its own."""
        (one,) = block.rounds
        sides = self.join.sides(one, is_resumed=block.done is not None)
        for matches in self.join.matches(sides, Reach(reach, block.done)):
            self.folds.take(self.outputs, matches, sides.spaces, one.arrived_us, block.upto_us)
            yield from self.outputs.emissions(matches, sides.spaces, one.arrived_us, Cut.BANDS)

    def found(self, block: PendingBlock, reach: Sizes, served: Sequence[Member]) -> Iterator[HeldResults]:
        """What a scan from where the block stands finds, for each class, with its round."""
        if block.is_scanned:
            return
        upto = reach_of([member.sizes for member in served]) if block.whole else reach
        placed = self.cut if block.placed else None
        for number, one in enumerate(block.rounds):
            sides = self.join.sides(one, is_resumed=block.done is not None)
            first = 0 if block.whole else None
            for matches in self.join.matches(sides, Reach(upto, block.done)):
                self.folds.take(self.outputs, matches, sides.spaces, one.arrived_us, block.upto_us)
                for held in self.outputs.hold(matches, sides.spaces, one.arrived_us, first, placed):
                    held.round = number
                    yield held
                first = None if first is None else first + len(matches)
            if len(block.rounds) > 1:
                self.insert_round(one)

    def found_ahead(self, block: PendingBlock, reach: Sizes) -> Iterator[HeldResults]:
        """All results of a block that was taken in ahead of other streams, in any order."""
        for one in block.rounds:
            sides = self.join.sides(one)
            for matches in self.join.matches(sides, Reach(reach), in_order=False):
                self.folds.take(self.outputs, matches, sides.spaces, one.arrived_us, block.upto_us)
                yield from self.outputs.hold(matches, sides.spaces, one.arrived_us, ahead=True)
            self.insert_round(one)

    def insert_unscanned(self, block: PendingBlock) -> None:
        """Lets later blocks find the rows of one that has nothing to scan for."""
        for one in block.rounds:
            self.insert_round(one)

    def insert_round(self, block: Block) -> None:
        """Lets later blocks find this one's rows."""
        for state, new in zip(self.inputs, block.inputs, strict=True):
            if new is not None:
                state.window.insert(new.segment, new.collected)
                state.window.compact()

    def select(self, released: Released, complete_us: int) -> Iterator[Emission]:
        """A single stream's rows, filtered and projected."""
        rows = np.arange(len(released.ts_us))
        new = NewRows(Segment(released.batch, rows, released.ts_us), rows, released.collected)
        spaces = (Space((), new, Layout(self.inputs[0].input.time)),)
        matches = Matches((rows,), rows, np.zeros(len(rows), dtype=np.int8))
        self.folds.take(self.outputs, matches, spaces, released.arrived_us, complete_us)
        yield from self.outputs.emissions(matches, spaces, released.arrived_us, self.cut)
