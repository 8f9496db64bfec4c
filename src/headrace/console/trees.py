"""Joins whose probes may be left out, in the live table: what half-way joins were offered and made, and a line a tree.

Owns how :class:`TreeStats` look; pure functions of a snapshot, as ``live`` is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

from rich.table import Table
from rich.text import Text

from headrace.stats import TreeStats


def tree_line(tree: TreeStats) -> str:
    """How a tree does, in a line.

    >>> told = TreeStats("g", "((a b) c)", "jaqpot", (), 50.0, 200.0, 300.0, 0.1, 4000, 7)
    >>> tree_line(told)
    '((a b) c) by jaqpot: 50.0 of about 200 results/s (25%), 10% of 300/s for freshness; 4,000 probes left out, 7 stale'
    >>> tree_line(TreeStats("g", "(a b)", "jda", allocations=2, allocation_ms=0.21)).split("; ")[-1]
    'allocated 2 times, the last in 0.21 ms'
    """
    made = f"{_rate(tree.results_per_s)} of about {_rate(tree.saturation_per_s)} results/s"
    share = f" ({tree.results_per_s / tree.saturation_per_s:.0%})" if tree.saturation_per_s else ""
    fresh = "" if isinf(tree.mu) else f", {tree.freshness_share:.0%} of {_rate(tree.mu)}/s for freshness"
    late = f", {tree.released_late:,} micro-batches released stale" if tree.released_late else ""
    left_out = f"{tree.left_out:,} probes left out, {tree.stale:,} stale{late}"
    times = "once, in" if tree.allocations == 1 else f"{tree.allocations:,} times, the last in"
    allocated = f"; allocated {times} {tree.allocation_ms:.2f} ms" if tree.allocations else ""
    return f"{tree.plan} by {tree.allocator}: {made}{share}{fresh}; {left_out}{allocated}"


def add_lines(text: Text, trees: Sequence[TreeStats]) -> None:
    """The lines of the trees, and in red what cannot be kept fresh."""
    for tree in trees:
        text.append(f"\n{tree_line(tree)}")
        for one in tree.infeasible:
            text.append(f"\ninfeasible: {one}", style="bold red")


def half_way_table(table: Table, trees: Sequence[TreeStats]) -> Table:
    """A row a half-way join, of the last micro-batch."""
    for tree in trees:
        for half in tree.halves:
            allowed = "all" if isinf(tree.mu) else f"{half.allowed:,.0f}"
            numbers = (half.probed, half.found, half.stale)
            table.add_row(half.name, f"{half.offered:,}", allowed, *(f"{number:,}" for number in numbers))
    return table


def _rate(per_s: float) -> str:
    return f"{per_s:,.1f}" if per_s < 100 else f"{per_s:,.0f}"
