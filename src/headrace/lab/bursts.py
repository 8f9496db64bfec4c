"""Self-similar streams: many flows that are silent and send in turns, with heavy-tailed lengths (paper 003, 5.1).

      flow 1   ####........##......####        # ON: tuples with exponential gaps; . OFF: nothing
      flow 2   ..#####################.        lengths are Pareto: ON a = 1.4, OFF a = 1.2, so that some are very long
      stream   bursty at every scale           the sum of 64 of them

Owns :class:`Bursts` and ``arrival_times``. The same seed gives the same tuples. Cost: O(periods + tuples), in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bursts:
    """A stream: tuples a second in the long run, its flows, the tails of their periods and the shortest of them."""

    rate: float
    flows: int = 64
    on_tail: float = 1.4
    off_tail: float = 1.2
    shortest_on_s: float = 0.5
    shortest_off_s: float = 0.5

    def __post_init__(self) -> None:
        if self.rate <= 0 or self.flows < 1 or min(self.on_tail, self.off_tail) <= 1:
            raise ValueError("a stream has a rate, at least one flow, and tails above 1: its periods need a mean")

    @property
    def on_share(self) -> float:
        """The part of the time that a flow sends, in the long run."""
        on_s = _mean_s(self.on_tail, self.shortest_on_s)
        return on_s / (on_s + _mean_s(self.off_tail, self.shortest_off_s))

    @property
    def sending_rate(self) -> float:
        """Tuples a second of one flow while it sends."""
        return self.rate / self.flows / self.on_share


def _mean_s(tail: float, shortest_s: float) -> float:
    return tail * shortest_s / (tail - 1)


def arrival_times(bursts: Bursts, seconds: float, seed: int) -> Floats:
    """When the tuples of so many seconds arrive, in order."""
    rng = np.random.default_rng(seed)
    starts, ends = _on_periods(bursts, seconds, rng)
    lengths = ends - starts
    sent_s = np.concatenate([[0.0], np.cumsum(lengths)])
    tuples = rng.poisson(bursts.sending_rate * sent_s[-1])
    places = rng.uniform(0.0, sent_s[-1], tuples)
    period = np.searchsorted(sent_s, places, side="right") - 1
    period = np.minimum(period, len(lengths) - 1)
    return np.sort(starts[period] + (places - sent_s[period])) if len(lengths) else np.empty(0)


def _on_periods(bursts: Bursts, seconds: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The beginnings and ends, within the time, of all flows' ON periods."""
    is_on_first = rng.uniform(size=bursts.flows) < bursts.on_share
    begin = np.where(is_on_first, 0.0, _pareto(rng, bursts.off_tail, bursts.shortest_off_s, (bursts.flows,)))
    starts, ends = [], []
    cycle_s = _mean_s(bursts.on_tail, bursts.shortest_on_s) + _mean_s(bursts.off_tail, bursts.shortest_off_s)
    cycles = max(8, int(1.5 * seconds / cycle_s))
    while begin.min() < seconds:
        on = _pareto(rng, bursts.on_tail, bursts.shortest_on_s, (bursts.flows, cycles))
        off = _pareto(rng, bursts.off_tail, bursts.shortest_off_s, (bursts.flows, cycles))
        after = begin[:, None] + np.cumsum(on + off, axis=1)
        start = np.concatenate([begin[:, None], after[:, :-1]], axis=1)
        starts.append(start.ravel())
        ends.append((start + on).ravel())
        begin = after[:, -1]
    start, end = np.concatenate(starts), np.minimum(np.concatenate(ends), seconds)
    return start[start < seconds], end[start < seconds]


def _pareto(rng: np.random.Generator, tail: float, shortest: float, shape: tuple[int, ...]) -> Floats:
    """P(x) = a b^a x^-(a+1) from b on."""
    return np.asarray(shortest * (1.0 - rng.uniform(size=shape)) ** (-1.0 / tail))


def counts(times: Floats, seconds: float, tick_s: float) -> npt.NDArray[np.int64]:
    """How many tuples arrive in each tick."""
    ticks = int(np.ceil(seconds / tick_s))
    return np.bincount(np.minimum((times / tick_s).astype(np.int64), ticks - 1), minlength=ticks)
