"""Keys that many rows of a chunk have: what tells that a key is heavy (``plan/skew.py``).

Owns: ``frequent_keys``. Cost: a sort of at most ``SAMPLE_ROWS`` numbers, whatever the chunk.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from headrace.engine.keys import Int64s
from headrace.plan.skew import SeenKeys

SAMPLE_ROWS = 1 << 14
"""Rows of a chunk that are looked at."""
MOST_KEYS = 4
"""Keys that are told of a chunk, the most frequent ones."""


def frequent_keys(numbers: Int64s, share: int, known: Collection[int] = ()) -> SeenKeys:
    """The keys, of a chunk's, that more than half of a coordinate's share of the rows have, and are not known to.

    >>> frequent_keys(np.array([5, 7, 7, 7, 8, 7, 9, 7, 6, 8]), 4)
    SeenKeys(rows=10, keys={7: 5, 8: 2})
    """
    rows = len(numbers)
    sample = np.sort(numbers[:: -(-rows // SAMPLE_ROWS)]) if rows else numbers
    least = len(sample) // (2 * share)
    frequent = np.unique(sample[least:][sample[least:] == sample[: len(sample) - least]])
    counts = np.searchsorted(sample, frequent, side="right") - np.searchsorted(sample, frequent)
    found = [(int(count), int(number)) for count, number in zip(counts, frequent, strict=True) if number not in known]
    most = sorted(found, reverse=True)[:MOST_KEYS]
    return SeenKeys(rows, {number: round(count * rows / len(sample)) for count, number in most})
