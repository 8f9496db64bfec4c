"""Where the partial aggregates of all shards meet: groups that span shards are evaluated here, and only here.

      shard 1  --panes, times reached-->  \\
      shard 2  --panes, times reached-->   combiner --rows of groups-->        like a shard: no clock, no I/O
      shard 3  --panes, times reached-->  /

Owns :class:`Combiner`. All shards reach the same times in the same step, because turns follow from heartbeats alone;
a step is given what every shard has sent in one micro-batch, and is as deterministic as a shard's. Cost: that of
``aggregating``: what came and left, not what stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headrace.engine.aggregating import FoldOperator, names_kept
from headrace.engine.events import DropSegment, Effect, EmitPanes, Lack, TimesReached
from headrace.engine.histories import Points
from headrace.engine.window import SegmentSource, Serial
from headrace.errors import StateError
from headrace.plan.folding import Folding
from headrace.plan.sharing import OutputClass, SharedPlan

STATE_VERSION = 1


class Combiner:
    """The aggregates of all classes of a plan, over all shards."""

    def __init__(self, plan: SharedPlan, points: Points) -> None:
        self._serial = Serial()
        self._orphans: list[str] = []
        self.operators = {
            (group.signature, folding.identity): FoldOperator(group.signature, folding, points, self._serial)
            for group in plan.groups
            for folding in foldings_in(group.classes)
        }

    def step(self, sent: Iterable[EmitPanes | TimesReached]) -> Iterator[Effect]:
        """Takes what the shards have sent; gives rows, and what to keep and drop."""
        yield from (DropSegment(name) for name in self._orphans)
        self._orphans = []
        told = list(sent)
        self._take([one for one in told if isinstance(one, EmitPanes)])
        reached: dict[tuple[str, str], list[TimesReached]] = {}
        for one in (one for one in told if isinstance(one, TimesReached)):
            reached.setdefault((one.group, one.folding), []).append(one)
        for place, times in reached.items():
            known_us = {
                window: min(dict(one.complete_us)[window] for one in times) for window, _ in times[0].complete_us
            }
            yield from self.operators[place].evaluate(known_us, ended=all(one.ended for one in times))
        for operator in self.operators.values():
            yield from operator.settle()

    def _take(self, sent: Sequence[EmitPanes]) -> None:
        """Takes the panes of all shards: where some were found once more, first what had been found before."""
        before = [one.past is not None and one.past.lack is Lack.NOTHING for one in sent]
        self._take_all([one for one, is_before in zip(sent, before, strict=True) if is_before])
        for place in {(one.group, one.folding) for one in sent if one.past and one.past.lack is Lack.LET_GO}:
            self.operators[place].let_go()
        self._take_all([one for one, is_before in zip(sent, before, strict=True) if not is_before])

    def _take_all(self, sent: Iterable[EmitPanes]) -> None:
        for one in sent:
            self.operators[one.group, one.folding].take_panes(one.number, one.batch, one.arrived_us, one.past)

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.operators.values())

    def manifest(self) -> bytes:
        """All but the segments' contents, as JSON."""
        folds = [[*place, one.to_json()] for place, one in self.operators.items()]
        told = {"version": STATE_VERSION, "serial": self._serial.next_number, "orphans": self._orphans}
        return json.dumps({**told, "folds": folds}, separators=(",", ":")).encode()

    @classmethod
    def restore(cls, plan: SharedPlan, points: Points, manifest: bytes, source: SegmentSource) -> Combiner:
        """The combiner that wrote this manifest, under this plan."""
        told: dict[str, Any] = json.loads(manifest)
        if told.get("version") != STATE_VERSION:
            raise StateError(
                f"the aggregates' state has version {told.get('version')}, this Headrace reads {STATE_VERSION}"
            )
        combiner = cls(plan, points)
        combiner._serial.next_number = told["serial"]
        combiner._orphans = list(told["orphans"])
        for group, identity, kept in told["folds"]:
            operator = combiner.operators.get((group, identity))
            if operator is None:
                combiner._orphans.extend(names_kept(kept))
            else:
                operator.from_json(kept, source)
        return combiner


def foldings_in(classes: Iterable[OutputClass]) -> Iterator[Folding]:
    return (cls.folding for cls in classes if cls.folding is not None)
