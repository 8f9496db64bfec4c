"""Refresh rates and the covers that keep them: lemma 1, the greedy cover against the least, and infeasible plans."""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf, log

import pytest
from allocation_cases import trees, two_joins
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.allocation_programs import least_cost, most_fresh_results
from headrace.lab.random_plans import random_problem, random_tree
from headrace.plan.allocating import AllocationProblem, Retention, Shortage, StreamLoad, Unfresh, problem_of
from headrace.plan.allocators import allocate
from headrace.plan.covering import cost_of, cover_states, greedy_cover, least_cover
from headrace.plan.freshness import Refresh, refresh_rates, slack_of
from headrace.plan.trees import JoinTree, Sides, linear_tree, parse_tree


def kept(tree: JoinTree, freshness_s: list[float], mu: float = inf, held: float = 100.0) -> AllocationProblem:
    """Ten tuples a second of each stream, a hundred in each state: ten seconds in its own state."""
    sizes = dict.fromkeys(tree.states, held)
    rates = [10.0] * len(tree.sides)
    return problem_of(tree, mu, rates, sizes, lambda _: 0.02, freshness_s, retention=Retention.COUNT)


def reachable(problem: AllocationProblem) -> list[Refresh]:
    coming = {half.own: rate for half, rate in zip(problem.tree.half_ways, problem.saturation.offered, strict=True)}
    return [one for one in refresh_rates(problem) if one.rate <= coming[one.state]]


# --- lemma 1


def test_what_a_stream_leaves_after_its_own_state_is_for_the_state_in_between() -> None:
    problem = kept(linear_tree((0, 1, 2)), [15, 30, inf])
    assert [slack_of(problem, side) for side in (0, 1, 2)] == [5, 20, inf]
    assert refresh_rates(problem) == (Refresh((0, 1), 20.0, 5.0, 0),)


def test_slack_is_divided_by_the_roots_of_sizes() -> None:
    """Sizes 100 and 400: stays of one and two thirds of the slack need the fewest new tuples."""
    problem = kept(linear_tree((0, 1, 2, 3)), [40, inf, inf, inf])
    problem = replace(problem, held=(*problem.held[:-1], 400.0))
    first, second = refresh_rates(problem)
    assert (first.stay_s, second.stay_s) == pytest.approx((10, 20))
    assert first.rate + second.rate == pytest.approx(min(100 / stay + 400 / (30 - stay) for stay in range(1, 30)))


def test_what_a_strict_stream_does_not_use_goes_to_the_other_states() -> None:
    """c leaves S(a b c) two seconds; a and b have the rest of their thirty for S(a b)."""
    problem = kept(linear_tree((0, 1, 2, 3)), [40, 40, 12, inf])
    below, above = refresh_rates(problem)
    assert (above.stay_s, above.side) == (2, 2)
    assert below.stay_s == pytest.approx(28)
    assert below.side in (0, 1)


@given(trees(largest=8), st.integers(0, 10**6), st.floats(1.01, 6))
def test_refresh_rates_keep_every_predicate(tree: JoinTree, seed: int, freshness: float) -> None:
    problem = random_problem(random.Random(seed), tree, 1.0, freshness, is_odd=seed % 2 == 0)
    rates = {one.state: one.rate for one in refresh_rates(problem)}
    for side, load in enumerate(problem.loads):
        if load.rate:
            stay = problem.held_of[(side,)] / load.rate
            stay += sum(problem.held_of[one.own] / rates[one.own] for one in tree.path(side)[1:] if one.own in rates)
            assert stay <= load.freshness_s * (1 + 1e-9)


def test_nothing_is_refreshed_where_nothing_has_to_be() -> None:
    tree = linear_tree((0, 1, 2))
    assert refresh_rates(kept(tree, [inf, inf, 1])) == ()
    assert refresh_rates(kept(tree, [12, 12, 12], held=0.0)) == ()
    assert refresh_rates(replace(kept(tree, [15, 15, 15]), retention=Retention.WINDOW)) == ()
    assert refresh_rates(kept(linear_tree((0, 1)), [10, 10])) == ()


