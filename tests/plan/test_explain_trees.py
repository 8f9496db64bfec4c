"""EXPLAIN of trees and allocations as text, and as a picture."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from xml.etree import ElementTree

import pytest
from allocation_cases import single_join, two_joins

from headrace.plan.allocating import AllocationProblem, Retention, StreamLoad
from headrace.plan.allocators import ALLOCATORS, allocate
from headrace.plan.costs import JoinFacts
from headrace.plan.explain_trees import allocation_lines, path_lines, tree_line
from headrace.plan.tree_choice import choose_tree
from headrace.plan.tree_drawing import draw_tree
from headrace.plan.trees import parse_tree

SVG = "{http://www.w3.org/2000/svg}"


def fresh(freshness_s: float, mu: float) -> AllocationProblem:
    problem = two_joins(mu)
    return replace(problem, loads=(StreamLoad(500, freshness_s), *problem.loads[1:]))


def test_a_plan_is_told_with_its_shape_and_its_states_in_between() -> None:
    assert tree_line(parse_tree("((a b) ((c d) e))", "abcde"), "abcde") == (
        "  plan          ((a b) ((c d) e)), semi-bushy: 4 joins, 3 states in between"
    )


def test_a_chosen_plan_is_told_with_the_best_linear_one() -> None:
    edges = {(0, 1): 0.1, (1, 2): 20.0, (2, 3): 0.1}
    facts = JoinFacts((10.0,) * 4, (100.0,) * 4, edges, {}, frozenset())
    choice = choose_tree(facts)
    line = tree_line(choice.tree, "abcd", choice)
    assert line.startswith("  plan          ((a b) (c d)), bushy: 3 joins, 2 states in between; ")
    assert " accesses a second, the best linear one (((c d) b) a) " in line


def test_paths_are_told_the_most_productive_first() -> None:
    assert list(path_lines(two_joins(), "abc")) == [
        "    path b: b with S(a), then a b with S(c): 25 results for 6 probes a tuple, productivity 4.2",
        "    path a: a with S(b), then a b with S(c): 12.5 results for 3.5 probes a tuple, productivity 3.6",
        "    path c: c with S(a b): 2 results for 1 probe a tuple, productivity 2",
    ]


def test_an_allocation_is_told_by_half_way_join() -> None:
    assert list(allocation_lines(allocate(single_join()), "ab")) == [
        "  allocation    jaqpot: 300 of 1,200 units of cost a second, for 1,500 of 4,750 results a second (32%)",
        "    a with S(b)  0 of 500 probes a second",
        "    b with S(a)  300 of 700 probes a second",
    ]


def test_enough_cpu_is_told_in_a_line() -> None:
    assert list(allocation_lines(allocate(single_join(inf)), "ab")) == [
        "  allocation    jaqpot: every probe, about 4,750 results a second"
    ]


def test_refresh_rates_and_what_cannot_be_refreshed_are_told() -> None:
    """a's tuples stay 10 s in their own state: of 12 s two are left for a thousand tuples of S(a b)."""
    feasible = [line.strip() for line in allocation_lines(allocate(fresh(12, 700)), "abc")]
    assert "freshness     86% of the service rate" in feasible
    assert "S(a b) needs 500 new tuples a second, so that a is at most 12 s old" in feasible
    short = [line.strip() for line in allocation_lines(allocate(fresh(12, 300)), "abc")]
    assert (
        "infeasible: S(a b) cannot be kept fresh enough for results with a of at most 12 s: it needs 500 new tuples a "
        "second, and the CPU is enough for 250; allow a longer FRESHNESS or more CPU"
    ) in short
    never = [line.strip() for line in allocation_lines(allocate(fresh(10, 300)), "abc")]
    assert any("its tuples stay 10 s in their own state already; allow a longer FRESHNESS" in line for line in never)
    hardly = [line.strip() for line in allocation_lines(allocate(fresh(10.1, 300)), "abc")]
    assert any("all probes together make 4,750; allow a longer FRESHNESS" in line for line in hardly)


@pytest.mark.parametrize("name", [name for name in ALLOCATORS if name != "jda"])
@pytest.mark.parametrize("retention", list(Retention))
def test_an_allocation_can_be_drawn(name: str, retention: Retention) -> None:
    found = allocate(replace(fresh(12, 300), retention=retention), name)
    root = ElementTree.fromstring(draw_tree(found, ["a", "b<1>", "c & d"]))
    boxes = [one for one in root.iter(f"{SVG}rect") if one.find(f"{SVG}title") is not None]
    assert len(boxes) == 5
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert "S(a b<1>)" in texts
    assert sum(text is not None and text.endswith("probes/s") for text in texts) == 4
    assert len(list(root.iter(f"{SVG}path"))) == 4


def test_a_state_that_cannot_be_kept_fresh_is_red() -> None:
    assert "#c0392b" in draw_tree(allocate(fresh(12, 300)), "abc")
    assert "#c0392b" not in draw_tree(allocate(fresh(12, 700)), "abc")
