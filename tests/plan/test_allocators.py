"""Allocators: the paper's numbers, GrePP against a linear program, flows, rounding, self joins, and zero rates."""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf

import pytest
from allocation_cases import path_table, single_join, trees, two_joins
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.allocation_programs import most_results
from headrace.errors import PlanError
from headrace.lab.random_plans import random_problem, random_tree
from headrace.plan.allocating import (
    Allocation,
    AllocationProblem,
    ProbeFacts,
    StreamLoad,
    allowances_of,
    flows_of,
    problem_of,
    whole_probes,
)
from headrace.plan.allocators import ALLOCATORS, DEFAULT_ALLOCATOR, MOST_UNITS, allocate
from headrace.plan.knapsack import PathUnit, fill_best_first, fill_whole, whole_unit
from headrace.plan.trees import JoinTree, parse_tree

FIGURE_8 = [PathUnit(15, 4, 9), PathUnit(16, 5, 9), PathUnit(10, 1, 9)]
OF_TREES = [name for name in ALLOCATORS if name != "jda"]


def given_results(units: list[PathUnit], times: list[int]) -> float:
    return sum(unit.gives * count for unit, count in zip(units, times, strict=True))


# --- the paper's numbers


def test_jda_of_the_paper_makes_1500_results_a_second() -> None:
    found = allocate(single_join(), "jda")
    assert found.allowances == (0.0, 300.0)
    assert found.throughput == 1500


def test_jda_m_of_the_paper_makes_750_results_and_most_of_the_first_join_is_wasted() -> None:
    found = allocate(two_joins(), "jda_m")
    assert found.allowances == (0, 150, 150, 0)
    assert found.flows.offered[2] == 750
    assert found.throughput == 750


def test_figure_8_greedy_in_whole_paths_makes_6_and_dynamic_programming_8() -> None:
    assert [path.productivity for path in path_table().paths] == pytest.approx([4 / 15, 5 / 16, 0.1])
    assert [whole_unit(path, 99) for path in path_table().paths] == [
        PathUnit(15, pytest.approx(4), 9, 11.0),
        PathUnit(16, pytest.approx(5), 9, 11.0),
        PathUnit(10, pytest.approx(1), 9, 10.0),
    ]
    assert given_results(FIGURE_8, fill_best_first(FIGURE_8, 30)) == 6
    assert given_results(FIGURE_8, fill_whole(FIGURE_8, 30)) == 8
    assert allocate(path_table(), "exact").throughput == pytest.approx(8)


def test_figure_8_grepp_makes_9_375_with_20_625_and_9_375_probes() -> None:
    for name in ("grepp", "jaqpot"):
        found = allocate(path_table(), name)
        assert found.allowances == pytest.approx((0, 20.625, 9.375, 0))
        assert found.throughput == pytest.approx(9.375)


def test_a_path_is_divided_so_that_all_that_is_made_is_probed() -> None:
    """The example below equation 7: 600 for path b are 100 and 500."""
    path = two_joins().paths[1]
    assert path.divided(600) == (100, 500)
    assert flows_of(two_joins(), allowances_of(two_joins(), [0, 100, 0])).probing == (0, 100, 500, 0)


# --- optimal, and never more than there is


@pytest.mark.parametrize("seed", range(60))
def test_grepp_makes_as_many_results_as_any_allocation_can(seed: int) -> None:
    chance = random.Random(seed)
    tree = random_tree(chance, chance.randint(2, 7))
    problem = random_problem(chance, tree, chance.uniform(0.01, 1.1), is_odd=seed % 2 == 1)
    assert allocate(problem, "grepp").throughput == pytest.approx(most_results(problem), rel=1e-6, abs=1e-6)


