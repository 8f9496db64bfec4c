"""The aggregates of a group's classes: each slice of matches is folded for those that it passes, once for each class.

Owns :class:`GroupFolds`. Results are folded as soon as they are found, in whatever band; when they count is a matter of
the window, whose results are known until the first block that has not scanned it. Cost: ``aggregating``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.engine.aggregating import FoldOperator
from headrace.engine.events import Effect
from headrace.engine.histories import NEVER, Points
from headrace.engine.keys import Int64s
from headrace.engine.output import GroupOutputs
from headrace.engine.spaces import Matches, Space
from headrace.engine.window import Serial
from headrace.plan.sharing import Group, Sizes


@dataclass(frozen=True, slots=True)
class FoldedRows:
    """Results that a class folds: what is read of them, their timestamps and sinces, and until when all are known
    once these are."""

    number: int
    rows: pa.RecordBatch
    newest_us: Int64s
    since_us: Int64s
    complete_us: int
    arrived_us: int


class GroupFolds:
    """A group's aggregates in one shard, by class."""

    def __init__(self, group: Group, points: Points, serial: Serial, *, forwards: bool) -> None:
        self._waits = {number for number, cls in enumerate(group.classes) if cls.deferred is not None}
        self.found: list[FoldedRows] = []
        """What other operators have to go on with before it is folded."""
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
        newest_us = np.maximum.reduce(times)
        for number, positions, rows in outputs.folded(matches, spaces):
            fold = self.operators[number]
            shifted = [some[positions] + more for some, more in zip(times, fold.folding.offsets, strict=True)]
            told = (rows, newest_us[positions], np.minimum.reduce(shifted), complete_us, int(arrived_us.max()))
            if number in self._waits:
                self.found.append(FoldedRows(number, *told))
            else:
                fold.add(*told)

    def take_found(self) -> list[FoldedRows]:
        """What was found since it was last asked for."""
        found, self.found = self.found, []
        return found

    def evaluate(
        self, complete_us: Mapping[Sizes, int], held_back_us: Callable[[int], int | None], *, ended: bool
    ) -> Iterator[Effect]:
        """Gives rows of groups; ``complete_us``: by window, until when all its results are known; ``held_back_us``: by
        class, until when they have been folded, where not all were."""
        for number, fold in self.operators.items():
            back_us = held_back_us(number)
            least_us = NEVER if back_us is None else back_us
            known_us = {final.window_us: min(complete_us[final.sizes], least_us) for final in fold.folding.finals}
            yield from fold.evaluate(known_us, ended=ended)

    def settle(self) -> Iterator[Effect]:
        for fold in self.operators.values():
            yield from fold.settle()
