"""What a multi-way join is like now: how much it holds, and how many partners a few of its tuples have on each side.

Owns ``measure``: it counts what windows hold, and looks up the partners of a sample of each side's newest tuples, by
each predicate between two sides, whatever orders are in use; the driver chooses orders by it (``plan/facts.py``). Cost:
a few hundred look-ups for each pair of sides; where a side must be scanned, fewer, so that it looks at about
``LOOKED_AT`` rows; and of a run that a window has in part, the times of ``TIMED`` rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.engine.keys import Int64s
from headrace.engine.matching import key_ranges
from headrace.engine.spaces import Space
from headrace.engine.steps import Access, steps_of
from headrace.engine.walking import Bounds, Partial, Walk
from headrace.engine.window import Run
from headrace.plan.facts import Measured, joined_pairs
from headrace.plan.joingraph import JoinGraph
from headrace.plan.queries import Measure

SAMPLED = 128
LOOKED_AT = 1 << 16
TIMED = 1 << 10


@dataclass(frozen=True, slots=True)
class Within:
    """Partners that a tuple of the origin finds in windows of time; in windows of rows, all that are held."""

    origin: int
    reach: tuple[int, ...]

    def bounds(self, walk: Walk, partial: Partial, side: int) -> Bounds | None:
        if walk.measures[side] is not Measure.TIME:
            return None
        now = walk.spaces[self.origin].times(partial.addresses[self.origin])
        return now - self.reach[side], now + 1

    def with_new(self, side: int) -> bool:  # noqa: ARG002
        return False

    def is_apart(self, walk: Walk, partial: Partial, side: int) -> np.ndarray | None:  # noqa: ARG002
        return None


def measure(
    graph: JoinGraph, spaces: tuple[Space, ...], measures: tuple[Measure, ...], reach: tuple[int, ...]
) -> Measured:
    """The sides as they are held, looked at as far back as the largest windows; spaces without new tuples."""
    held = tuple(sum(run.live_rows for run in space.runs) for space in spaces)
    in_window = tuple(map(_in_window, spaces, measures, reach))
    tried = {}
    for origin, side in joined_pairs(graph):
        steps = steps_of(graph, (origin, side))
        is_cheap = steps[1].access is Access.KEY
        rows = SAMPLED if is_cheap else min(SAMPLED, max(1, LOOKED_AT // max(held[side], 1)))
        sample = _newest(spaces[origin], rows)
        if len(sample) and held[side]:
            walk = Walk(spaces, measures, steps, (key_ranges,) * len(spaces), Within(origin, reach))
            found = sum(part.size for part in walk.results(Partial({origin: sample}, len(sample))))
            tried[origin, side] = (len(sample), found)
    return Measured(in_window, tried)


def _in_window(space: Space, measure: Measure, reach: int) -> int:
    """About how many rows its window has as the newest of them comes; more are held, as many are let go at once."""
    runs = [run for run in space.runs if run.rows]
    if measure is Measure.ROWS or not runs:
        return min(reach, sum(run.live_rows for run in runs))
    since_us = max(run.max_us for run in runs) - reach
    return sum(_rows_since(run, since_us) for run in runs)


def _rows_since(run: Run, since_us: int) -> int:
    if run.span_us is not None and run.min_us >= since_us:
        return run.rows
    ts_us = run.segment.ts_us[_spread(run.rows, TIMED)]
    return min(run.live_rows, round(run.rows * float(np.mean(ts_us >= since_us))))


def _newest(space: Space, rows: int) -> Int64s:
    """Addresses of some rows of the newest run, evenly spread over its keys."""
    if not space.runs or not space.runs[-1].rows:
        return np.empty(0, dtype=np.int64)
    run = space.runs[-1]
    return int(space.bases[len(space.runs) - 1]) + _spread(run.rows, rows)


def _spread(rows: int, count: int) -> Int64s:
    """So many of these rows, evenly spread: the middles of as many stretches. The first and the last have keys like no
    others, and of a few they would be most."""
    count = min(count, rows)
    return ((np.arange(count) + 0.5) * rows / max(count, 1)).astype(np.int64)
