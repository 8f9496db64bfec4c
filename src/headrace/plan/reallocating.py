"""When an allocation is worth working out again (paper 001, section 4.4: run-time adaptation).

    then  rate of a 500/s    1,000 kept in S(a b)    2.5 results for a probe     ->  allowances in use
    now   rate of a 700/s    1,020 kept              2.4                             a's rate moved by 40%: again

Rates that waver must not make allowances waver: an allocation stays until a fact has moved by more than a share, the
threshold, from what it was worked out with; not from what it was a micro-batch ago, so slow changes count too.

Owns ``reason_to_reallocate`` and what is too small to count. Cost: linear in the sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, isclose, log

from headrace.plan.allocating import AllocationProblem, Retention, StreamLoad
from headrace.plan.switching import Change
from headrace.plan.trees import half_text, state_text

THRESHOLD = 0.2
"""The share by which a fact has to move."""
LEAST_RATE = 0.01
"""Of the rates of all streams together: a stream with less may do as it likes."""
LEAST_PRODUCTIVITY = 0.001
"""Results of a probe: fewer are none."""


def reason_to_reallocate(
    then: AllocationProblem, now: AllocationProblem, names: Sequence[str], threshold: float = THRESHOLD
) -> str | None:
    """Why an allocation that was worked out for ``then`` should be worked out again; none if it should not."""
    if then.tree != now.tree:
        return f"the plan is {now.tree.text(names)} instead of {then.tree.text(names)}"
    for name, old, new in zip(names, then.loads, now.loads, strict=True):
        if _is_another(old, new):
            return f"the freshness of {name} is another"
    if inf in (then.mu, now.mu) and then.mu != now.mu:
        return "the service rate is limited" if then.mu == inf else "the service rate is not limited any more"
    change = main_move(then, now, names, threshold)
    return None if change is None else str(change)


def _is_another(old: StreamLoad, new: StreamLoad) -> bool:
    """Whether a freshness is another one: neither the same time nor, at its stream's rate, the same number of rows."""
    if old.freshness_s == new.freshness_s:
        return False
    if inf in (old.freshness_s, new.freshness_s):
        return bool(old.rate and new.rate)
    rows = (old.rate * old.freshness_s, new.rate * new.freshness_s)
    return not (all(rows) and isclose(*rows))


def main_move(
    then: AllocationProblem, now: AllocationProblem, names: Sequence[str], threshold: float = THRESHOLD
) -> Change | None:
    """What moved the most, of what is measured, if that is by more than the threshold; of one tree then and now."""
    moved = [one for one in _moves(then, now, names) if one.weight > log(1 + threshold)]
    return max(moved, key=lambda one: one.weight, default=None)


def _moves(then: AllocationProblem, now: AllocationProblem, names: Sequence[str]) -> Iterator[Change]:
    yield Change("the service rate", then.mu, now.mu, "/s")
    least = LEAST_RATE * sum(load.rate for load in then.loads)
    for name, old, new in zip(names, then.loads, now.loads, strict=True):
        yield Change(f"{name}'s rate", max(old.rate, least), max(new.rate, least), "/s")
    for half, before, after in zip(then.tree.half_ways, then.probes, now.probes, strict=True):
        text = half_text(half, names)
        found, finds = (max(one.productivity, LEAST_PRODUCTIVITY) for one in (before, after))
        yield Change(f"the results of a probe of {text}", found, finds)
        yield Change(f"the cost of a probe of {text}", before.cost, after.cost)
    if Retention.COUNT in (then.retention, now.retention):
        for state, kept, keeps in zip(then.tree.states, then.held, now.held, strict=True):
            yield Change(f"the size of {state_text(state, names)}", max(kept, 1.0), max(keeps, 1.0), " tuples")
