"""The policies' choices: paper 000's matrix, the turns each policy takes, and that results stay in order under any."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.policy import (
    POLICIES,
    JoinPolicy,
    LargestWindowOnly,
    MaximumQueryThroughput,
    ScanLevel,
    SmallestWindowFirst,
    Turn,
    max_query_throughput,
)

PAPER = (ScanLevel(2, 1), ScanLevel(3, 1), ScanLevel(6, 1))
"""Figure 4: windows of 2w, 3w and 6w, one query each."""


def turns(policy: JoinPolicy, completed: Sequence[int], windows: int = 3) -> list[tuple[int, int]]:
    """The turns until nothing waits, as (block, windows done after it); blocks are numbered from the oldest."""
    waiting = list(enumerate(completed))
    taken = []
    while waiting:
        turn = policy.next_turn([done for _, done in waiting])
        block, _ = waiting[turn.position]
        taken.append((block, turn.upto))
        waiting[turn.position] = (block, turn.upto)
        waiting = [(one, done) for one, done in waiting if done < windows]
    return taken


# --- MaxQT


def test_the_matrix_is_the_papers() -> None:
    """Figure 4's MaxQT(wi, wj) times w: rows i = 0, w1, w2; columns j = w1, w2, w3."""
    rates = [[rate for rate, _ in row[1:]] for row in max_query_throughput(PAPER)[:3]]
    assert rates == [
        pytest.approx([1 / 2, 2 / 3, 2 / 3]),
        pytest.approx([0, 1 / 1, 1 / 1]),
        pytest.approx([0, 0, 1 / 3]),
    ]


def test_the_matrix_says_for_which_window_a_rate_is() -> None:
    assert [[upto for _, upto in row[1:]] for row in max_query_throughput(PAPER)[:3]] == [
        [1, 2, 2],
        [1, 2, 2],
        [2, 2, 3],
    ]


def test_the_number_of_queries_with_a_window_counts() -> None:
    """With ten queries on the largest window, going straight to it serves the most: 12 queries in 6w."""
    crowded = (ScanLevel(2, 1), ScanLevel(3, 1), ScanLevel(6, 10))
    assert max_query_throughput(crowded)[0][3] == (pytest.approx(12 / 6), 3)
    assert max_query_throughput(crowded)[0][2] == (pytest.approx(2 / 3), 2)
    assert MaximumQueryThroughput(crowded).next_turn([0, 0]) == Turn(0, 3)
    assert MaximumQueryThroughput(PAPER).next_turn([0, 0]) == Turn(0, 2)


def test_of_equal_rates_the_larger_window_is_taken() -> None:
    assert max_query_throughput([ScanLevel(2, 1), ScanLevel(4, 1)])[0][2] == (0.5, 2)


def test_a_window_of_size_zero_has_a_rate_too() -> None:
    assert max_query_throughput([ScanLevel(0, 1), ScanLevel(10, 1)])[0][2] == (1.0, 1)


@given(
    steps=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9)), min_size=1, max_size=6),
    data=st.data(),
)
def test_each_entry_is_the_best_partial_window(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    """MaxQT(PW(wi, wj)) = max of (Ck - Ci) / (wk - wi) for i < k <= j, by definition."""
    ends, counts = [0], [0]
    for more, queries in steps:
        ends.append(ends[-1] + more)
        counts.append(counts[-1] + queries)
    matrix = max_query_throughput([ScanLevel(end, queries) for end, (_, queries) in zip(ends[1:], steps, strict=True)])
    i = data.draw(st.integers(0, len(steps) - 1))
    j = data.draw(st.integers(i + 1, len(steps)))
    rates = {k: (counts[k] - counts[i]) / (ends[k] - ends[i]) for k in range(i + 1, j + 1)}
    rate, upto = matrix[i][j]
    assert rate == max(rates.values()) == rates[upto]
    assert all(other < rate for k, other in rates.items() if k > upto)


# --- turns


def test_lwo_takes_the_oldest_block_through_all_windows() -> None:
    assert turns(LargestWindowOnly(PAPER), [0, 0, 0]) == [(0, 3), (1, 3), (2, 3)]
    assert turns(LargestWindowOnly(PAPER), [2, 1, 0]) == [(0, 3), (1, 3), (2, 3)]


def test_swf_takes_every_block_through_a_window_before_any_through_the_next() -> None:
    assert turns(SmallestWindowFirst(PAPER), [0, 0]) == [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3)]


