"""The choice of a tree: against all trees, without cross products, and with the sizes of states in between."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from math import inf

import pytest
from allocation_cases import two_joins

from headrace.plan.allocating import AllocationProblem, Retention, StreamLoad
from headrace.plan.allocators import allocate
from headrace.plan.costs import JoinFacts, StreamFacts, join_facts
from headrace.plan.reallocating import reason_to_reallocate
from headrace.plan.tree_choice import TreeFacts, all_trees, choose_tree, problem_for, tree_cost
from headrace.plan.trees import JoinTree, Shape, linear_tree, parse_tree


def random_facts(chance: random.Random, sides: int) -> JoinFacts:
    """A connected graph of predicates: a spanning tree and a few edges more; some of them looked up by an index."""
    edges = {(chance.randrange(side), side) for side in range(1, sides)}
    edges |= {tuple(sorted(chance.sample(range(sides), 2))) for _ in range(chance.randrange(3))}
    sizes = tuple(chance.uniform(1, 500) for _ in range(sides))
    matches = {pair: chance.uniform(0.01, 0.5) * sizes[pair[1]] for pair in sorted(edges)}
    indexed = frozenset(pair for pair in sorted(edges) if chance.random() < 0.5)
    return JoinFacts(tuple(chance.uniform(0, 100) for _ in range(sides)), sizes, matches, {}, indexed)


def crosses(facts: JoinFacts, tree: JoinTree) -> int:
    return TreeFacts(facts).price(tree.root)[0]


@pytest.mark.parametrize("seed", range(20))
def test_the_chosen_tree_is_the_cheapest_of_all_without_cross_products(seed: int) -> None:
    facts = random_facts(random.Random(seed), 3 + seed % 3)
    choice = choose_tree(facts)
    joined = [tree for tree in all_trees(len(facts.sizes)) if not crosses(facts, tree)]
    assert not crosses(facts, choice.tree)
    assert choice.cost == pytest.approx(min(tree_cost(facts, tree) for tree in joined))
    linear = [tree_cost(facts, tree) for tree in joined if tree.shape is Shape.LINEAR]
    assert choice.linear.shape is Shape.LINEAR
    assert choice.linear_cost == pytest.approx(min(linear))


@pytest.mark.parametrize("seed", range(12))
def test_for_many_sides_a_tree_near_the_cheapest_is_found(seed: int) -> None:
    facts = random_facts(random.Random(seed), 6)
    best, found = choose_tree(facts), choose_tree(facts, exact_up_to=0)
    assert not crosses(facts, found.tree)
    assert best.cost <= found.cost * (1 + 1e-9)
    assert found.cost <= best.cost * 2
    assert found.linear.shape is Shape.LINEAR


def test_all_trees_are_as_many_as_there_are() -> None:
    assert [len(set(all_trees(sides))) for sides in (2, 3, 4, 5)] == [1, 3, 15, 105]


def test_a_chain_of_predicates_is_joined_along_it() -> None:
    edges = dict.fromkeys(pairwise(range(4)), 1.0)
    facts = JoinFacts((10.0,) * 4, (100.0,) * 4, edges, {}, frozenset())
    for tree in (choose_tree(facts).tree, choose_tree(facts, exact_up_to=2).tree):
        assert all(state in {(0, 1), (1, 2), (2, 3), (0, 1, 2), (1, 2, 3)} for state in tree.susceptible)


def test_streams_without_predicates_are_still_joined() -> None:
    facts = JoinFacts((1.0,) * 3, (10.0, 20.0, 30.0), {}, {}, frozenset())
    assert crosses(facts, choose_tree(facts).tree) == 2
    assert len(choose_tree(facts, exact_up_to=0).tree.sides) == 3


def test_silent_streams_and_empty_windows_do_not_disturb() -> None:
    facts = JoinFacts((0.0, 0.0, 5.0), (0.0, 0.0, 0.0), {(0, 1): 0.0, (1, 2): 0.0}, {}, frozenset())
    tree = choose_tree(facts).tree
    assert allocate(problem_for(tree, facts, 3.0)).throughput == 0


@pytest.mark.parametrize("tree", list(all_trees(4)), ids=lambda tree: tree.text("abcd"))
def test_what_flows_with_unlimited_cpu_does_not_depend_on_the_tree(tree: JoinTree) -> None:
    """The root's results, and what comes to each state, are those of the sets of sides alone."""
    streams = [StreamFacts(10, 100, 50), StreamFacts(5, 60, 20), StreamFacts(8, 30, 40), StreamFacts(2, 90, 10)]
    facts = join_facts(streams)
    known, saturation = TreeFacts(facts), problem_for(tree, facts, inf).saturation
    assert saturation.throughput == pytest.approx(known.arriving((0, 1, 2, 3)))
    for half, offered in zip(tree.half_ways, saturation.offered, strict=True):
        assert offered == pytest.approx(known.arriving(half.own))


