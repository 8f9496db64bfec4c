"""The plans of a user's own queries, tried on a sample of their streams: join orders, trees and operator strategies.

      join of three or more streams     its orders: the engine's own by what it measured, the cheapest by the cost model
                                        and the dearest, to see what is at stake; each timed on all of the sample
      the same, ON OVERLOAD ADAPT       its trees of joins, likewise
      strategies                        responses and queues where the budget is short of bursts, as for policies

Owns ``try_plans``, ``try_strategies`` and what they find. Orders cannot be set: the engine takes the cheapest by what
it measures while it runs, so what is told of them is whether that is the fastest, too. A tree can (``SET plan``), and
a strategy can. Cost: a run of the sample for each choice and round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import TypeVar

from headrace.config import STRATEGY_NAMES
from headrace.engine.cutting import BlockCut
from headrace.engine.dispatching import Scheduling
from headrace.engine.shard import ShardOptions
from headrace.engine.tree_join import TreeOptions
from headrace.lab.shard_host import INTERVAL_S, Feed, ShardHost
from headrace.plan.costs import JoinFacts, moved_first, order_cost
from headrace.plan.explain_joins import side_names
from headrace.plan.facts import declared_facts, measured_facts
from headrace.plan.methods import orders_for
from headrace.plan.sharing import Group, SharedPlan
from headrace.plan.tree_choice import all_trees, tree_cost
from headrace.plan.trees import JoinTree

TRIED = 4
"""Of the plans by cost: the cheapest."""
MOST_SIDES = 6
"""Of joins whose plans are all looked at; of more, only the engine's own is run."""
ROUNDS = 2
OWN = "as the engine has it"

Plan = TypeVar("Plan")


@dataclass(slots=True)
class PlanTimes:
    """A join's plans, by what they are called: the processor's time of the join for all of the sample."""

    join: str
    is_tree: bool
    own: str
    """The engine's choice, by the cost model and what it measured."""
    spent_s: dict[str, float] = field(default_factory=dict)

    @property
    def best(self) -> str:
        return min(self.spent_s, key=lambda name: self.spent_s[name])


@dataclass(frozen=True, slots=True)
class StrategyRun:
    """What a strategy came to: by query the mean response in seconds of the sample, and the longest queues."""

    responses_s: Mapping[str, float]
    queue_bytes: int


def try_plans(plan: SharedPlan, feed: Feed, method: str, rates: Mapping[str, float]) -> list[PlanTimes]:
    """All joins of three or more streams. ``rates``: of streams, rows a second."""
    groups = [one for one in plan.groups if one.graph is not None and len(one.sides) > 2]
    if not groups:
        return []
    host = _run(plan, feed, ShardOptions(method=method))
    return [_tried(plan, group, feed, method, _facts(plan, group, host, rates)) for group in groups]


def _facts(plan: SharedPlan, group: Group, host: ShardHost, rates: Mapping[str, float]) -> JoinFacts:
    measured = host.measured.get(group.signature)
    if measured is None:
        return declared_facts(group, plan.catalog)
    by_side = [rates[str(group.inputs[index].stream)] for index in group.sides]
    return measured_facts(group, by_side, [measured])


def _tried(plan: SharedPlan, group: Group, feed: Feed, method: str, facts: JoinFacts) -> PlanTimes:
    names, signature = side_names(group), group.signature
    if group.adapts:
        options = {
            tree.text(names): ShardOptions(method=method, trees={signature: TreeOptions(tree)})
            for tree in cheapest_trees(facts)
        }
        own = next(iter(options))
    else:
        own = OWN
        options = {own: ShardOptions(method=method, orders={signature: orders_for(method, facts)})}
        for order in global_orders(facts):
            orders = tuple(moved_first(order, origin) for origin in facts.sides)
            options[", ".join(names[side] for side in order)] = ShardOptions(method=method, orders={signature: orders})
    found = PlanTimes(" x ".join(names), group.adapts, own)
    for _ in range(ROUNDS):
        for name, one in options.items():
            spent_s = _run(plan, feed, one).joined_s[signature]
            found.spent_s[name] = min(spent_s, found.spent_s.get(name, spent_s))
    return found


def _run(plan: SharedPlan, feed: Feed, options: ShardOptions) -> ShardHost:
    host = ShardHost(plan, options, 1, {})
    for at, rows in enumerate(feed.intervals):
        host.step(rows, at * INTERVAL_S, None)
    return host


def global_orders(facts: JoinFacts) -> list[tuple[int, ...]]:
    """The cheapest, by what all origins cost with new tuples first, and the dearest."""
    if len(facts.sides) > MOST_SIDES:
        return []

    def cost(order: tuple[int, ...]) -> float:
        return sum(order_cost(facts, origin, moved_first(order, origin)) for origin in facts.sides)

    return _ends(sorted(permutations(facts.sides), key=cost))


def cheapest_trees(facts: JoinFacts) -> list[JoinTree]:
    if len(facts.sides) > MOST_SIDES:
        return []
    return _ends(sorted(all_trees(len(facts.sides)), key=lambda tree: tree_cost(facts, tree)))


def _ends(ranked: Sequence[Plan]) -> list[Plan]:
    return [*ranked[:TRIED], *ranked[max(TRIED, len(ranked) - 1) :]]


def try_strategies(plan: SharedPlan, feed: Feed, policy: str, span_us: int, load: float) -> dict[str, StrategyRun]:
    """Every strategy under a budget that takes ``load`` of what there is, on the average."""
    block = BlockCut(span_us=max(1, span_us // 4))

    def options(name: str) -> ShardOptions:
        return ShardOptions(policy=policy, block=block, scheduling=Scheduling(name))

    host = ShardHost(plan, options(STRATEGY_NAMES[0]), 1, {})
    probes = sum(host.step(rows, at * INTERVAL_S, None).probes for at, rows in enumerate(feed.intervals))
    limit, facts = max(1, round(probes / len(feed.intervals) / load)), host.facts
    return {
        name: limited_run(plan, feed, ShardHost(plan, options(name), 1, facts), limit, span_us / 1e6)
        for name in STRATEGY_NAMES
    }


def limited_run(plan: SharedPlan, feed: Feed, host: ShardHost, limit: int, interval_s: float) -> StrategyRun:
    """Micro-batches of so many probes, until nothing waits."""
    counts: dict[str, int] = dict.fromkeys(map(str, plan.queries), 0)
    sums = dict.fromkeys(counts, 0.0)
    steps, at, most_bytes = iter(feed.intervals), 0, 0
    while (rows := next(steps, None)) is not None or host.is_behind:
        at += 1
        for query, arrived in host.step(rows or [], at * INTERVAL_S, limit).latencies.items():
            counts[query] += sum(count for _, count in arrived)
            sums[query] += sum((at * INTERVAL_S - arrived_us / 1e6) * count for arrived_us, count in arrived)
        most_bytes = max(most_bytes, host.queue_bytes)
    scale = interval_s / INTERVAL_S
    means = {name: sums[name] / count * scale if count else float("inf") for name, count in counts.items()}
    return StrategyRun(means, most_bytes)