def test_a_silent_stream_asks_for_nothing() -> None:
    problem = kept(linear_tree((0, 1, 2)), [15, 30, inf])
    silent = replace(problem, loads=(StreamLoad(0, 15), *problem.loads[1:]))
    assert [(one.side, one.rate) for one in refresh_rates(silent)] == [(1, 5.0)]


def test_a_freshness_within_the_window_cannot_be_kept_by_a_state_of_so_many_tuples() -> None:
    found = allocate(kept(linear_tree((0, 1, 2)), [10, inf, inf]))
    assert found.unfresh == (Unfresh((0, 1), 0, inf, pytest.approx(40), Shortage.TUPLES),)
    assert not found.is_feasible


# --- covers


@pytest.mark.parametrize("seed", range(60))
def test_the_cover_is_the_least_or_within_the_logarithm_of_it(seed: int) -> None:
    chance = random.Random(seed)
    tree = random_tree(chance, chance.randint(3, 8))
    problem = random_problem(chance, tree, 1.0, chance.uniform(1.2, 5), is_odd=seed % 2 == 1)
    needs = reachable(problem)
    least = least_cost(problem, needs)
    assert least is not None
    assert cost_of(problem, least_cover(problem, needs)) == pytest.approx(least, rel=1e-6)
    greedy = cost_of(problem, greedy_cover(problem, needs))
    assert least * (1 - 1e-6) <= greedy <= least * (1 + log(max(1, len(needs)))) * (1 + 1e-6)


@given(trees(largest=7), st.integers(0, 10**6), st.floats(1.05, 6), st.floats(0, 1), st.booleans())
def test_states_are_refreshed_or_named(tree: JoinTree, seed: int, freshness: float, share: float, is_odd: bool) -> None:
    problem = random_problem(random.Random(seed), tree, share, freshness, is_odd)
    for name in ("jaqpot", "gh_wmscp"):
        found = allocate(problem, name)
        probing = {half.own: one for half, one in zip(tree.half_ways, found.flows.probing, strict=True)}
        named: dict[Sides, Unfresh] = {one.state: one for one in found.unfresh}
        for need in refresh_rates(problem):
            if need.state in named:
                assert (named[need.state].side, named[need.state].needed) == (need.side, need.rate)
                assert named[need.state].reached < need.rate
            else:
                assert probing[need.state] >= need.rate * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_a_plan_is_infeasible_only_if_no_allocation_keeps_it_fresh(seed: int) -> None:
    chance = random.Random(seed)
    problem = random_problem(chance, random_tree(chance, 5), chance.uniform(0, 0.3), chance.uniform(1.1, 3))
    needs = refresh_rates(problem)
    best = most_fresh_results(problem, needs)
    found = allocate(problem)
    assert found.is_feasible == (best is not None)
    assert best is None or found.throughput <= best * (1 + 1e-6)


def test_a_plan_without_cpu_enough_names_state_and_stream() -> None:
    """S(a b) needs 20 tuples a second: 10 probes for them, and the 20 probe c's state."""
    problem = kept(linear_tree((0, 1, 2)), [15, inf, inf])
    enough = allocate(problem.with_mu(30), "gh_wmscp")
    assert enough.is_feasible
    assert enough.freshness_mu == pytest.approx(30)
    assert enough.freshness_share == pytest.approx(1)
    short = allocate(problem.with_mu(15), "gh_wmscp")
    assert short.unfresh == (Unfresh((0, 1), 0, 20.0, pytest.approx(10), Shortage.CPU),)
    assert short.flows.spent == pytest.approx(15)


def test_one_path_refreshes_all_states_of_a_linear_tree_and_two_those_of_a_bushy_one() -> None:
    for text, paths in (("(((a b) c) d)", 1), ("((a b) (c d))", 2)):
        problem = kept(parse_tree(text, "abcd"), [40] * 4)
        assert sum(first > 0 for first in cover_states(problem).given) == paths


def test_jaqpot_without_predicates_is_grepp() -> None:
    assert allocate(two_joins()).allowances == allocate(two_joins(), "grepp").allowances


def test_a_looser_freshness_costs_less() -> None:
    tree = parse_tree("((a b) (c d))", "abcd")
    shares = [allocate(random_problem(random.Random(1), tree, 0.5, loose)).freshness_share for loose in (1.5, 3, 5)]
    assert shares[0] > shares[1] > shares[2] > 0