def test_states_in_between_are_as_large_as_their_windows_make_them() -> None:
    facts = JoinFacts((10.0, 20.0, 5.0), (100.0, 200.0, 50.0), {(0, 1): 2.0, (1, 2): 5.0}, {}, frozenset())
    problem = problem_for(linear_tree((0, 1, 2)), facts, 100.0)
    assert problem.held_of[(0, 1)] == pytest.approx(100 * 200 * 0.01)
    assert [one.productivity for one in problem.probes] == pytest.approx([2, 1, 5, 20])


# --- when to allocate again


def moved(rate: float = 500.0, size: float = 1000.0, results: float = 2.5, mu: float = 300.0) -> AllocationProblem:
    problem = two_joins(mu)
    probes = (type(problem.probes[0])(results), *problem.probes[1:])
    held = (*problem.held[:-1], size)
    loads = (StreamLoad(rate), *problem.loads[1:])
    return AllocationProblem(problem.tree, mu, loads, probes, held, Retention.COUNT)


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (moved(), None),
        (moved(rate=590, size=900, results=2.2, mu=310), None),
        (moved(rate=700), "a's rate rose from 500/s to 700/s"),
        (moved(rate=380, results=2.0), "a's rate fell from 500/s to 380/s"),
        (moved(size=500), "the size of S(a b) fell from 1,000 tuples to 500 tuples"),
        (moved(results=5.0), "the results of a probe of a with S(b) rose from 2.5 to 5"),
        (moved(mu=200), "the service rate fell from 300/s to 200/s"),
        (moved(mu=0), "the service rate fell from 300/s to 0/s"),
        (moved(mu=inf), "the service rate is not limited any more"),
    ],
)
def test_an_allocation_is_made_again_when_something_moved_far(now: AllocationProblem, reason: str | None) -> None:
    assert reason_to_reallocate(moved(), now, "abc") == reason


def test_what_is_next_to_nothing_may_waver() -> None:
    small = moved(rate=1.0, results=0.0001)
    assert reason_to_reallocate(small, moved(rate=4.0, results=0.0), "abc") is None


def test_another_plan_or_freshness_is_a_reason() -> None:
    other = parse_tree("(a (b c))", "abc")
    problem = moved()
    changed = AllocationProblem(other, 300, problem.loads, problem.probes, problem.held, Retention.COUNT)
    assert reason_to_reallocate(problem, changed, "abc") == "the plan is (a (b c)) instead of ((a b) c)"
    fresh = AllocationProblem(
        problem.tree, 300, (StreamLoad(500, 9.0), *problem.loads[1:]), problem.probes, problem.held, Retention.COUNT
    )
    assert reason_to_reallocate(problem, fresh, "abc") == "the freshness of a is another"


def test_a_freshness_of_rows_is_the_same_whatever_the_rate() -> None:
    """So many rows take another time to come when the rate wavers: that is no other predicate."""

    def of_rows(rate: float, rows: float) -> AllocationProblem:
        problem = moved()
        loads = (StreamLoad(rate, rows / rate if rate else inf), *problem.loads[1:])
        return replace(problem, loads=loads)

    assert reason_to_reallocate(of_rows(500, 800), of_rows(510, 800), "abc") is None
    assert reason_to_reallocate(of_rows(500, 800), of_rows(500, 900), "abc") == "the freshness of a is another"
    assert reason_to_reallocate(of_rows(500, 800), of_rows(0, 800), "abc") == "a's rate fell from 500/s to 16/s"
