"""Queries that come live: what their aggregates lack of what was found before they came, and that they are given it.

      state kept --ask--> what each class lacks --look back, in the next step--> folded: what waits, then what is held

Owns :class:`ComingLive`. The held tuples' results are found once more by ``lookback``. Invariant: after ``look_back``
nothing is asked for any more, whatever the budget. Cost: ``lookback``'s in the one step after such a query came;
nothing in any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headrace.engine.blocks import PendingBlock
from headrace.engine.downstream import Downstream
from headrace.engine.events import Effect
from headrace.engine.group_folds import GroupFolds
from headrace.engine.histories import LOWEST
from headrace.engine.inputs import InputState, Place
from headrace.engine.lookback import Asked, held_matches
from headrace.engine.options import OperatorOptions
from headrace.engine.output import GroupOutputs, outputs_of, reach_of
from headrace.engine.window import SegmentSource
from headrace.plan.sharing import Group, OutputClass


class ComingLive:
    """What one group's aggregates in one shard are to be given of the past. ``classes``: as the plan has them."""

    def __init__(
        self,
        group: Group,
        classes: tuple[OutputClass, ...],
        inputs: Sequence[InputState],
        folds: GroupFolds,
        downstream: Downstream,
        options: OperatorOptions,
        source: SegmentSource | None,
    ) -> None:
        self._group = group
        self._classes = classes
        self._inputs = inputs
        self._folds = folds
        self._downstream = downstream
        self._options = options
        self._source = source
        self.asked: dict[int, Asked] = {}
        """By class, what its aggregate lacks of what was found before this step."""

    def ask(self, kept: Mapping[str, Sequence[int]]) -> None:
        """Says what aggregates lack that was found before; ``kept``: what ``reaches`` was when it was found."""
        for number, fold in self._folds.operators.items():
            window_us, given_us = kept.get(fold.folding.identity, (None, None))
            if window_us is None or max(fold.folding.windows_us) > window_us:
                self.asked[number] = Asked(given_us)

    def reaches(self, outputs: GroupOutputs) -> dict[str, tuple[int, int]]:
        """By aggregate: its largest window; how far back the results lie that it is given."""
        given_us = outputs.given_us
        return {
            fold.folding.identity: (max(fold.folding.windows_us), given_us[number])
            for number, fold in self._folds.operators.items()
        }

    def look_back(self, progress: Place | None, pending: Sequence[PendingBlock]) -> Iterator[Effect]:
        """Gives aggregates what they lack of what has been found before: all of it, whatever the budget."""
        asked, self.asked = self.asked, {}
        if not asked or self._group.is_tree:
            return
        operators = self._folds.operators
        finals = [final for number in asked for final in operators[number].folding.finals]
        reach = reach_of([final.sizes for final in finals])
        outputs = outputs_of(self._classes, tuple(self._inputs[index].collected for index in self._group.sides))
        joined_us = LOWEST if progress is None else progress.known_us
        known_us = min([joined_us, *(block.known_us for block in pending)])
        new = {number for number, one in asked.items() if one.found_us is None}
        yield from self._downstream.fold_waiting(asked, new)
        for number in sorted(asked.keys() - new):
            yield from operators[number].before_past()
        held = held_matches(self._group, self._inputs, pending, self._options, reach, self._source)
        for matches, spaces in held:
            yield from self._folds.look_back(outputs, matches, spaces, asked, known_us)