def test_swf_serves_a_new_block_before_suspended_ones() -> None:
    assert SmallestWindowFirst(PAPER).next_turn([2, 1, 1, 0]) == Turn(3, 1)
    assert SmallestWindowFirst(PAPER).next_turn([2, 1, 1]) == Turn(1, 2)
    assert SmallestWindowFirst(PAPER).next_turn([2, 2]) == Turn(0, 3)


def test_mqt_takes_the_papers_turns() -> None:
    """Figure 4: a11 goes on to w2 before b12 starts, b12 is served up to w2, then a11 and b12 finish w3."""
    assert turns(MaximumQueryThroughput(PAPER), [0, 0]) == [(0, 2), (1, 2), (0, 3), (1, 3)]


def test_mqt_goes_on_with_an_old_block_whose_next_window_serves_more_in_less() -> None:
    """a11 at w1 and b12 new: MaxQT(w1, w3) = 1/w beats MaxQT(0, w1) = 1/2w."""
    assert MaximumQueryThroughput(PAPER).next_turn([1, 0]) == Turn(0, 2)


def test_mqt_goes_no_further_than_the_older_block_has_come() -> None:
    """The newer block would rather go up to w2 (2/3w), but an older one has done w1 only, and w3 - w1 is far."""
    levels = (ScanLevel(2, 1), ScanLevel(30, 29), ScanLevel(60, 1))
    assert MaximumQueryThroughput(levels).next_turn([2, 0]) == Turn(1, 2)
    far = (ScanLevel(2, 4), ScanLevel(60, 1))
    assert MaximumQueryThroughput(far).next_turn([1, 0]) == Turn(1, 1)


def test_a_single_window_leaves_nothing_to_choose() -> None:
    for policy in POLICIES.values():
        assert turns(policy([ScanLevel(5, 3)]), [0, 0, 0], windows=1) == [(0, 1), (1, 1), (2, 1)]


# --- any arrivals


@st.composite
def levels(draw: st.DrawFn) -> list[ScanLevel]:
    """Windows from the smallest; of those that differ from side to side, one may be done when the one before it is."""
    size, found = draw(st.integers(0, 5)), []
    for more in draw(st.lists(st.sampled_from((0, 1, 2, 7, 100)), min_size=1, max_size=6)):
        found.append(ScanLevel(size, draw(st.integers(0, 4))))
        size += more
    return found


@pytest.mark.parametrize("name", POLICIES)
@given(levels=levels(), arriving=st.lists(st.integers(0, 3), max_size=8))
def test_older_blocks_have_always_done_at_least_what_newer_ones_have(
    name: str, levels: list[ScanLevel], arriving: list[int]
) -> None:
    """So results can come out in order; and every turn does something, so that all blocks end."""
    policy, windows = POLICIES[name](levels), len(levels)
    waiting: list[int] = []
    for new in [*arriving, *[0] * sum(arriving) * windows]:
        waiting += [0] * new
        if waiting:
            turn = policy.next_turn(waiting)
            assert waiting[turn.position] < turn.upto <= windows
            waiting[turn.position] = turn.upto
            assert waiting == sorted(waiting, reverse=True)
            waiting = [done for done in waiting if done < windows]
    assert waiting == []


@pytest.mark.parametrize("name", POLICIES)
@given(levels=levels(), data=st.data())
def test_a_choice_follows_from_the_windows_and_the_queues_alone(
    name: str, levels: list[ScanLevel], data: st.DataObject
) -> None:
    """A policy remembers nothing from turn to turn: one made anew after a restart chooses the same."""
    queues = st.lists(st.integers(0, len(levels) - 1), min_size=1, max_size=6)
    policy = POLICIES[name](levels)
    for _ in range(3):
        completed = sorted(data.draw(queues), reverse=True)
        assert policy.next_turn(completed) == POLICIES[name](levels).next_turn(completed)
