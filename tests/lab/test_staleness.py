"""How old tuples in results are, by the model: fresh where refresh rates are kept, stale where states are starved."""

from __future__ import annotations

import random

import pytest
from allocation_cases import two_joins

from headrace.lab.random_plans import random_problem, random_tree
from headrace.lab.staleness import stale_share
from headrace.plan.allocating import Allocation, AllocationProblem, StreamLoad
from headrace.plan.allocators import allocate


def fresh(freshness_s: float) -> AllocationProblem:
    problem = two_joins()
    loads = tuple(StreamLoad(one.rate, freshness_s) for one in problem.loads)
    return AllocationProblem(problem.tree, problem.mu, loads, problem.probes, problem.held)


@pytest.mark.parametrize("seed", range(12))
def test_no_result_of_jaqpot_is_stale_in_a_feasible_plan(seed: int) -> None:
    chance = random.Random(seed)
    problem = random_problem(chance, random_tree(chance, 5), 0.3, chance.choice((1.5, 3.0, 5.0)))
    found = allocate(problem)
    assert not found.is_feasible or stale_share(found, chance) == 0


def test_a_starved_state_makes_only_stale_results() -> None:
    assert stale_share(Allocation("none", fresh(60), (0, 0, 0, 300)), random.Random(1)) == 1


def test_a_state_that_is_refreshed_slowly_makes_some_stale_results() -> None:
    """A tuple of a is up to 10 s old when S(a b) gets it, and stays there up to a hundred: half are younger than 60."""
    slow = Allocation("slow", fresh(60), (0, 2, 0, 300))
    assert 0.3 < stale_share(slow, random.Random(1), 1000) < 0.7
    assert stale_share(Allocation("slow", fresh(111), (0, 2, 0, 300)), random.Random(1), 1000) == 0


def test_no_results_are_not_stale() -> None:
    assert stale_share(Allocation("none", fresh(1), (0, 0, 0, 0)), random.Random(1)) == 0
