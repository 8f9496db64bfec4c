"""Shuffle keys that put each shard on a partition of its own.

Spark places a group by Murmur3 of its key, modulo the number of partitions; shards numbered 0, 1, 2 ... would often
share one. So each shard gets a label whose hash falls where no other's does. Spark itself could be asked, at the price
of a job before the first micro-batch; a test compares this hash with Spark's.
"""

from __future__ import annotations

from itertools import count

_SEED = 42
"""What Spark's ``hash`` starts from."""
_MASK = 0xFFFFFFFF


def shard_labels(shards: int) -> tuple[int, ...]:
    """For each shard the least label that is placed on its partition.

    >>> shard_labels(3)
    (0, 1, 11)
    """
    placed: dict[int, int] = {}
    for label in count():
        placed.setdefault(spark_hash(label) % shards, label)
        if len(placed) == shards:
            break
    return tuple(placed[place] for place in range(shards))


def spark_hash(number: int) -> int:
    """Murmur3 (x86, 32 bits) of an int, as Spark's ``hash`` gives it: signed."""
    mixed = _rotated(number * 0xCC9E2D51, 15) * 0x1B873593
    state = _rotated(_SEED ^ (mixed & _MASK), 13) * 5 + 0xE6546B64
    state = (state & _MASK) ^ 4  # the length of an int in bytes
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = ((state ^ (state >> shift)) * factor) & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >= 1 << 31 else state


def _rotated(number: int, by: int) -> int:
    number &= _MASK
    return ((number << by) | (number >> (32 - by))) & _MASK
