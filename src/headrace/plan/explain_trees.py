"""EXPLAIN of a tree of joins and its allocation, as text.

      plan          ((a b) c), linear: 2 joins, 1 state in between
        path a: a with S(b), then a b with S(c): 12.5 results for 3.5 probes a tuple, productivity 3.6
      allocation    jaqpot: 300 of 7,050 units of cost a second, for 1,250 of 24,550 results a second (5%)
        b with S(a)  50 of 700 probes a second
      freshness     12% of the service rate
        S(a b) needs 40 new tuples a second, so that a is at most 15 s old
        infeasible: S(a b) cannot be kept fresh enough for ...

Owns the lines; what is in them is worked out by others. Cost: linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from headrace.plan.allocating import Allocation, AllocationProblem, InputPath, Retention, Shortage, Unfresh
from headrace.plan.freshness import Refresh, refresh_rates
from headrace.plan.switching import number
from headrace.plan.tree_choice import TreeChoice
from headrace.plan.trees import JoinTree, half_text, state_text


def tree_line(tree: JoinTree, names: Sequence[str], choice: TreeChoice | None = None) -> str:
    """The plan; and, where it was chosen by cost, what it and the best linear one cost."""
    between = len(tree.susceptible)
    counted = f"{_counted(len(tree.joins), 'join')}, {_counted(between, 'state')} in between"
    text = f"  plan          {tree.text(names)}, {tree.shape.value}: {counted}"
    if choice is None or choice.tree != tree:
        return text
    text = f"{text}; {number(choice.cost)} accesses a second"
    if choice.linear == tree:
        return text
    return f"{text}, the best linear one {choice.linear.text(names)} {number(choice.linear_cost)}"


def path_lines(problem: AllocationProblem, names: Sequence[str]) -> Iterator[str]:
    """Path productivities, the most productive first."""
    for path in sorted(problem.paths, key=lambda one: (-one.productivity, one.side)):
        yield f"    path {names[path.side]}: {_path_text(problem, path, names)}"


def _path_text(problem: AllocationProblem, path: InputPath, names: Sequence[str]) -> str:
    steps = ", then ".join(half_text(problem.tree.half_ways[one], names) for one in path.halves)
    unit = "probe" if all(one.cost == 1 for one in problem.probes) else "unit of cost"
    several = unit if path.cost == 1 else unit.replace("probe", "probes").replace("unit", "units")
    told = f"{number(path.made)} results for {number(path.cost)} {several}"
    return f"{steps}: {told} a tuple, productivity {number(path.productivity)}"


def allocation_lines(found: Allocation, names: Sequence[str]) -> Iterator[str]:
    """What is allowed, for what, and what cannot be."""
    problem, flows = found.problem, found.flows
    if found.is_unlimited:
        yield f"  allocation    {found.allocator}: every probe, about {number(flows.throughput)} results a second"
    else:
        yield f"  allocation    {found.allocator}: {_totals_text(found)}"
        halves = [half_text(half, names) for half in problem.tree.half_ways]
        width = max(map(len, halves))
        for text, allowed, offered in zip(halves, flows.probing, flows.offered, strict=True):
            yield f"    {text:<{width}}  {number(allowed)} of {number(offered)} probes a second"
    yield from freshness_lines(found, names)


def _totals_text(found: Allocation) -> str:
    problem, flows = found.problem, found.flows
    made = f"{number(flows.throughput)} of {number(problem.saturation.throughput)} results a second"
    spent = f"{number(flows.spent)} of {number(problem.saturation.spent)} units of cost a second"
    return f"{spent}, for {made} ({found.of_saturation:.0%})"


def freshness_lines(found: Allocation, names: Sequence[str]) -> Iterator[str]:
    needs = refresh_rates(found.problem)
    if found.problem.retention is Retention.COUNT and needs:
        share = f"{found.freshness_share:.0%} of the service rate" if found.freshness_mu else "nothing spent for it"
        yield f"  freshness     {share}"
        for one in needs:
            yield f"    {_refresh_text(found.problem, one, names)}"
    for missed in found.unfresh:
        yield f"    infeasible: {unfresh_text(found.problem, missed, names)}"


def _refresh_text(problem: AllocationProblem, one: Refresh, names: Sequence[str]) -> str:
    fresh = f"{names[one.side]} is at most {number(problem.loads[one.side].freshness_s)} s old"
    if one.rate == inf:
        return f"{state_text(one.state, names)} cannot be refreshed fast enough so that {fresh}"
    return f"{state_text(one.state, names)} needs {number(one.rate)} new tuples a second, so that {fresh}"


def unfresh_text(problem: AllocationProblem, one: Unfresh, names: Sequence[str]) -> str:
    """Which state cannot be kept fresh for which stream, why, and what would help."""
    load = problem.loads[one.side]
    text = (
        f"{state_text(one.state, names)} cannot be kept fresh enough for results with {names[one.side]} of at most "
        f"{number(load.freshness_s)} s"
    )
    if one.needed == inf:
        own_s = problem.held_of[(one.side,)] / load.rate
        return f"{text}: its tuples stay {number(own_s)} s in their own state already; allow a longer FRESHNESS"
    needs = f"{text}: it needs {number(one.needed)} new tuples a second"
    if one.lacks is Shortage.TUPLES:
        return f"{needs}, and all probes together make {number(one.reached)}; allow a longer FRESHNESS"
    return f"{needs}, and the CPU is enough for {number(one.reached)}; allow a longer FRESHNESS or more CPU"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
