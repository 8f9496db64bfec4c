"""How large indexes should be and how often old tuples are dropped: paper 002, sections 6.4 and 6.5, as two rules.

    interval    0 ..... tau ................ window        short: every bucket is visited often, mostly for nothing
                visits <-----|-----> longer scans          long: windows grow by tau, and so does every scan

Owns: :func:`bucket_shares`, :func:`expiry_interval` and :func:`unit_cost`. All weigh tuple accesses of the cost model
(``costs``), so they are as good as the facts are, and none changes any answer.
Cost: O(n) for shares, however many buckets; some sixty evaluations of one order for the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace
from math import ceil, floor, sqrt

from headrace.errors import PlanError
from headrace.plan.costs import Order, StreamFacts, moved_first, multiway_cost, phi
from headrace.plan.ordering import global_order

SLOW_BUCKETS = 5
"""What a slow stream gets if there are enough: in 6.5 five did better than one, and better than ten."""
VISIT_ACCESSES = 40.0
"""What a visit of a bucket to drop tuples costs, in tuple accesses of a join."""
WINDOW_BUCKETS = 2.0
"""What a visit of a window costs besides its buckets', in buckets."""
LONGEST_SHARE = 0.3
"""The interval is at most this share of the shortest window: what waits to be dropped needs memory, too."""
TRIALS = 64
HALVINGS = 64


def bucket_shares(streams: Sequence[StreamFacts], total: int) -> tuple[int, ...]:
    """Splits a number of hash buckets over the windows: more to larger ones, but not all of them.

    A scan of a window reads size / buckets tuples. The sum of that over the windows is least if buckets are in
    proportion to the square root of the size, so each bucket in turn goes to where it saves the most. For 6.5's streams
    (three of size 100, one of 5,000, 48 buckets) that gives 5, 5, 5 and 33, which is what the paper measured as best.

    No window gets more buckets than it has distinct values: the others would stay empty, and still be visited. So fewer
    than ``total`` may be handed out. Each gets at least SLOW_BUCKETS, or half an even share if that is less.
    """
    if not streams or total < len(streams):
        raise PlanError(f"{total} buckets are too few for {len(streams)} windows: each needs one")
    least = max(1, min(SLOW_BUCKETS, total // (2 * len(streams))))
    limits = [max(1, floor(one.distinct)) for one in streams]
    shares = _most_saving(streams, [min(least, limit) for limit in limits], limits, total)
    savings = [(-_saving(streams, side, shares, limits), side) for side in range(len(streams))]
    heapify(savings)
    for _ in range(total - sum(shares)):
        saving, side = savings[0]
        if not saving:
            break
        shares[side] += 1
        heapreplace(savings, (-_saving(streams, side, shares, limits), side))
    return tuple(shares)


def _most_saving(streams: Sequence[StreamFacts], least: list[int], limits: Sequence[int], total: int) -> list[int]:
    """The shares with all buckets that save more than a bound, which is so chosen that hardly any are left to give."""
    sizes = [one.size for one in streams if one.size]
    found = least
    low, high = min(sizes, default=1.0) / (4.0 * total * total), max(sizes, default=1.0)
    for _ in range(HALVINGS):
        bound = sqrt(low * high)
        shares = [
            max(fewest, min(_worth(one.size, bound), limit))
            for one, fewest, limit in zip(streams, least, limits, strict=True)
        ]
        if sum(shares) <= total:
            found, high = shares, bound
        else:
            low = bound
    return found


def _worth(size: float, bound: float) -> int:
    """With how many buckets the last one of a window saves more than a bound."""
    share = ceil((sqrt(1 + 4 * size / bound) + 1) / 2)
    while share > 1 and not size / ((share - 1) * share) > bound:
        share -= 1
    return share


def _saving(streams: Sequence[StreamFacts], side: int, shares: Sequence[int], limits: Sequence[int]) -> float:
    """Accesses that one more bucket spares a scan of this window."""
    share = shares[side]
    return streams[side].size / (share * (share + 1)) if share < limits[side] else 0.0


def expiry_interval(streams: Sequence[StreamFacts], longest_share: float = LONGEST_SHARE) -> float:
    """How long to wait between two rounds of dropping old tuples, in the unit of time of the facts.

    A round visits every bucket, whether it holds old tuples or not (4.1), so frequent rounds cost visits / tau. Between
    rounds windows grow by tau, and the join, with all composites it makes, costs what the lazy formulas say. The
    interval with the least sum is taken: short for few buckets, where scans are long and visits few, longer for many.

    VISIT_ACCESSES and WINDOW_BUCKETS are fitted to 6.4 (four streams of rate 1, windows of 100, 50 distinct values):
    2, 10 and 30 buckets give 4, 14 and 30, where the paper measured 4, about 15 and about 30; without an index 2.5.
    Bounded by a share of the shortest window, and from below by the time between two tuples.
    """
    rate = sum(one.rate for one in streams)
    longest = longest_share * min(one.window for one in streams)
    if not rate or longest * rate <= 1:
        return longest
    order = global_order(streams).order
    ratio: float = (longest * rate) ** (1 / (TRIALS - 1))
    trials = (ratio**trial / rate for trial in range(TRIALS))
    return min(trials, key=lambda tau: unit_cost(streams, order, tau))


def unit_cost(streams: Sequence[StreamFacts], order: Order, tau: float) -> float:
    """All that happens in a unit of time, in tuple accesses: joining, and dropping old tuples every ``tau``."""
    return _upkeep(streams, tau) + _joining(streams, order, tau)


def _upkeep(streams: Sequence[StreamFacts], tau: float) -> float:
    return VISIT_ACCESSES * sum(one.buckets + WINDOW_BUCKETS for one in streams) / tau


def _joining(streams: Sequence[StreamFacts], order: Order, tau: float) -> float:
    """Tuple accesses per unit of time, and one for each composite that is made of them."""
    made = sum(
        phi(streams, moved_first(order, origin)[:length], tau) / (streams[origin].window + tau)
        for origin in order
        for length in range(2, len(order) + 1)
    )
    return multiway_cost(streams, order, tau) + made
