"""Results that are too old when they are released are left out, row by row, of queries that may leave results out.

      step       every result is fresh until ...                     told with the micro-batch, and beside the rows
      release    now? then the rows that are not are left out        files, callbacks, consoles, Kafka ...

A step is told when its results are taken to be released, and makes none that is stale by then; this is for when it took
longer than that. Rows that are left out are counted as stale results prevented. Values of aggregates are no results:
they rest on what is in the window.

Owns :class:`Withholding`, of one micro-batch. Invariant: what is released of a query, what is counted of it and what is
left out are by one time. Cost: a comparison for each time that a query's results are fresh until, and a part is written
again where some of its rows are stale.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from headrace.plan.sharing import Delivery, SharedPlan
from headrace.spark.fresh_rows import fresh_part
from headrace.spark.staging import StagedPart

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
    """Which results of a micro-batch are left out. A query is judged once, when its rows are about to be released."""

    def __init__(self, plan: SharedPlan, told: Told) -> None:
        self._groups = adapting(plan)
        self._told = told
        self._released_us: dict[str, int] = {}
        self._done_us: dict[str, int] = {}

    def judge(self, queries: Iterable[str]) -> None:
        """These queries' rows are about to be released."""
        now = now_us()
        for query in queries:
            if query in self._groups:
                self._released_us.setdefault(query, now)

    def done(self, queries: Iterable[str]) -> None:
        """These queries' rows have been released."""
        now = now_us()
        for query in queries:
            self._done_us.setdefault(query, now)

    def released_us(self, query: str) -> int:
        """When a query's rows are released: all of them, as long as it was not judged."""
        return self._released_us.get(query, -(2**63))

    def parts(self, staged: Sequence[tuple[int, StagedPart]]) -> list[StagedPart]:
        """The parts without stale rows. That takes time where there are any, so it is looked at again."""
        queries = {query for _, part in staged for query in part.queries if query in self._groups}
        while True:
            self.judge(queries)
            kept = [self._fresh(shard, part) for shard, part in staged]
            now, released = now_us(), {query: self.released_us(query) for query in queries}
            if not any(released[query] <= until_us < now for query, _, until_us, _ in self._counts(queries)):
                return [part for part in kept if part.rows]
            for query in queries:
                del self._released_us[query]

    def _fresh(self, shard: int, part: StagedPart) -> StagedPart:
        """A part has rows of one group that adapts, or of none; so its readers are judged alike."""
        stale = self._stale(part.queries)
        if not any(one == shard for one, _ in stale):
            return part
        path, rows = fresh_part(part.path, max(map(self.released_us, part.queries)))
        return replace(part, path=path, rows=rows)

    def released(self) -> Told:
        """What shards told, without the results that were left out."""
        found = []
        for shard, one in self._told:
            arrived = dict(one["arrived"])
            for query in self._released_us.keys() & one["fresh"].keys():
                at_us = self._released_us[query]
                counts: dict[int, int] = {}
                for arrived_us, until_us, rows in one["fresh"][query]:
                    if until_us >= at_us:
                        counts[arrived_us] = counts.get(arrived_us, 0) + rows
                arrived[query] = sorted(counts.items())
            found.append((shard, {**one, "arrived": {query: some for query, some in arrived.items() if some}}))
        return tuple(found)

    def stale_rows(self, query: str) -> int:
        """How many rows of a query are left out."""
        return sum(rows for _, rows in self._stale([query]))

    def left_out(self) -> dict[str, int]:
        """By group, the results that were left out."""
        counts: dict[str, int] = {}
        for query in self._released_us:
            counts[self._groups[query]] = counts.get(self._groups[query], 0) + self.stale_rows(query)
        return {group: rows for group, rows in counts.items() if rows}

    def late(self) -> frozenset[str]:
        """The groups of which results were released that were not fresh any more when that was done."""
        return frozenset(
            self._groups[query]
            for query, _, until_us, _ in self._counts(self._done_us.keys() & self._groups.keys())
            if self.released_us(query) <= until_us < self._done_us[query]
        )

    def _stale(self, queries: Iterable[str]) -> list[tuple[int, int]]:
        """(shard, how many) of the rows of these queries that are left out."""
        counts = self._counts(queries)
        return [(shard, rows) for query, shard, until_us, rows in counts if until_us < self.released_us(query)]

    def _counts(self, queries: Iterable[str]) -> Iterator[tuple[str, int, int, int]]:
        """(query, shard, until when, how many) of these queries' rows."""
        for query in queries:
            for shard, one in self._told:
                for _, until_us, rows in one["fresh"].get(query, ()):
                    yield query, shard, until_us, rows


def now_us() -> int:
    return time.time_ns() // 1000
