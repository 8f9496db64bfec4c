"""The aggregates of a group's classes: each slice of matches is folded for those that it passes, once for each class.

Owns :class:`GroupFolds`. Results are folded as soon as they are found, in whatever band; when they count is a matter of
the window, whose results are known until the first block that has not scanned it. Cost: ``aggregating``'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from headrace.engine.aggregating import FoldOperator
from headrace.engine.events import Effect
from headrace.engine.histories import Points
from headrace.engine.keys import Int64s
from headrace.engine.output import GroupOutputs
from headrace.engine.spaces import Matches, Space
from headrace.engine.window import Serial
from headrace.plan.sharing import Group, Sizes


class GroupFolds:
    """A group's aggregates in one shard, by class."""

    def __init__(self, group: Group, points: Points, serial: Serial, *, forwards: bool) -> None:
        self.operators = {
            number: FoldOperator(group.signature, cls.folding, points, serial, forwards=forwards)
            for number, cls in enumerate(group.classes)
            if cls.folding is not None
        }

    def take(
        self, outputs: GroupOutputs, matches: Matches, spaces: Sequence[Space], arrived_us: Int64s, complete_us: int
    ) -> None:
        """Folds matches, found by tuples that arrived then."""
        if not self.operators or not len(matches):
            return
        times = [space.times(addresses) for space, addresses in zip(spaces, matches.sides, strict=True)]
        arrived = int(arrived_us.max())
        for number, positions, rows in outputs.folded(matches, spaces):
            fold = self.operators[number]
            stays = rows.once(fold.staying, partial(fold.stays, times, positions, complete_us))
            fold.add(rows, stays, arrived)

    def evaluate(self, complete_us: Mapping[Sizes, int], *, ended: bool) -> Iterator[Effect]:
        """Gives rows of groups; ``complete_us``: by window, until when all its results are known."""
        for fold in self.operators.values():
            known_us = {final.window_us: complete_us[final.sizes] for final in fold.folding.finals}
            yield from fold.evaluate(known_us, ended=ended)

    def settle(self) -> Iterator[Effect]:
        for fold in self.operators.values():
            yield from fold.settle()
