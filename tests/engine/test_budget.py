"""What a step's budget allows, and which turns are counted as taken beyond it."""

from __future__ import annotations

import pytest

from headrace.engine.budget import ProbeBudget


def over_limit(budget: ProbeBudget, waiting_rows: int, *, is_beyond: bool = False) -> int:
    """Turns of 40 probes and of another operator's 1, until no more may be taken; at most five."""
    for _ in range(5):
        if not budget.allows(waiting_rows, is_beyond):
            break
        budget.charge(40)
        budget.charge(1)
    return budget.over_limit


@pytest.mark.parametrize("limit", [None, 10, 60])
def test_what_a_turn_takes_beyond_the_budget_is_not_taken_because_too_much_waits(limit: int | None) -> None:
    """A join's turn may use up the budget before the operators above it have theirs."""
    assert over_limit(ProbeBudget(limit), 1000) == 0
    assert over_limit(ProbeBudget(limit, backlog_rows=1000), 1000) == 0


def test_turns_that_only_a_backlog_or_too_much_memory_allows_are_counted() -> None:
    assert over_limit(ProbeBudget(60, backlog_rows=999), 1000) == 3
    assert over_limit(ProbeBudget(60), 1000, is_beyond=True) == 3
    assert over_limit(ProbeBudget(10**6, backlog_rows=999), 1000, is_beyond=True) == 0
