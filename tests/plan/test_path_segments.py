"""Segments of paths: how they are cut and pruned."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.model import QueryId
from headrace.plan.opgraph import OperatorGraph, OperatorKind, OperatorName, OperatorNode
from headrace.plan.path_segments import (
    PathSegment,
    full_segments,
    is_within,
    pruned,
    segments_of,
    simplified_segments,
)

A, B, C, D, E = (OperatorName(name) for name in "ABCDE")
RELEASE = {A: 4.0, B: 6.0, C: 5.0, D: 1.0, E: -2.0}


def test_a_segment_goes_on_while_more_is_freed() -> None:
    assert full_segments((A, B, C, D, E), RELEASE) == [(A, B), (C,), (D,), (E,)]
    assert full_segments((E, D, C, B), RELEASE) == [(E, D, C, B)]


def test_simplified_segments_are_at_most_two() -> None:
    assert simplified_segments((A, B, C, D, E), RELEASE) == [(A, B, C), (D, E)]
    assert simplified_segments((A, B, C, D, E), RELEASE, gamma=1) == [(A, B), (C, D, E)]
    assert simplified_segments((A, B), RELEASE) == [(A, B)]
    assert simplified_segments((E, D), RELEASE) == [(E, D)]


def test_a_segment_within_another_is_pruned_whichever_came_first() -> None:
    for order in ([(A, B), (A, B, C)], [(A, B, C), (A, B)]):
        assert list(pruned(order)) == [(A, B, C)]


SEGMENTS = st.lists(
    st.sets(st.sampled_from("ABCDE"), min_size=1).map(lambda names: tuple(map(OperatorName, sorted(names))))
)
"""In the order of the graph, as all segments are."""


@given(SEGMENTS, SEGMENTS)
def test_pruned_segments_have_every_operator_and_none_lies_within_another(
    mine: list[PathSegment], theirs: list[PathSegment]
) -> None:
    both = list(pruned([*mine, *theirs]))
    assert len(both) == len(set(both))
    assert set(both) == set(pruned([*theirs, *mine]))
    assert not any(is_within(one, other) for one in both for other in both if one != other)
    assert {name for one in both for name in one} == {name for one in (*mine, *theirs) for name in one}


def test_a_segment_that_another_querys_hid_is_there_again_when_that_query_is_gone() -> None:
    below = OperatorNode(A, OperatorKind.SELECT, "", ("s",))
    middle = OperatorNode(B, OperatorKind.PROJECT, "", (A,), (QueryId("q"),))
    above = OperatorNode(C, OperatorKind.SELECT, "", (B,), (QueryId("r"),))
    rising = {A: 1.0, B: 2.0, C: 3.0}
    assert segments_of(OperatorGraph((below, middle, above)), rising) == ((A, B, C),)
    assert segments_of(OperatorGraph((below, middle)), rising) == ((A, B),)
