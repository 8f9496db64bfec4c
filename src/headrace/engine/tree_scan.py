"""What blocks find that go up a tree of joins, instead of meeting all windows at once.

Owns :class:`TreeScan`. Going up is the operator's (``tree_operator``), which has the states in between. Invariant: what
a block makes in between is kept, whether anybody waits for its results or not. Cost: that of the probes made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headrace.engine.block_scan import BlockScan
from headrace.engine.blocks import HeldResults, PendingBlock
from headrace.engine.events import Effect
from headrace.engine.spaces import Block, Matches, Space
from headrace.plan.canonical import Sizes
from headrace.plan.sharing import Member

GoingUp: TypeAlias = Callable[[Block], Iterator[tuple[Matches, tuple[Space, ...]]]]
"""A round up the tree: its results in order, with the sides they are of."""


@dataclass(frozen=True, slots=True)
class TreeScan(BlockScan):
    """How blocks are scanned by a tree. ``adapts``: its group meets overload by leaving out probes."""

    up: GoingUp
    adapts: bool

    def straight_through(self, block: PendingBlock) -> Iterator[Effect]:
        for one in block.rounds:
            for matches, spaces in self.up(one):
                self.folds.take(self.outputs, matches, spaces, one.arrived_us, block.upto_us)
                yield from self.outputs.emissions(matches, spaces, one.arrived_us, self.cut)
            if len(block.rounds) > 1:
                self.insert_round(one)

    def found(self, block: PendingBlock, _reach: Sizes, _served: Sequence[Member]) -> Iterator[HeldResults]:
        if block.is_scanned:
            return
        assert not self.adapts  # what is held knows no freshness; a group that adapts has nothing to hold
        for number, one in enumerate(block.rounds):
            first = 0
            for matches, spaces in self.up(one):
                self.folds.take(self.outputs, matches, spaces, one.arrived_us, block.upto_us)
                for held in self.outputs.hold(matches, spaces, one.arrived_us, first):
                    held.round = number
                    yield held
                first += len(matches)
            if len(block.rounds) > 1:
                self.insert_round(one)

    def insert_unscanned(self, block: PendingBlock) -> None:
        """Nobody waits for the results, but what the block's tuples make in between is met later."""
        for one in block.rounds:
            for _ in self.up(one):
                pass
            self.insert_round(one)
