"""States by window, which are as full as what is probed makes them: flows, slopes, and what is left out."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from allocation_cases import trees, two_joins
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from headrace.lab.random_plans import random_problem, random_tree
from headrace.plan.allocating import AllocationProblem, ProbeFacts, Retention, allowed_shares, flows_of
from headrace.plan.allocators import allocate
from headrace.plan.pruning import slopes_of
from headrace.plan.trees import JoinTree


def windowed(seed: int, tree: JoinTree, share: float) -> AllocationProblem:
    """A random plan with a few results a probe, so that all paths matter."""
    chance = random.Random(seed)
    problem = random_problem(chance, tree, 1.0)
    probes = tuple(ProbeFacts(chance.uniform(0.2, 3), chance.uniform(0.5, 2)) for _ in problem.probes)
    problem = replace(problem, probes=probes, retention=Retention.WINDOW)
    return problem.with_mu(share * problem.saturation.spent)


def best_by_search(problem: AllocationProblem, chance: random.Random, tries: int = 6) -> float:
    """The most results that a general search finds from several starts; it knows nothing of slopes."""

    def results(shares: list[float]) -> float:
        return -allowed_shares(problem, shares).throughput / problem.saturation.throughput

    def room(shares: list[float]) -> float:
        return (problem.mu - allowed_shares(problem, shares).spent) / problem.mu

    best, sides = 0.0, len(problem.probes)
    for _ in range(tries):
        start = [chance.random() for _ in range(sides)]
        found = minimize(
            results, start, bounds=[(0, 1)] * sides, constraints={"type": "ineq", "fun": room}, method="SLSQP"
        )
        if room(found.x) > -1e-6:
            best = max(best, -found.fun)
    return best * problem.saturation.throughput


def test_a_starved_state_by_window_is_empty_and_by_count_is_not() -> None:
    """Only c probes: by count it finds two for each of its 300, by window nothing is there to be found."""
    by_count = two_joins()
    by_window = replace(by_count, retention=Retention.WINDOW)
    assert flows_of(by_count, [0, 0, 0, 300]).throughput == 600
    assert flows_of(by_window, [0, 0, 0, 300]).throughput == 0
    half = flows_of(by_window, [250, 350, 0, 300])
    assert half.fills[3] == pytest.approx(0.5)
    assert half.throughput == pytest.approx(300)


@given(trees(largest=7), st.integers(0, 10**6))
def test_with_unlimited_cpu_states_are_full(tree: JoinTree, seed: int) -> None:
    problem = windowed(seed, tree, 1.001)
    found = allocate(problem)
    assert found.is_unlimited
    assert found.flows.fills == pytest.approx([1.0] * len(tree.half_ways))


@given(trees(largest=7), st.integers(0, 10**6))
def test_slopes_are_what_a_small_step_shows(tree: JoinTree, seed: int) -> None:
    problem, chance = windowed(seed, tree, 0.5), random.Random(seed)
    shares = [chance.uniform(0.1, 0.9) for _ in tree.half_ways]
    before, slopes = allowed_shares(problem, shares), slopes_of(problem, shares)
    for number in range(len(shares)):
        stepped = [share + 1e-4 * (one == number) for one, share in enumerate(shares)]
        after = allowed_shares(problem, stepped)
        assert (after.throughput - before.throughput) / 1e-4 == pytest.approx(slopes.results[number], rel=1e-4)
        assert (after.spent - before.spent) / 1e-4 == pytest.approx(slopes.cost[number], rel=1e-4)


@given(trees(largest=7), st.integers(0, 10**6), st.integers(0, 100))
def test_all_of_the_service_rate_is_used_and_no_more(tree: JoinTree, seed: int, percent: int) -> None:
    problem = windowed(seed, tree, percent / 100)
    assert allocate(problem, "pruned").flows.spent == pytest.approx(problem.mu)


@pytest.mark.parametrize("seed", range(16))
def test_what_is_left_makes_nearly_as_many_results_as_a_search_finds(seed: int) -> None:
    chance = random.Random(seed)
    problem = windowed(seed, random_tree(chance, chance.randint(3, 5)), chance.choice((0.2, 0.4, 0.6, 0.8)))
    found = allocate(problem, "pruned").throughput
    assert found >= 0.9 * best_by_search(problem, chance)


@pytest.mark.parametrize("seed", range(40))
def test_with_little_cpu_some_path_is_left_as_a_whole(seed: int) -> None:
    """What all results need is not left out, however little there is."""
    chance = random.Random(seed)
    problem = random_problem(chance, random_tree(chance, chance.randint(3, 9)), chance.uniform(0.02, 0.2), is_odd=True)
    problem = replace(problem, retention=Retention.WINDOW)
    assert allocate(problem).throughput >= 0.95 * allocate(problem, "jda_m").throughput


def test_jaqpot_by_window_does_not_starve_the_state_it_lives_on() -> None:
    """c finds ten in a full S(a b), which is more than any other path makes for its cost: GrePP spends all on c."""
    problem = two_joins(mu=100)
    problem = replace(problem, retention=Retention.WINDOW, probes=(*problem.probes[:3], ProbeFacts(10.0)))
    assert allocate(problem, "grepp").throughput == 0
    assert allocate(problem).throughput > 0