@given(trees(largest=7), st.integers(0, 10**6), st.integers(0, 120), st.booleans())
def test_no_allocator_spends_more_than_there_is_or_makes_more_than_grepp(
    tree: JoinTree, seed: int, percent: int, is_odd: bool
) -> None:
    problem = random_problem(random.Random(seed), tree, percent / 100, freshness=2.0, is_odd=is_odd)
    best = allocate(problem, "grepp").throughput
    for name in OF_TREES:
        found = allocate(problem, name)
        allowed = sum(one * facts.cost for one, facts in zip(found.allowances, problem.probes, strict=True))
        assert allowed <= problem.mu * (1 + 1e-6)
        assert found.throughput <= best * (1 + 1e-6)
        assert 0 <= found.freshness_share <= 1 + 1e-9


@given(trees(largest=7), st.integers(0, 10**6))
def test_with_enough_cpu_everything_is_probed(tree: JoinTree, seed: int) -> None:
    problem = random_problem(random.Random(seed), tree, 1.0, is_odd=True)
    for name in ("exact", "grepp", "jaqpot"):
        for mu in (problem.mu * 1.000001, inf):
            found = allocate(problem.with_mu(mu), name)
            assert found.is_unlimited
            assert found.throughput == pytest.approx(problem.saturation.throughput)
            assert found.of_saturation == pytest.approx(1)


@given(trees(largest=6), st.integers(0, 10**6))
def test_consumers_are_allowed_what_producers_make(tree: JoinTree, seed: int) -> None:
    problem = random_problem(random.Random(seed), tree, 0.3)
    flows = allocate(problem, "grepp").flows
    for half, probing, offered in zip(tree.half_ways, flows.probing, flows.offered, strict=True):
        if len(half.own) > 1:
            assert probing == pytest.approx(offered)


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 20), st.integers(0, 4)), max_size=4), st.integers(0, 30))
def test_the_knapsack_is_the_best_of_all_whole_numbers(rows: list[tuple[int, int, int]], mu: int) -> None:
    units = [PathUnit(*row) for row in rows]

    def best(left: list[PathUnit], room: int) -> float:
        if not left:
            return 0
        first, *rest = left
        return max(
            count * first.gives + best(rest, room - count * first.uses)
            for count in range(first.times + 1)
            if count * first.uses <= room
        )

    times = fill_whole(units, mu)
    assert given_results(units, times) == best(units, mu)
    assert all(count <= unit.times for count, unit in zip(times, units, strict=True))
    assert sum(count * unit.uses for count, unit in zip(times, units, strict=True)) <= mu


def test_the_knapsack_of_a_large_service_rate_comes_near_grepp() -> None:
    problem = random_problem(random.Random(4), parse_tree("((a b) (c d))", "abcd"), 0.3)
    assert problem.mu > 10 * MOST_UNITS
    assert 0.99 < allocate(problem, "exact").throughput / allocate(problem, "grepp").throughput <= 1 + 1e-9


@pytest.mark.parametrize("slow", [0.5, 0.9, 0.01, 1e-6])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_streams_slower_than_a_tuple_a_second_probe_below_saturation(slow: float, share: float) -> None:
    """Beside others, and where all are: nothing but what rounding takes is missing to the most in fractions."""
    for rates in ((slow, 3.0, 40.0), (slow, slow, slow)):
        loads = tuple(map(StreamLoad, rates))
        problem = replace(path_table(), loads=loads)
        problem = problem.with_mu(share * problem.saturation.spent)
        found = allocate(problem, "exact")
        assert found.flows.spent <= problem.mu * (1 + 1e-6)
        most = allocate(problem, "grepp").throughput
        assert 0.99 * most < found.throughput <= most * (1 + 1e-9)


def test_a_slow_stream_that_makes_most_for_its_probes_is_probed_with_as_a_whole() -> None:
    problem = replace(two_joins(mu=3), loads=(StreamLoad(2), StreamLoad(0.25), StreamLoad(2)))
    (_, best, _) = problem.paths
    assert best.productivity == max(path.productivity for path in problem.paths)
    assert allocate(problem, "exact").allowances[problem.number_of[problem.tree.path(1)[0]]] == pytest.approx(0.25)


def test_paths_that_no_number_of_tuples_divides_are_taken_as_far_as_the_service_rate_goes() -> None:
    probes = tuple(map(ProbeFacts, (7.777, 5.431, 4.321, 2.345)))
    problem = replace(two_joins(mu=500), probes=probes)
    assert not any(path.cost * 128 <= 500 and path.productivity > 1 for path in problem.paths[:2])
    assert allocate(problem, "exact").throughput > 0.9 * allocate(problem, "grepp").throughput


