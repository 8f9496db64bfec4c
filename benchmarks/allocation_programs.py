"""Allocation as linear programs for a general solver: what the allocators' results are compared with.

Owns ``most_results`` (problem 1, in rates), ``least_cost`` (problem 2, in rates) and ``most_fresh_results`` (both at
once). The first knows nothing of paths: its variables are the tuples that each half-way join probes, and its only rules
are that none probes more than comes to it, and that all together cost no more than there is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from headrace.plan.allocating import AllocationProblem
from headrace.plan.freshness import Refresh


def most_results(problem: AllocationProblem) -> float:
    """The most results a second, without freshness."""
    tree, halves = problem.tree, problem.tree.half_ways
    offers = np.eye(len(halves))
    coming = np.array([problem.loads[half.own[0]].rate if len(half.own) == 1 else 0.0 for half in halves])
    for number, half in enumerate(halves):
        for feeder in tree.feeders(half.own):
            fed_by = problem.number_of[feeder]
            offers[number, fed_by] -= problem.probes[fed_by].productivity
    costs = np.array([one.cost for one in problem.probes])
    at_root = np.array([half.join == len(tree.joins) - 1 for half in halves])
    made = np.array([one.productivity for one in problem.probes]) * at_root
    found = _solved(-made, np.vstack([offers, costs]), np.append(coming, problem.mu), [np.inf] * len(halves))
    assert found is not None
    return -found


def least_cost(problem: AllocationProblem, needs: Sequence[Refresh]) -> float | None:
    """The least that refresh rates cost a second, in whole paths; none if they cannot be reached."""
    costs = np.array([path.cost for path in problem.paths])
    return _solved(costs, *_covering(problem, needs), [load.rate for load in problem.loads])


def most_fresh_results(problem: AllocationProblem, needs: Sequence[Refresh]) -> float | None:
    """The most results a second, in whole paths, while all states are refreshed; none if they cannot be."""
    made = np.array([path.made for path in problem.paths])
    costs = np.array([path.cost for path in problem.paths])
    rules, limits = _covering(problem, needs)
    rates = [load.rate for load in problem.loads]
    found = _solved(-made, np.vstack([rules, costs]), np.append(limits, problem.mu), rates)
    return None if found is None else -found


def _covering(problem: AllocationProblem, needs: Sequence[Refresh]) -> tuple[np.ndarray, np.ndarray]:
    """Each state gets its refresh rate, as shares of it."""
    rows = [[-problem.reaching(path, one.state) / one.rate for path in problem.paths] for one in needs]
    return np.array(rows).reshape(len(needs), len(problem.paths)), np.full(len(needs), -1.0)


def _solved(objective: np.ndarray, rules: np.ndarray, limits: np.ndarray, most: Sequence[float]) -> float | None:
    """The least of an objective. Costs and results are scaled to about 1: numbers of very different sizes mislead."""
    scale = float(np.abs(objective).max()) or 1.0
    norms = np.maximum(np.abs(rules).max(axis=1, initial=0.0), 1e-300)
    bounds = [(0.0, None if one == np.inf else one) for one in most]
    found = linprog(objective / scale, A_ub=rules / norms[:, None], b_ub=limits / norms, bounds=bounds)
    return float(found.fun) * scale if found.success else None
