"""How much of the waiting work a step may do. Time is not known here: the host turns it into probes.

A probe is one tuple scanning one window of average length: n tuples through all of N windows take n N probes, and
through a part of them their part of the way back. Blocks are weighed by what their streams' heartbeats told, not by a
shard's own part of them: so all shards take the same turns, and what one of them completes in a micro-batch all of them
do.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ProbeBudget:
    """Probes for one step. ``limit`` None: all there is to do. Beyond ``backlog_rows`` waiting tuples the limit is
    passed over, so that the backlog stays bounded and sources wait; at least one turn is always allowed."""

    limit: int | None = None
    backlog_rows: int | None = None
    spent: int = 0
    turns: int = 0
    over_limit: int = 0
    """Turns taken only because too much was waiting."""

    def allows(self, waiting_rows: int, is_beyond: bool = False) -> bool:
        """Whether another turn may be taken while so many tuples wait, asked once before each; ``is_beyond``: more
        memory than may be."""
        if self.limit is None or self.turns == 0 or self.spent < self.limit:
            return True
        is_over = is_beyond or (self.backlog_rows is not None and waiting_rows > self.backlog_rows)
        self.over_limit += is_over
        return is_over

    def charge(self, probes: int) -> None:
        self.turns += 1
        self.spent += probes
