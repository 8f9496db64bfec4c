"""The join orders of a checkpoint: what a run had come to, for the next one to begin with.

      run 1    declared: b, a, c     measured: b, c, a    ->    joins.json    ->    run 2 begins with b, c, a

Owns: :class:`JoinRecord`, ``read_records`` and ``write_records``. A record changes no answer; one that does not fit the
join, or was made for another method, is left aside. Cost: a small file, written when an order changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.config import Settings
from headrace.plan.costs import JoinFacts, Order
from headrace.plan.facts import known_facts
from headrace.plan.joingraph import JoinGraph
from headrace.plan.joinplans import with_buckets
from headrace.plan.sharing import Group


@dataclass(frozen=True, slots=True)
class JoinRecord:
    """The orders of a join, by which method, and the measured facts that they were chosen by."""

    method: str
    orders: tuple[Order, ...]
    rates: tuple[float, ...]
    sizes: tuple[float, ...]
    matches: Mapping[tuple[int, int], float]
    most: tuple[float, ...] = ()

    @staticmethod
    def of(method: str, orders: tuple[Order, ...], facts: JoinFacts) -> JoinRecord:
        return JoinRecord(method, orders, facts.rates, facts.sizes, facts.matches, facts.most)

    def fits(self, graph: JoinGraph, method: str) -> bool:
        """Whether it is of such a join."""
        sides = list(graph.sides)
        return method == self.method and [sorted(order) for order in self.orders] == [sides] * len(sides)

    def facts(self, group: Group, settings: Settings) -> JoinFacts:
        assert group.graph is not None
        facts = known_facts(group.graph, self.rates, self.sizes, self.matches)
        return with_buckets(group, settings, replace(facts, most=self.most))

    def to_json(self) -> dict[str, Any]:
        matches = [[*pair, found] for pair, found in sorted(self.matches.items())]
        return {
            "method": self.method,
            "orders": self.orders,
            "rates": self.rates,
            "sizes": self.sizes,
            "matches": matches,
            "most": self.most,
        }

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> JoinRecord:
        return JoinRecord(
            told["method"],
            tuple(map(tuple, told["orders"])),
            tuple(told["rates"]),
            tuple(told["sizes"]),
            {(i, j): found for i, j, found in told["matches"]},
            tuple(told.get("most", ())),
        )


def read_records(path: Path) -> dict[str, JoinRecord]:
    """By group; none where there is no such file."""
    if not path.exists():
        return {}
    return {signature: JoinRecord.from_json(told) for signature, told in json.loads(path.read_text()).items()}


def write_records(path: Path, records: Mapping[str, JoinRecord]) -> None:
    aside = path.with_name(f".{path.name}")
    aside.write_text(json.dumps({signature: one.to_json() for signature, one in records.items()}, indent=1) + "\n")
    aside.rename(path)
