"""Which waiting scan comes next: the policies of paper 000, section 3. A policy only chooses; the operator acts.

Blocks wait in a queue for each window: a block in queue i has scanned the i smallest windows and scans the next one.

      queue      0        1        2                 a newer block is never before an older one in the windows it
      blocks   e, d       c      b, a                has done, or results would come out of order

Owns: the three policies and ``MaxQT``. A policy knows the windows and how many queries have each, and is made anew when
that changes (``policy_for``).
Cost: a choice looks at each queue once; the matrix of N windows takes O(N^2) to make, once for a set of queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ScanLevel:
    """A window as a policy sees it: how much is scanned to complete it, from nothing, and how many queries have it."""

    size: int
    queries: int


@dataclass(frozen=True, slots=True)
class Turn:
    """The block at ``position`` scans on until it has completed ``upto`` windows."""

    position: int
    upto: int


class JoinPolicy(Protocol):
    """Chooses the next turn, given how many windows each waiting block has completed: oldest block first, so never
    rising, and each less than all windows."""

    def __init__(self, levels: Sequence[ScanLevel]) -> None: ...

    def next_turn(self, completed: Sequence[int]) -> Turn: ...


class LargestWindowOnly:
    """LWO (section 3.1): the oldest block, through the largest window."""

    def __init__(self, levels: Sequence[ScanLevel]) -> None:
        self._windows = len(levels)

    def next_turn(self, completed: Sequence[int]) -> Turn:  # noqa: ARG002 - the oldest, whatever the others are at
        return Turn(0, self._windows)


class SmallestWindowFirst:
    """SWF (section 3.2): the first block of the queue of the smallest window, through that window."""

    def __init__(self, levels: Sequence[ScanLevel]) -> None:
        """Sizes do not matter to it."""

    def next_turn(self, completed: Sequence[int]) -> Turn:
        smallest = completed[-1]
        return Turn(completed.index(smallest), smallest + 1)


class MaximumQueryThroughput:
    """MQT (section 3.3): the scan that serves the most queries in a unit of time, as far as an older block has come.

    A turn may take several windows: that they follow is known, so their results need not wait for one another."""

    def __init__(self, levels: Sequence[ScanLevel]) -> None:
        self._best = max_query_throughput(levels)
        self._windows = len(levels)

    def next_turn(self, completed: Sequence[int]) -> Turn:
        chosen, chosen_rate = Turn(0, completed[0] + 1), -1.0
        bound = self._windows
        for position, done in _queue_heads(completed):
            rate, upto = self._best[done][bound]
            if rate > chosen_rate:
                chosen, chosen_rate = Turn(position, upto), rate
            bound = done
        return chosen


def max_query_throughput(levels: Sequence[ScanLevel]) -> list[list[tuple[float, int]]]:
    """For a block that has completed i windows behind one that has completed j: MaxQT(i, j), and the window it is for.

    Among equals the largest window. Entries without a window between (j <= i) are (0, i).

    >>> best = max_query_throughput([ScanLevel(2, 1), ScanLevel(3, 1), ScanLevel(6, 1)])
    >>> [(round(rate, 3), upto) for rate, upto in best[0]]
    [(0.0, 0), (0.5, 1), (0.667, 2), (0.667, 2)]
    """
    ends = [0, *(level.size for level in levels)]
    served = [0, *accumulate(level.queries for level in levels)]
    return [_best_scans(ends, served, done) for done in range(len(ends))]


def _best_scans(ends: Sequence[int], served: Sequence[int], done: int) -> list[tuple[float, int]]:
    rates = [((served[k] - served[done]) / max(ends[k] - ends[done], 1), k) for k in range(done + 1, len(ends))]
    return [(0.0, done)] * (done + 1) + list(accumulate(rates, max))


def _queue_heads(completed: Sequence[int]) -> list[tuple[int, int]]:
    """(position, windows done) of the first block in each queue, the largest window's queue first."""
    heads = [(0, completed[0])]
    for position, done in enumerate(completed):
        if done < heads[-1][1]:
            heads.append((position, done))
    return heads


@lru_cache(maxsize=64)
def policy_for(kind: type[JoinPolicy], levels: tuple[ScanLevel, ...]) -> JoinPolicy:
    """The policy for these windows; a host that restores the shard for every micro-batch gets the same again."""
    return kind(levels)


POLICIES: dict[str, type[JoinPolicy]] = {
    "lwo": LargestWindowOnly,
    "swf": SmallestWindowFirst,
    "mqt": MaximumQueryThroughput,
}