# --- edges


@pytest.mark.parametrize("name", OF_TREES)
def test_nothing_to_spend_and_nothing_to_do(name: str) -> None:
    assert allocate(two_joins(mu=0), name).throughput == 0
    idle = replace(two_joins(), loads=(StreamLoad(0),) * 3)
    found = allocate(idle, name)
    assert (found.throughput, found.of_saturation, found.flows.spent) == (0, 1.0, 0)


@pytest.mark.parametrize("name", ["grepp", "jaqpot"])
def test_a_silent_stream_leaves_its_part_to_the_others(name: str) -> None:
    problem = path_table(mu=30)
    silent = replace(problem, loads=(StreamLoad(100), StreamLoad(0), StreamLoad(100)))
    assert allocate(silent, name).allowances == pytest.approx((22, 0, 8, 0))


def test_a_path_that_seems_to_make_nothing_is_probed_last_but_is() -> None:
    problem = path_table(mu=1000, rate=10)
    blind = replace(problem, probes=(ProbeFacts(0.0), *problem.probes[1:]))
    assert allocate(blind, "grepp").allowances[0] == 10
    assert allocate(blind.with_mu(20), "grepp").allowances[0] == 0


def test_a_stream_joined_with_itself_has_a_path_for_each_use() -> None:
    """Two sides of one stream come at one rate, and are allowed apart."""
    tree = parse_tree("((t#1 t#2) u)", ["t#1", "t#2", "u"])
    held = {(0,): 100.0, (1,): 100.0, (2,): 50.0, (0, 1): 200.0}
    problem = problem_of(tree, 220, (50, 50, 10), held, lambda half: 0.02 if len(half.own) == 1 else 0.1)
    assert [path.side for path in problem.paths] == [0, 1, 2]
    assert problem.paths[0].productivity == problem.paths[1].productivity
    assert allocate(problem).allowances == pytest.approx((50, 20, 140, 10))


def test_jda_is_for_one_join() -> None:
    with pytest.raises(PlanError, match="use jda_m or jaqpot"):
        allocate(two_joins(), "jda")


def test_an_unknown_allocator_is_refused_with_those_there_are() -> None:
    with pytest.raises(PlanError, match="use jda, jda_m, exact, grepp, gh_wmscp, jaqpot, pruned"):
        allocate(two_joins(), "greedy")
    assert allocate(two_joins()).allocator == DEFAULT_ALLOCATOR == "jaqpot"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: StreamLoad(-1),
        lambda: StreamLoad(inf),
        lambda: StreamLoad(1, -1),
        lambda: ProbeFacts(-0.1),
        lambda: ProbeFacts(float("nan")),
        lambda: ProbeFacts(1, 0),
        lambda: replace(two_joins(), mu=-1),
        lambda: replace(two_joins(), held=(1.0,) * 3),
        lambda: replace(two_joins(), held=(1.0, 1.0, 1.0, -1.0)),
        lambda: Allocation("jda", single_join(), (1.0, -1.0)),
    ],
)
def test_what_makes_no_sense_is_refused(wrong) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PlanError):
        wrong()


@given(st.floats(0, 1000), st.lists(st.floats(0, 5), max_size=30))
def test_whole_probes_lose_none_and_make_none_twice(allowance: float, lengths: list[float]) -> None:
    at, made = 0.0, 0
    for length in lengths:
        probes = whole_probes(allowance, at, at + length)
        assert probes >= 0
        made, at = made + probes, at + length
    assert made == int(allowance * at)


def test_costs_of_probes_are_paid_out_of_the_service_rate() -> None:
    problem: AllocationProblem = replace(single_join(), probes=(ProbeFacts(2.5, 0.1), ProbeFacts(5.0, 1.0)))
    found = allocate(problem, "jda")
    assert found.allowances == (500, 250)
    assert found.flows.spent == 300
