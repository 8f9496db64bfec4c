"""A budget of time as a number of probes: how many the slowest shard made in a unit of time, so far.

Shards must take the same turns (``engine/budget.py``), so they cannot each look at a clock; the driver does, once a
micro-batch, for the next one. A wrong guess is corrected by what follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.config import Budget

FIRST_PROBES_PER_US = 0.5
"""What is assumed before anything was measured."""
SHORTEST_US = 1000
"""A micro-batch that joined for less time tells nothing of speed."""
WEIGHT = 0.5
"""Of the last micro-batch, against all before it."""


@dataclass(slots=True)
class Pacer:
    """Turns what shards report into the next micro-batch's probes."""

    budget: Budget | None
    probes_per_us: float = FIRST_PROBES_PER_US

    @property
    def is_timed(self) -> bool:
        return self.budget is not None and self.budget.time_us is not None

    def first_probes(self) -> int | None:
        """The budget where nothing was measured; None: there is no budget."""
        if self.budget is None:
            return None
        return self.budget.probes if self.budget.time_us is None else self._probes(self.budget.time_us)

    def next_probes(self, spent: int, allowed: int, slowest_us: float, left_us: float | None = None) -> int:
        """The next budget, after a micro-batch that made so many of the probes it was allowed in so much time. One that
        had little to do tells nothing: what it took was not for its probes. ``left_us``: what others leave of the time.

        >>> pacer = Pacer(Budget(time_us=100_000))
        >>> pacer.next_probes(spent=300_000, allowed=50_000, slowest_us=200_000.0)
        100000
        >>> pacer.next_probes(spent=10, allowed=100_000, slowest_us=5_000.0)
        100000
        """
        assert self.budget is not None
        assert self.budget.time_us is not None
        is_telling = 2 * spent >= allowed or 2 * slowest_us >= self.budget.time_us
        if spent and is_telling and slowest_us >= SHORTEST_US:
            self.probes_per_us += WEIGHT * (spent / slowest_us - self.probes_per_us)
        return self._probes(self.budget.time_us if left_us is None else left_us)

    def _probes(self, time_us: float) -> int:
        return max(1, round(time_us * self.probes_per_us))
