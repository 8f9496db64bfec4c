"""How groups whose probes may be left out are carried out: their trees, and what is allowed before and while they run.

      SET plan / cheapest by what is known  ->  tree  ->  problem of allocation  ->  allowances by the allocator

Owns: ``plan_tree``, ``tree_problem``, :class:`TreePlan` and ``plan_trees``, which plans all such groups before the
first tuple: what EXPLAIN shows. Cost: that of choosing a tree (``tree_choice``), once for a plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from headrace.config import Settings
from headrace.errors import PlanError, query_parts, setting_parts
from headrace.plan.allocating import Allocation, AllocationProblem, Retention
from headrace.plan.allocators import allocate
from headrace.plan.costs import JoinFacts
from headrace.plan.explain_joins import side_names
from headrace.plan.joinplans import JoinPlan
from headrace.plan.queries import Measure
from headrace.plan.sharing import Group, SharedPlan
from headrace.plan.tree_choice import TreeChoice, choose_tree, problem_for
from headrace.plan.trees import HalfWayJoin, JoinTree, parse_tree

FIRST_PROBE_US = 2.0
"""What a probe is taken to cost before any was measured."""
FIRST_PERIOD_S = 1.0
"""The time between micro-batches before any was measured, where none is set."""


@dataclass(frozen=True, slots=True)
class TreePlan:
    """A group's tree, how it was chosen (None: it was given), and its allocation."""

    tree: JoinTree
    choice: TreeChoice | None
    allocation: Allocation


def plan_tree(group: Group, settings: Settings, facts: JoinFacts) -> tuple[JoinTree, TreeChoice | None]:
    """The tree that a group is run by: the one that is set, where it is of these streams, or the cheapest."""
    given = given_tree(group, settings)
    if given is not None:
        return given, None
    choice = choose_tree(facts)
    return choice.tree, choice


def given_tree(group: Group, settings: Settings) -> JoinTree | None:
    """The tree that is set, if it is of this group's streams."""
    names = side_names(group)
    if settings.plan is None or set(_words(settings.plan)) != set(names):
        return None
    return parse_tree(settings.plan, names)


def check_trees(plan: SharedPlan, settings: Settings) -> None:
    """Refuses a tree that is of no group's streams, and an allocator that cannot do with the trees there are."""
    adapting = [group for group in plan.groups if group.adapts]
    if settings.plan is not None and adapting and not any(given_tree(group, settings) for group in adapting):
        parse_tree(settings.plan, side_names(adapting[0]))
    several = next((group for group in adapting if len(group.sides) > 2), None)
    if settings.allocator == "jda" and several is not None:
        names = ", ".join(side_names(several))
        raise PlanError(
            f"allocator jda is for a join of two streams, and one joins {names}",
            "use jda_m or jaqpot",
            setting_parts("allocator") + query_parts(*several.queries),
        )


def check_plan_is_used(plan: SharedPlan, settings: Settings) -> None:
    """Refuses a tree that is set where no query would run by one: joins that leave no probes out keep nothing in
    between."""
    if settings.plan is not None and not any(group.adapts for group in plan.groups):
        raise PlanError(
            f"setting plan: {settings.plan!r} is a tree of joins, by which queries with ON OVERLOAD ADAPT run, and "
            "there is none",
            "end a query with ON OVERLOAD ADAPT (without a budget it leaves nothing out), or leave SET plan out",
            setting_parts("plan"),
        )


def _words(text: str) -> list[str]:
    return re.findall(r"[^\s()]+", text)


def retention_of(settings: Settings) -> Retention:
    return Retention(settings.retention)


def freshness_s(group: Group, rates: Sequence[float]) -> list[float]:
    """By side, how long ago its tuples may have arrived, in seconds; rows as long as so many take to come."""
    assert group.freshness is not None
    return [
        one.size / 1e6 if one.measure is Measure.TIME else one.size / rate if rate else inf
        for one, rate in zip(group.freshness, rates, strict=True)
    ]


def tree_problem(
    group: Group,
    tree: JoinTree,
    facts: JoinFacts,
    mu: float,
    settings: Settings,
    rates: Sequence[float] | None = None,
    cost: Callable[[HalfWayJoin], float] = lambda _: 1.0,
    cells: int = 1,
) -> AllocationProblem:
    """The problem of all shards together. ``facts`` are of one of so many ``cells``; ``rates``, of all of them."""
    rates = facts.rates if rates is None else rates
    one = problem_for(tree, facts, mu, None, cost, retention_of(settings))
    fresh = freshness_s(group, rates)
    loads = tuple(type(load)(rate, age) for load, rate, age in zip(one.loads, rates, fresh, strict=True))
    held = tuple(size * cells for size in one.held)
    return AllocationProblem(tree, mu, loads, one.probes, held, one.retention)


def first_mu(settings: Settings) -> float:
    """The service rate, in probes a second, before anything was measured; infinite: there is no limit."""
    if settings.service_rate is not None:
        return settings.service_rate
    if settings.budget is None:
        return inf
    if settings.budget.probes is not None:
        return settings.budget.probes / first_period_s(settings)
    assert settings.budget.time_us is not None
    return settings.budget.time_us / FIRST_PROBE_US * settings.shards / first_period_s(settings)


def first_period_s(settings: Settings) -> float:
    return settings.trigger_us / 1e6 or FIRST_PERIOD_S


def plan_trees(plan: SharedPlan, settings: Settings, joins: Mapping[str, JoinPlan]) -> dict[str, TreePlan]:
    """By signature, the groups whose probes may be left out, as far as they can be planned before the first tuple."""
    found = {}
    for group in (one for one in plan.groups if one.adapts):
        facts = joins[group.signature].facts
        tree, choice = plan_tree(group, settings, facts)
        problem = tree_problem(group, tree, facts, first_mu(settings), settings)
        found[group.signature] = TreePlan(tree, choice, allocate(problem, settings.allocator))
    return found
