"""The equations of paper 003, and the lower envelope."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PlanError
from headrace.model import QueryId
from headrace.plan.capacities import (
    OperatorFacts,
    assumed_facts,
    envelope_slopes,
    path_capacity,
    path_release,
    processing_capacity,
    progress_chart,
    release_capacity,
    segment_capacity,
    segment_release,
    work_upward_s,
)
from headrace.plan.opgraph import OperatorGraph, OperatorKind, OperatorName, OperatorNode

FACTS = st.builds(OperatorFacts, st.floats(0.01, 100), st.floats(0, 1.5), st.floats(1, 200), st.floats(1, 200))
PATHS = st.lists(FACTS, min_size=1, max_size=6)
THREE = [OperatorFacts(1, 0.5, 10, 8), OperatorFacts(2, 0.2, 8, 6), OperatorFacts(4, 0.9, 6, 5)]


def test_an_operator_frees_what_goes_in_less_what_comes_out() -> None:
    assert processing_capacity(THREE[1]) == 0.5
    assert release_capacity(THREE[1]) == pytest.approx(0.5 * (8 - 0.2 * 6))
    assert release_capacity(THREE[1], is_last=True) == pytest.approx(0.5 * 8)


def test_a_path_takes_the_service_times_of_what_is_left() -> None:
    assert path_capacity(THREE) == pytest.approx(1 / (1 + 0.5 * 2 + 0.5 * 0.2 * 4))
    assert path_release(THREE) == pytest.approx(10 / 2.4)


def test_a_segment_keeps_its_output_unless_it_is_the_last() -> None:
    assert segment_capacity(THREE[:2]) == pytest.approx(1 / 2)
    assert segment_release(THREE[:2], is_last=False) == pytest.approx(0.5 * (10 - 6 * 0.5 * 0.2))
    assert segment_release(THREE[:2], is_last=True) == pytest.approx(0.5 * 10)


def test_what_waits_takes_the_time_of_all_that_read_what_comes_of_it() -> None:
    first, quick, slow = (OperatorName(name) for name in ("first", "quick", "slow"))
    graph = OperatorGraph(
        (
            OperatorNode(first, OperatorKind.SELECT, "", ("a",)),
            OperatorNode(quick, OperatorKind.PROJECT, "", (first,), (QueryId("q"),)),
            OperatorNode(slow, OperatorKind.PROJECT, "", (first,), (QueryId("r"),)),
        )
    )
    facts = dict(zip(graph.names, THREE, strict=True))
    assert work_upward_s(graph, facts) == {first: 1 + 0.5 * (2 + 4), quick: 2, slow: 4}


def test_what_was_not_measured_is_taken_to_be_like_the_others_of_its_kind() -> None:
    join, one, other, third = (OperatorName(name) for name in ("join", "one", "other", "third"))
    readers = [OperatorNode(name, OperatorKind.PROJECT, "", (join,), (QueryId(name),)) for name in (one, other, third)]
    graph = OperatorGraph((OperatorNode(join, OperatorKind.JOIN, "", ("a",)), *readers))
    unknown = dict.fromkeys(OperatorKind, OperatorFacts(9, 1, 100, 100))
    measured = {join: OperatorFacts(5, 3, 24, 40), one: OperatorFacts(1, 0.5, 16, 8, taken=3)}
    guessed = assumed_facts(graph, measured, unknown)
    assert {name: guessed[name] for name in measured} == measured
    assert guessed[other] == OperatorFacts(1, 0.5, 40, 8)
    both = {**measured, other: OperatorFacts(3, 1, 16, 16, taken=1)}
    assert assumed_facts(graph, both, unknown)[third] == OperatorFacts(2, 0.75, 40, 12)
    assert assumed_facts(graph, {join: measured[join]}, unknown)[third] == OperatorFacts(9, 1, 40, 100)
    assert assumed_facts(graph, {}, unknown)[join] == unknown[OperatorKind.JOIN]


def test_an_operator_takes_time() -> None:
    with pytest.raises(PlanError, match="cannot be"):
        OperatorFacts(0, 0.5)


def test_a_path_takes_what_goes_up_it_and_what_goes_elsewhere_stays() -> None:
    join = OperatorFacts(1, 3, 10, 8, copies=4 / 3)
    few, many = OperatorFacts(2, 1, 8, 8, taken=1), OperatorFacts(2, 1, 8, 8, taken=3)
    assert path_capacity([join, few]) == 1 / (1 + 1 * 2)
    assert path_capacity([join, many]) == 1 / (1 + 3 * 2)
    assert release_capacity(join) == 10 - 4 * 8
    assert path_release([join, few]) == pytest.approx((10 - 3 * 8) / 3)
    assert path_release([join, many]) == pytest.approx((10 - 1 * 8) / 7)
    assert progress_chart([join, few]) == [(0, 10), (1, 32), (3, 24)]


@given(PATHS)
def test_one_operator_is_a_segment_of_one(path: list[OperatorFacts]) -> None:
    assert segment_capacity(path[:1]) == pytest.approx(processing_capacity(path[0]))
    assert segment_capacity(path) <= segment_capacity(path[:1]) * (1 + 1e-9)


@given(PATHS)
def test_the_envelope_never_gets_steeper_and_lies_below_the_chart(path: list[OperatorFacts]) -> None:
    chart = progress_chart(path)
    slopes = envelope_slopes(chart)
    assert len(slopes) == len(path)
    assert slopes == sorted(slopes, reverse=True) or slopes == pytest.approx(sorted(slopes, reverse=True))
    size = chart[0][1]
    for slope, (before, _), (after, there) in zip(slopes, chart, chart[1:], strict=False):
        size -= slope * (after - before)
        assert size <= there + 1e-6 * max(1.0, abs(there), chart[0][1])
