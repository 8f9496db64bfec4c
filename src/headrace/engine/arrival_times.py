"""When the tuples arrived that found results: how many of a batch's results each time has, for response times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.engine.keys import Int64s


class Arrivals:
    """When the tuples arrived that found the matches of a slice."""

    def __init__(self, probes: Int64s, arrived_us: Int64s) -> None:
        self._probes = probes
        self._times, self._codes = arrived_us[:1], None
        if not np.all(arrived_us == arrived_us[0]):
            self._times, self._codes = np.unique(arrived_us, return_inverse=True)

    def at(self, positions: Int64s) -> Int64s:
        """Of each of the matches there."""
        if self._codes is None:
            return np.full(len(positions), self._times[0])
        times: Int64s = self._times[self._codes[self._probes[positions]]]
        return times

    def of(self, positions: Int64s, sizes: Sequence[int]) -> list[tuple[tuple[int, int], ...]]:
        """(arrival time, how many) of the matches there: of so many, then of so many of the next, and so on."""
        if self._codes is None:
            return [((int(self._times[0]), size),) for size in sizes]
        return counted_times(self._times, self._codes[self._probes[positions]], sizes)


def counted_times(times: Int64s, codes: Int64s, sizes: Sequence[int]) -> list[tuple[tuple[int, int], ...]]:
    """How many of the codes, a stretch of each size after the other, stand for each of the times.

    >>> counted_times(np.array([70, 80]), np.array([0, 1, 1, 1]), [2, 2])
    [((70, 1), (80, 1)), ((80, 2),)]
    """
    owners = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.bincount(owners * len(times) + codes, minlength=len(sizes) * len(times)).reshape(-1, len(times))
    clock = times.tolist()
    return [tuple((time, count) for time, count in zip(clock, row, strict=True) if count) for row in counts.tolist()]


def weighted_arrivals(found: Int64s, arrived_us: Int64s) -> tuple[tuple[int, int], ...]:
    """The same for all matches, given how many each rank found."""
    if np.all(arrived_us == arrived_us[0]):
        return ((int(arrived_us[0]), int(found.sum())),)
    times, codes = np.unique(arrived_us, return_inverse=True)
    counts = np.bincount(codes[: len(found)], weights=found, minlength=len(times))
    return tuple((int(time), int(count)) for time, count in zip(times, counts, strict=True) if count)
