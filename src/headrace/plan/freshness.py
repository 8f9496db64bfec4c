"""Refresh rates: how many new tuples a second keep the states in between fresh enough (paper 001, section 4.3).

    stream c      |--- S(c): size / rate ---|--- S(c d): size / refresh rate ---|--- S(c d e) ---|
                  0                                                                              F of stream c

A tuple of a stream stays in its own state, and in each state in between that its composites are kept in; together not
longer than the stream's freshness predicate F (lemma 1). What a stream leaves after its own state is its *slack*, and
is divided among the states on its path. The shortest stay that any stream asks of a state gives its refresh rate.

That is so where states keep a number of tuples. Where composites leave with the window of the first of their parts,
nothing in a state is ever older than the windows (or than F, where that is shorter: the engine lets go by it), and no
refresh rate is needed: see ``Retention``.

Owns ``refresh_rates``. A stream's slack is divided in proportion to the square roots of sizes, by which a single path
needs the fewest tuples; what one stream then does not use, because another asks for less, goes to the other states.
Cost: quadratic in the sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, sqrt

from headrace.plan.allocating import AllocationProblem, Retention
from headrace.plan.trees import Sides


@dataclass(frozen=True, slots=True)
class Refresh:
    """New tuples a second that a susceptible state needs (infinite: it cannot be kept fresh), the longest stay in it
    that is then left to a tuple, and the side that asks for it."""

    state: Sides
    rate: float
    stay_s: float
    side: int


def refresh_rates(problem: AllocationProblem) -> tuple[Refresh, ...]:
    """For each susceptible state that has to be refreshed at all, from the leaves up."""
    if problem.retention is Retention.WINDOW:
        return ()
    slack = [slack_of(problem, side) for side in problem.tree.sides]
    found = [_refresh(problem, *one) for one in _widened(problem, slack, _divided(problem, slack))]
    return tuple(one for one in reversed(found) if one.rate > 0)


def slack_of(problem: AllocationProblem, side: int) -> float:
    """How long a side's tuples may stay in the states in between, all together. A stream of which nothing comes asks
    for nothing: it has no new tuples that a state could be refreshed with, and the old ones are let go by their age."""
    load = problem.loads[side]
    return load.freshness_s - problem.held_of[(side,)] / load.rate if load.rate else inf


def _divided(problem: AllocationProblem, slack: list[float]) -> dict[Sides, float]:
    """By state: the shortest of the stays that the streams through it ask for."""
    stays = dict.fromkeys(problem.tree.susceptible, inf)
    for side in problem.tree.sides:
        own = _own_states(problem, side)
        whole = sum(sqrt(problem.held_of[state]) for state in own)
        for state in own:
            share = slack[side] * (sqrt(problem.held_of[state]) / whole)
            stays[state] = min(stays[state], max(0.0, share))
    return stays


def _widened(
    problem: AllocationProblem, slack: list[float], stays: dict[Sides, float]
) -> Iterator[tuple[Sides, float, int]]:
    """Gives each state, from the root down, what all streams through it have left; with the side that has least."""
    left = [
        inf if slack[side] == inf else slack[side] - sum(stays[own] for own in _own_states(problem, side))
        for side in problem.tree.sides
    ]
    for state in reversed(problem.tree.susceptible):
        more, side = min((left[side], side) for side in state)
        if problem.held_of[state] and 0 < more < inf:
            stays[state] += more
            for one in state:
                left[one] -= more
        yield state, stays[state], side


def _own_states(problem: AllocationProblem, side: int) -> list[Sides]:
    """The states in between that a side's tuples are kept in; they spend no time in one that keeps none."""
    return [half.own for half in problem.tree.path(side)[1:] if problem.held_of[half.own]]


def _refresh(problem: AllocationProblem, state: Sides, stay_s: float, side: int) -> Refresh:
    size = problem.held_of[state]
    rate = 0.0 if not size or stay_s == inf else size / stay_s if stay_s else inf
    return Refresh(state, rate, stay_s, side)
