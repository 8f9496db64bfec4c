"""Keeping all states in between fresh for little: the weighted multiple set cover of paper 001, section 4.3.

    ((a b) ((c d) e))            path a    S(a b)                        each state needs its refresh rate; a tuple of
                                 path c    S(c d)  S(c d e)              a path counts in each state that it reaches, as
                                 path e            S(c d e)              many times as it makes tuples there

Greedy (GH-WMSCP): always the path that covers the most for its cost, of what is not covered yet, a refresh rate
counting as 1; until a state is covered or the stream has no more tuples; then again. Last, what later choices made
needless is taken back. The greedy cover costs at most 1 + ln m times the least for m states.

The paper's problem is hard because sets may be any and multiples are whole. Here multiples are rates, and the states of
a tree lie within one another: which of a state's streams reaches it for least is also the one that reaches all states
above it for least. So buying for the lowest states first, always from the cheapest stream, is the least cover
(``least_cover``). It is asked before a plan is called infeasible, and is what tests measure the greedy one by.

Owns both covers and ``cover_states``. A path is always paid for up to the root: what refreshes a state makes results.
Cost: every round covers a state or uses up a stream, and looks once at each path: quadratic in the sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from headrace.plan.allocating import NEARLY, AllocationProblem, Shortage, Unfresh
from headrace.plan.freshness import Refresh, refresh_rates


@dataclass(frozen=True, slots=True)
class Cover:
    """Tuples a second of each side for refresh rates, what they cost a second, and the states that are not covered."""

    given: tuple[float, ...]
    spent: float
    unfresh: tuple[Unfresh, ...]


def cover_states(problem: AllocationProblem) -> Cover:
    """A cover for at most the problem's mu: what is too much for it is covered as far as it goes."""
    needs = refresh_rates(problem)
    reachable = [problem.full_of[one.state] * (1 + NEARLY) for one in needs]
    within = [one for one, most in zip(needs, reachable, strict=True) if one.rate <= most]
    beyond = tuple(
        Unfresh(one.state, one.side, one.rate, most, Shortage.TUPLES)
        for one, most in zip(needs, reachable, strict=True)
        if one.rate > most
    )
    given = greedy_cover(problem, within)
    if cost_of(problem, given) > problem.mu:
        given = least_cover(problem, within)
    if cost_of(problem, given) <= problem.mu * (1 + NEARLY):
        return Cover(given, min(problem.mu, cost_of(problem, given)), beyond)
    partial = _Greedy(problem, within, problem.mu)
    partial.run()
    return Cover(tuple(partial.given), cost_of(problem, partial.given), (*beyond, *partial.missed()))


def greedy_cover(problem: AllocationProblem, needs: Sequence[Refresh]) -> tuple[float, ...]:
    """GH-WMSCP: tuples a second of each side, whatever they cost."""
    cover = _Greedy(problem, needs, inf)
    cover.run()
    cover.give_back()
    return tuple(cover.given)


def least_cover(problem: AllocationProblem, needs: Sequence[Refresh]) -> tuple[float, ...]:
    """The cheapest tuples a second of each side: for each state, from the leaves up, what is missing from the
    cheapest."""
    given = [0.0] * len(problem.paths)
    for one in needs:
        reaching = {side: problem.reaching(problem.paths[side], one.state) for side in one.state}
        missing = one.rate - sum(given[side] * each for side, each in reaching.items())
        useful = [side for side, each in reaching.items() if each]
        for side in sorted(useful, key=lambda side: problem.paths[side].cost / reaching[side]):
            more = max(0.0, min(missing / reaching[side], problem.loads[side].rate - given[side]))
            given[side] += more
            missing -= more * reaching[side]
    return tuple(given)


def cost_of(problem: AllocationProblem, given: Sequence[float]) -> float:
    """Units of cost a second for so many tuples a second of each side, up to the root."""
    return sum(first * path.cost for first, path in zip(given, problem.paths, strict=True))


class _Greedy:
    """The cover while it grows. ``counts[side]`` has (state, share of its refresh rate that one tuple covers)."""

    def __init__(self, problem: AllocationProblem, needs: Sequence[Refresh], mu: float) -> None:
        self._problem = problem
        self._needs = needs
        number_of = {one.state: number for number, one in enumerate(needs)}
        self._counts = [
            [
                (number_of[state], each / needs[number_of[state]].rate)
                for half, each in zip(path.halves, path.arriving, strict=True)
                if (state := problem.tree.half_ways[half].own) in number_of and each
            ]
            for path in problem.paths
        ]
        self._worth = [sum(share for _, share in counts) for counts in self._counts]
        self._missing = [1.0] * len(needs)
        self._left = [load.rate for load in problem.loads]
        self._mu = mu
        self.given = [0.0] * len(problem.paths)
        self._turns: list[int] = []

    def run(self) -> None:
        while any(self._missing) and self._mu > 0:
            side = max(self._problem.tree.sides, key=lambda one: (self._gain(one), -one))
            if not self._gain(side):
                break
            self._take(side)

    def missed(self) -> list[Unfresh]:
        return [
            Unfresh(one.state, one.side, one.rate, one.rate * (1 - missing), Shortage.CPU)
            for one, missing in zip(self._needs, self._missing, strict=True)
            if missing
        ]

    def _gain(self, side: int) -> float:
        """What is covered for a unit of cost."""
        return self._worth[side] / self._problem.paths[side].cost if self._left[side] else 0.0

    def _take(self, side: int) -> None:
        """Tuples of a side until the first state is covered, or there are no more."""
        open_states = [(number, share) for number, share in self._counts[side] if self._missing[number]]
        cost = self._problem.paths[side].cost
        until = min(self._missing[number] / share for number, share in open_states)
        first = min(until, self._left[side], self._mu / cost)
        self._left[side] = 0.0 if first == self._left[side] else self._left[side] - first
        self._mu = 0.0 if first == self._mu / cost else self._mu - first * cost
        self.given[side] += first
        self._turns.append(side)
        for number, share in open_states:
            self._missing[number] -= first * share
            if self._missing[number] <= NEARLY:
                self._missing[number] = 0.0
                self._close(number)

    def _close(self, number: int) -> None:
        """A state is covered: it is worth nothing to any path from now on."""
        for side in self._needs[number].state:
            self._worth[side] = sum(share for one, share in self._counts[side] if self._missing[one])

    def give_back(self) -> None:
        """Takes back what later choices made needless, the last first."""
        covered = [0.0] * len(self._needs)
        for side, first in enumerate(self.given):
            for number, share in self._counts[side]:
                covered[number] += first * share
        for side in dict.fromkeys(reversed(self._turns)):
            spare = min((covered[number] - 1) / share for number, share in self._counts[side])
            back = min(self.given[side], max(0.0, spare))
            self.given[side] -= back
            for number, share in self._counts[side]:
                covered[number] -= back * share
