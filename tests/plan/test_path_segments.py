"""Segments of paths: how they are cut and pruned, and that queries come and go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.opgraph import OperatorName
from headrace.plan.path_segments import (
    PathSegment,
    SegmentList,
    full_segments,
    is_within,
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
        assert SegmentList().with_segments(order).segments == ((A, B, C),)


def test_counts_tell_who_needs_an_operator_of_a_segment() -> None:
    both = SegmentList().with_segments([(A, B, C)]).with_segments([(A, B)])
    assert both.counts((A, B, C)) == (2, 2, 1)
    assert both.without_segments([(A, B, C)]).segments == ((A, B),)
    assert both.without_segments([(A, B)]).counts((A, B, C)) == (1, 1, 1)


SEGMENTS = st.lists(
    st.sets(st.sampled_from("ABCDE"), min_size=1).map(lambda names: tuple(map(OperatorName, sorted(names))))
)
"""In the order of the graph, as all segments are."""


@given(SEGMENTS, SEGMENTS)
def test_what_is_left_when_a_query_goes_is_as_if_it_had_never_come(
    mine: list[PathSegment], theirs: list[PathSegment]
) -> None:
    both = SegmentList().with_segments(mine).with_segments(theirs)
    assert set(both.without_segments(theirs).segments) == set(SegmentList().with_segments(mine).segments)
    assert not any(is_within(one, other) for one in both.segments for other in both.segments if set(one) < set(other))
    assert {name for one in both.segments for name in one} == {name for one in (*mine, *theirs) for name in one}
