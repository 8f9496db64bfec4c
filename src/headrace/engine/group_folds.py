"""The aggregates of a group's classes: each slice of matches is folded for those that it passes, once for each class.

Owns :class:`GroupFolds`. Results are folded as soon as they are found, in whatever band; when they count is a matter of
the window, whose results are known until the first block that has not scanned it. Cost: ``aggregating``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from headrace.engine.aggregating import FoldOperator
from headrace.engine.events import Effect, Lack, Past
from headrace.engine.folded_rows import FoldedRows
from headrace.engine.histories import LOWEST, NEVER, Points
from headrace.engine.keys import Int64s
from headrace.engine.lookback import Asked
from headrace.engine.measuring import WorkReport, watched
from headrace.engine.output import GroupOutputs
from headrace.engine.spaces import Matches, Space
from headrace.engine.window import Serial
from headrace.plan.canonical import Sizes
from headrace.plan.sharing import Group


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Results that a class folds: the columns that are read of them, their timestamps and sinces, and until when all
    are known once these are."""

    number: int
    rows: pa.RecordBatch
    newest_us: Int64s
    since_us: Int64s
    complete_us: int
    arrived_us: int


class GroupFolds:
    """A group's aggregates in one shard, by class."""

    def __init__(self, group: Group, points: Points, serial: Serial, *, forwards: bool) -> None:
        self._raw = {number: cls for number, cls in enumerate(group.classes) if cls.deferred is not None}
        self.evaluated: dict[int, WorkReport] = {}
        """By class, what its last evaluation gave, and how long it took."""
        self.found: list[FoundRows] = []
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
        arrived = int(arrived_us.max())
        for number, positions, rows, is_past in outputs.folded(matches, spaces):
            fold = self.operators[number]
            if number in self._raw:
                mine = [some[positions] for some in times]
                self.found.append(self._waiting(number, rows, mine, complete_us, arrived, has_passed=is_past))
                continue
            stays = rows.once(fold.staying, partial(fold.stays, times, positions, complete_us))
            fold.add(rows, stays, arrived)

    def _waiting(
        self,
        number: int,
        rows: FoldedRows,
        times: Sequence[Int64s],
        complete_us: int,
        arrived_us: int,
        *,
        has_passed: bool,
    ) -> FoundRows:
        """Results of a class that other operators have to go on with, as columns; less those that only filters read,
        where they have passed these."""
        cls, offsets = self._raw[number], self.operators[number].folding.offsets
        left_out = cls.only_filtered if has_passed else ()
        columns = {one.name: rows.values(one.expression) for one in cls.outputs if one.name not in left_out}
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        since_us = np.minimum.reduce([some + more for some, more in zip(times, offsets, strict=True)])
        return FoundRows(number, batch, np.maximum.reduce(times), since_us, complete_us, arrived_us)

    def look_back(
        self,
        outputs: GroupOutputs,
        matches: Matches,
        spaces: Sequence[Space],
        asked: Mapping[int, Asked],
        known_us: int,
    ) -> Iterator[Effect]:
        """Folds matches that were found once more, for the classes that lack them. ``outputs``: what finished rows are
        made of."""
        times = [space.times(addresses) for space, addresses in zip(spaces, matches.sides, strict=True)]
        newest_us = np.maximum.reduce(times)
        for number, one in asked.items():
            offsets = self.operators[number].folding.offsets
            since_us = np.minimum.reduce([some + more for some, more in zip(times, offsets, strict=True)])
            for lack, mine in one.parts(newest_us, since_us):
                part = matches.where(np.flatnonzero(mine))
                for passing, positions, rows, _ in outputs.folded(part, spaces) if len(part) else ():
                    if passing == number:
                        kept_us = newest_us[mine][positions], since_us[mine][positions]
                        past = Past(known_us if lack is Lack.NEW else LOWEST, lack)
                        yield from self.operators[number].add_past(rows, *kept_us, past)

    def take_found(self) -> list[FoundRows]:
        """What was found since it was last asked for."""
        found, self.found = self.found, []
        return found

    def evaluate(
        self,
        complete_us: Mapping[Sizes, int],
        held_back_us: Callable[[int], int | None],
        now_s: Callable[[], float],
        *,
        ended: bool,
    ) -> Iterator[Effect]:
        """Gives rows of groups; ``complete_us``: by window, until when all its results are known; ``held_back_us``: by
        class, until when they have been folded, where not all were."""
        for number, fold in self.operators.items():
            back_us = held_back_us(number)
            least_us = NEVER if back_us is None else back_us
            known_us = {final.window_us: min(complete_us[final.sizes], least_us) for final in fold.folding.finals}
            told = partial(self.evaluated.__setitem__, number)
            yield from watched(fold.evaluate(known_us, ended=ended), now_s, told)

    def settle(self) -> Iterator[Effect]:
        for fold in self.operators.values():
            yield from fold.settle()
