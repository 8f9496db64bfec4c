"""How a multi-way join is carried out: the orders for new tuples of each side, the grid of cells, what upkeep costs.

Owns :class:`JoinPlan` and ``plan_join``, which makes one of what is known: declared before a run, measured while it
goes on. None of it is in a group's signature: a plan may change between micro-batches without changing an answer (but
for the grid, which decides where tuples are held: it stays what it was when the group came).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.config import Settings
from headrace.errors import PlanError, query_parts, setting_parts
from headrace.model import Catalog
from headrace.plan.costs import JoinFacts, Order, StreamFacts
from headrace.plan.facts import declared_facts
from headrace.plan.hypercube import Grid, choose_grid
from headrace.plan.joingraph import JoinGraph
from headrace.plan.methods import SCANNING, choices_for, cost_for
from headrace.plan.ordering import Choice
from headrace.plan.queries import Measure
from headrace.plan.sharing import Group, SharedPlan
from headrace.plan.upkeep import bucket_shares, expiry_interval


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """What is known of a join, the orders in use, the best ones by what is known now, and the grid."""

    facts: JoinFacts
    orders: tuple[Order, ...]
    choices: tuple[Choice, ...]
    grid: Grid
    is_measured: bool = False
    """Whether the facts are those of a cell, as shards told them; else of whole streams, as declared or guessed."""


def plan_joins(
    plan: SharedPlan,
    settings: Settings,
    grids: Mapping[str, Grid] | None = None,
    joins: Mapping[str, JoinPlan] | None = None,
) -> dict[str, JoinPlan]:
    """By signature, the multi-way joins of a plan: as they are planned already (``joins``), or as far as they can be
    before the first tuple."""
    return {
        group.signature: (joins or {}).get(group.signature)
        or plan_join(group, plan.catalog, settings, (grids or {}).get(group.signature))
        for group in plan.groups
        if group.graph is not None
    }


def plan_join(group: Group, catalog: Catalog, settings: Settings, grid: Grid | None = None) -> JoinPlan:
    assert group.graph is not None
    facts = with_buckets(group, settings, declared_facts(group, catalog))
    choices = choices_for(settings.join_method, facts, settings.reevaluate_us / 1e6)
    orders = tuple(choice.order for choice in choices)
    return JoinPlan(facts, orders, choices, grid or choose_grid(group.graph, facts.sizes, settings.shards))


def expiry_us(group: Group, settings: Settings, facts: JoinFacts | None) -> int:
    """After how much event time tuples that left their windows are let go.

    Sorted segments are dropped whole, by one comparison each, so that is done in each micro-batch. Where buckets or
    whole windows are gone through, it pays to wait (section 6.4): for so long, to two digits."""
    if settings.expire_us is not None:
        return settings.expire_us
    is_sorted = settings.join_method not in SCANNING and settings.index_buckets is None
    if is_sorted or facts is None or Measure.ROWS in group.measures:
        return 0
    return round(float(f"{expiry_interval(stream_facts(settings, facts)) * 1e6:.2g}"))


def buckets_of(group: Group, settings: Settings, facts: JoinFacts | None) -> tuple[int, ...] | None:
    """How many buckets each side's keys are put into: ``index_buckets`` a side on average, more for larger windows
    (section 6.5)."""
    if settings.index_buckets is None:
        return None
    if facts is None:
        return (settings.index_buckets,) * len(group.sides)
    total = settings.index_buckets * len(group.sides)
    return bucket_shares(stream_facts(settings, facts), total)


def with_buckets(group: Group, settings: Settings, facts: JoinFacts) -> JoinFacts:
    """The facts with the sizes of indexes that they call for: orders are chosen by what these read."""
    return replace(facts, buckets=buckets_of(group, settings, facts) or ())


def stream_facts(settings: Settings, facts: JoinFacts) -> tuple[StreamFacts, ...]:
    """The facts as the paper has them: distinct values are what the partners of a tuple leave of a window."""
    found = []
    for side in facts.sides:
        rate, size = max(facts.rates[side], 1e-9), max(facts.sizes[side], 1e-9)
        partners = [found for (_, other), found in facts.matches.items() if other == side and found]
        distinct = max(1.0, size / max(partners, default=1.0))
        buckets = 1.0 if settings.join_method in SCANNING else min(distinct, float(settings.index_buckets or distinct))
        found.append(StreamFacts(rate, size / rate, distinct, max(1.0, buckets)))
    return tuple(found)


def check_method(plan: SharedPlan, settings: Settings) -> None:
    """Refuses a method that cannot do what is asked of it."""
    if settings.join_method in ("lazy", "general") and not settings.reevaluate_us:
        raise PlanError(
            f"setting join_method: {settings.join_method} joins tuples of a stretch of time together",
            "say how long it is, such as SET reevaluate = '1 second', or take eager, naive, index or hybrid",
            setting_parts("join_method", "reevaluate"),
        )
    if settings.join_method == "eager" and settings.reevaluate_us:
        raise PlanError(
            "setting join_method: eager joins tuples at once",
            "take lazy, or SET reevaluate = '0 seconds'",
            setting_parts("join_method", "reevaluate"),
        )
    if settings.join_method != "index":
        return
    for group in plan.groups:
        if group.graph is not None and not _all_indexed(group):
            raise PlanError(
                f"setting join_method: index does not do for {group.signature}: a stream has no equality or comparison "
                "to find its tuples by, from some other",
                "take hybrid",
                setting_parts("join_method") + query_parts(*group.queries),
            )


def _all_indexed(group: Group) -> bool:
    """Whether from new tuples of any side every other is found by an index."""
    assert group.graph is not None
    return all(_reached(group.graph, origin) == set(group.graph.sides) for origin in group.graph.sides)


def _reached(graph: JoinGraph, origin: int) -> set[int]:
    """The sides that indexes lead to from one, step by step."""
    bound = {origin}
    while True:
        by_key = {side for one in graph.classes if bound & set(one.sides) for side in one.sides}
        by_range = {one.side for one in graph.ranges if one.bound_sides <= bound}
        if by_key | by_range <= bound:
            return bound
        bound |= by_key | by_range


def cost_of(plan: JoinPlan, origin: int, settings: Settings) -> float:
    """What new tuples of a side cost a second, by the order in use."""
    return cost_for(settings.join_method, plan.facts, origin, plan.orders[origin], settings.reevaluate_us / 1e6)
