"""Kernels of the window join: which stored rows match which probes, for whole columns at a time.

     stored rows of one key, by time      . . . . x x x x x x . .
                                                  lo          hi      lo: first with ts >= t - w
                                                                      hi: first that is not before the probe

Owns: ``key_ranges``, ``compared_ranges``, ``bucketed_ranges``, ``bisect_within``, ``expand_ranges``. No loop runs over
tuples: a bisection's loop runs over the bits of the longest range. Cost: O(m log n) for m probes into n rows (O(m n) by
nested loops, O(m n / b) with b buckets), then O(matches).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from headrace.engine.keys import Int64s

COMPARED_TOGETHER = 1 << 22
"""Comparisons of nested loops that are made at once: bounds their memory."""


def key_ranges(keys: Int64s, probes: Int64s) -> tuple[Int64s, Int64s]:
    """For each probe (ascending) the range of rows with its key.

    >>> key_ranges(np.array([7, 7, 9]), np.array([7, 8, 9]))
    (array([0, 2, 2]), array([2, 2, 3]))
    """
    return np.searchsorted(keys, probes, side="left"), np.searchsorted(keys, probes, side="right")


def compared_ranges(keys: Int64s, probes: Int64s) -> tuple[Int64s, Int64s]:
    """The same by nested loops: every probe is compared with every row, a slice of probes at a time.

    >>> compared_ranges(np.array([7, 7, 9]), np.array([7, 8, 9]))
    (array([0, 2, 2]), array([2, 2, 3]))
    """
    low, high = np.empty(len(probes), dtype=np.int64), np.empty(len(probes), dtype=np.int64)
    together = max(1, COMPARED_TOGETHER // max(len(keys), 1))
    for begin in range(0, len(probes), together):
        some = slice(begin, begin + together)
        low[some] = (keys < probes[some, None]).sum(axis=1)
        high[some] = low[some] + (keys == probes[some, None]).sum(axis=1)
    return low, high


def bucketed_ranges(buckets: int) -> Callable[[Int64s, Int64s], tuple[Int64s, Int64s]]:
    """The same by an index of so many buckets: a probe is compared with every row of its bucket, all probes of a bucket
    together.

    >>> bucketed_ranges(2)(np.array([7, 7, 9, 9, 9, 11]), np.array([7, 8, 9]))
    (array([0, 2, 2]), array([2, 2, 5]))
    """

    def find(keys: Int64s, probes: Int64s) -> tuple[Int64s, Int64s]:
        if not len(keys):
            return key_ranges(keys, probes)
        firsts = keys[np.arange(buckets) * len(keys) // buckets]
        starts = np.unique(np.searchsorted(keys, firsts, side="left"))
        bucket = np.maximum(np.searchsorted(keys[starts], probes, side="right") - 1, 0)
        order = np.argsort(bucket, kind="stable")
        cuts = np.searchsorted(bucket[order], np.arange(len(starts) + 1))
        low, high = np.empty(len(probes), dtype=np.int64), np.empty(len(probes), dtype=np.int64)
        for number, (start, end) in enumerate(pairwise((*starts.tolist(), len(keys)))):
            mine = order[cuts[number] : cuts[number + 1]]
            if len(mine):
                first, last = compared_ranges(keys[start:end], probes[mine])
                low[mine], high[mine] = start + first, start + last
        return low, high

    return find


def bisect_within(values: Int64s, low: Int64s, high: Int64s, bounds: Int64s, rows: np.ndarray | None = None) -> Int64s:
    """For each range [low, high) of ascending values, the first position whose value is at least the bound; with
    ``rows``, positions are places in that list of rows.

    >>> bisect_within(np.array([1, 4, 8, 2, 5]), np.array([0, 3]), np.array([3, 5]), np.array([4, 6]))
    array([1, 5])
    """
    low, high = low.copy(), high.copy()
    active = np.flatnonzero(low < high)
    while active.size:
        middle = (low[active] + high[active]) >> 1
        right = values[middle if rows is None else rows[middle]] < bounds[active]
        low[active[right]] = middle[right] + 1
        high[active[~right]] = middle[~right]
        active = active[low[active] < high[active]]
    return low


def expand_ranges(starts: Int64s, lengths: Int64s) -> Int64s:
    """All positions of all ranges, one range after the other; as narrow integers as hold them.

    >>> expand_ranges(np.array([5, 9]), np.array([2, 3])).tolist()
    [5, 6, 9, 10, 11]
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    narrow = narrow_type(max(total, int(starts.max(initial=0)) + total))
    return np.repeat((starts - ends + lengths).astype(narrow), lengths) + np.arange(total, dtype=narrow)


def narrow_type(most: int) -> type[np.signedinteger]:
    """The integers to hold addresses up to ``most`` in: matches are many, and half the bytes is half the time."""
    return np.int32 if most < 2**31 else np.int64
