"""Results that are too old when they would be released are left out, of queries that may leave results out only.

      step       a shard's results of a group are all fresh until ...             told with the micro-batch
      release    now? then the shard's results of that group are not released     files, callbacks, consoles, Kafka ...

A step is told when its results are taken to be released, and makes none that is stale by then; this is for when it took
longer than that. A shard's results of a group in a micro-batch are released together or not at all, because only the
shard knew how old each of them is; they are counted as stale results prevented. Values of aggregates are no results:
they rest on what is in the window.

Owns :class:`Withholding`, of one micro-batch. Cost: a comparison for each query and shard.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from headrace.plan.sharing import Delivery, SharedPlan
from headrace.spark.staging import StagedPart
from headrace.spark.tree_told import TreeTold

Told = tuple[tuple[int, dict[str, Any]], ...]


def adapting(plan: SharedPlan) -> dict[str, str]:
    """The group of every query whose results may be left out."""
    return {
        member.query: group.signature
        for group in plan.groups
        if group.adapts
        for cls in group.classes
        if cls.delivery is not Delivery.FOLDED
        for member in cls.members
    }


class Withholding:
    """Whose results of a micro-batch are left out. A query is judged once, when its rows are about to be released."""

    def __init__(self, plan: SharedPlan, told: Told) -> None:
        self._groups = adapting(plan)
        self._told = told
        self._until_us: dict[str, dict[int, int]] = {}
        for shard, one in told:
            for group, tree in one["trees"].items():
                self._until_us.setdefault(group, {})[shard] = TreeTold.from_json(tree).fresh_until_us
        self._withheld: dict[str, frozenset[int]] = {}

    def judge(self, queries: Iterable[str]) -> None:
        """These queries' rows are about to be released."""
        now = now_us()
        for query in queries:
            if query in self._groups and query not in self._withheld:
                until = self._until_us.get(self._groups[query], {})
                self._withheld[query] = frozenset(shard for shard, until_us in until.items() if until_us < now)

    def shards(self, query: str) -> frozenset[int]:
        """The shards whose rows of this query are left out."""
        return self._withheld.get(query, frozenset())

    def parts(self, staged: Sequence[tuple[int, StagedPart]]) -> list[StagedPart]:
        """The parts with those of their readers that get them; a part has rows of one group that adapts, or of none."""
        self.judge({query for _, part in staged for query in part.queries})
        kept = [
            replace(part, queries=tuple(query for query in part.queries if shard not in self.shards(query)))
            for shard, part in staged
        ]
        return [part for part in kept if part.queries]

    def released(self) -> Told:
        """What shards told, without the results that were left out."""
        found = []
        for shard, one in self._told:
            arrived = {query: some for query, some in one["arrived"].items() if shard not in self.shards(query)}
            found.append((shard, {**one, "arrived": arrived}))
        return tuple(found)

    def left_out(self) -> dict[str, int]:
        """By group, the results that were left out."""
        counts: dict[str, int] = {}
        for query, shards in self._withheld.items():
            for shard, one in self._told:
                rows = sum(count for _, count in one["arrived"].get(query, ())) if shard in shards else 0
                counts[self._groups[query]] = counts.get(self._groups[query], 0) + rows
        return {group: rows for group, rows in counts.items() if rows}

    def late(self, published_s: float) -> frozenset[str]:
        """The groups of which results were released that were not fresh any more when all was published."""
        return frozenset(
            group
            for query, group in self._groups.items()
            for shard, one in self._told
            if query in one["arrived"]
            and shard not in self.shards(query)
            and self._until_us.get(group, {}).get(shard, published_s * 1e6) < published_s * 1e6
        )


def now_us() -> int:
    return time.time_ns() // 1000
