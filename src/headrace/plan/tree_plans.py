"""How groups that run as trees are carried out: their trees, and what is allowed before and while they run.

      SET plan / cheapest by what is known  ->  tree  ->  problem of allocation  ->  allowances by the allocator

Groups whose probes may be left out always do; others where ``SET plan`` is of their streams, or is ``tree``, with every
probe.

Owns: ``plan_tree``, ``tree_problem``, :class:`TreePlan` and ``plan_trees``, which plans all such groups before the
first tuple: what EXPLAIN shows. Cost: that of choosing a tree (``tree_choice``), once for a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from headrace.config import CHEAPEST_TREE, Settings
from headrace.errors import PlanError, query_parts, setting_parts
from headrace.model import Catalog, QueryId
from headrace.plan.allocating import Allocation, AllocationProblem, Retention
from headrace.plan.allocators import allocate
from headrace.plan.canonical import told_tree
from headrace.plan.costs import JoinFacts
from headrace.plan.explain_joins import side_names
from headrace.plan.facts import declared_facts
from headrace.plan.joinplans import JoinPlan
from headrace.plan.queries import Measure, Query
from headrace.plan.service_parts import fair_parts
from headrace.plan.sharing import Group, SharedPlan, share
from headrace.plan.tree_choice import TreeChoice, choose_tree, problem_for
from headrace.plan.trees import HalfWayJoin, JoinTree, is_of, parse_tree

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


def shared_by(catalog: Catalog, queries: Sequence[Query], settings: Settings) -> SharedPlan:
    """The plan that runs all these queries, by the trees that are set. The cheapest tree of a query that leaves nothing
    out is part of its join's signature: it is chosen by what is declared and by its own windows, so that it stays when
    other queries come and go."""
    if settings.plan != CHEAPEST_TREE:
        return share(catalog, queries, settings.plan)
    found: dict[QueryId, str] = {}
    for query in queries:
        (group,) = share(catalog, [query]).groups
        if len(group.sides) > 2 and not group.adapts:
            found[query.name] = choose_tree(declared_facts(group, catalog)).tree.text(side_names(group))
    return share(catalog, queries, trees=found)


def plan_tree(group: Group, settings: Settings, facts: JoinFacts) -> tuple[JoinTree, TreeChoice | None]:
    """The tree that a group is run by: the one that is set, where it is of these streams, or the cheapest."""
    given = given_tree(group, settings)
    if given is None or settings.plan == CHEAPEST_TREE:
        choice = choose_tree(facts)
        return given or choice.tree, choice
    return given, None


def given_tree(group: Group, settings: Settings) -> JoinTree | None:
    """The tree that is set, if it is of this group's streams."""
    names = side_names(group)
    if group.tree is not None:
        return group.tree
    if settings.plan in (None, CHEAPEST_TREE) or not is_of(settings.plan, names):
        return None
    return parse_tree(settings.plan, names)


def check_trees(plan: SharedPlan, settings: Settings) -> None:
    """Refuses a tree that is of no group's streams, and an allocator that cannot do with the trees there are."""
    adapting = [group for group in plan.groups if group.adapts]
    could = [group for group in plan.groups if group.adapts or len(group.sides) > 2]
    given = None if settings.plan == CHEAPEST_TREE else settings.plan
    if given is not None and could and not any(is_of(given, side_names(group)) for group in could):
        parse_tree(given, side_names((adapting or could)[0]))
    several = next((group for group in adapting if len(group.sides) > 2), None)
    if settings.allocator == "jda" and several is not None:
        names = ", ".join(side_names(several))
        raise PlanError(
            f"allocator jda is for a join of two streams, and one joins {names}",
            "use jda_m or jaqpot",
            setting_parts("allocator") + query_parts(*several.queries),
        )


def check_plan_is_used(plan: SharedPlan, settings: Settings) -> None:
    """Refuses a tree that is set where no query would run by one: a join of two streams that leaves no probes out keeps
    nothing in between, and one that emits early takes tuples before it is their turn."""
    if settings.plan is not None and not any(group.is_tree for group in plan.groups):
        raise PlanError(
            f"setting plan: {settings.plan!r} is a tree of joins, by which queries over three streams or more run and "
            "those with ON OVERLOAD ADAPT (not with EMIT EARLY), and there is none",
            "end a query with ON OVERLOAD ADAPT (without a budget it leaves nothing out), or leave SET plan out",
            setting_parts("plan"),
        )


def check_kept_trees(plan: SharedPlan, kept: Collection[str]) -> None:
    """Refuses to go on by another tree, or by none, where a join that leaves nothing out ran by one before: what is
    kept for it is of no use then. ``kept``: the signatures of joins that have run."""
    before: dict[str, set[str]] = {}
    for signature in kept:
        joined, tree = told_tree(signature)
        before.setdefault(joined, set()).add(tree or "no tree")
    for group in plan.groups:
        joined, tree = told_tree(group.signature)
        if joined in before and (tree or "no tree") not in before[joined]:
            raise PlanError(
                f"query {group.queries[0]} runs by {tree or 'no tree'} now, and ran by {min(before[joined])} before: "
                "what the checkpoint keeps for it cannot be used",
                "go on as before, or give --checkpoint a new directory",
                setting_parts("plan") if tree else query_parts(*group.queries),
            )


def allocated(group: Group, problem: AllocationProblem, settings: Settings) -> Allocation:
    """The probes that are allowed: all of them, and nobody is asked, where none may be left out."""
    if group.adapts:
        return allocate(problem, settings.allocator)
    return replace(allocate(problem, "grepp"), allocator="none")


def retention_of(group: Group, settings: Settings) -> Retention:
    """How states in between are measured: by window, where nothing may be left out."""
    return Retention(settings.retention) if group.adapts else Retention.WINDOW


def freshness_s(group: Group, rates: Sequence[float]) -> list[float]:
    """By side, how long ago its tuples may have arrived, in seconds; rows as long as so many take to come."""
    if group.freshness is None:
        return [inf] * len(group.sides)
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
    one = problem_for(tree, facts, mu, None, cost, retention_of(group, settings))
    fresh = freshness_s(group, rates)
    loads = tuple(type(load)(rate, age) for load, rate, age in zip(one.loads, rates, fresh, strict=True))
    held = tuple(size * cells for size in one.held)
    return AllocationProblem(tree, mu, loads, one.probes, held, one.retention)


def first_service(settings: Settings) -> float:
    """The service rate of all trees that leave probes out, in probes a second, before anything was measured; infinite:
    there is no limit."""
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
    """By signature, the groups that run as trees, as far as they can be planned before the first tuple."""
    grown: dict[str, tuple[JoinTree, TreeChoice | None]] = {}
    problems: dict[str, AllocationProblem] = {}
    for group in (one for one in plan.groups if one.is_tree):
        facts = joins[group.signature].facts
        grown[group.signature] = tree, _ = plan_tree(group, settings, facts)
        problems[group.signature] = tree_problem(group, tree, facts, inf, settings)
    adapting = [group.signature for group in plan.groups if group.adapts]
    parts = fair_parts(first_service(settings), [problems[name].saturation.spent for name in adapting])
    for name, part in zip(adapting, parts, strict=True):
        problems[name] = problems[name].with_mu(part)
    return {
        group.signature: TreePlan(*grown[group.signature], allocated(group, problems[group.signature], settings))
        for group in plan.groups
        if group.is_tree
    }
