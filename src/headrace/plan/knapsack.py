"""The discrete model of paper 001, section 4.2: whole paths, a whole number of times.

    path   uses   gives                  mu = 30     the best path first   b, then c       26 used    6 results
    a        15       4                              the best of all       a, a            30 used    8 results
    b        16       5                              fractions (GrePP)     b 1.875 times   30 used    9.375 results
    c        10       1

A path's *unit* is the smallest whole number of tuples for which the probes and the results of the whole path are whole
numbers, nearly: 11 tuples of b make 5 composites, so 16 probes, and 5 results. Units that do not fit are left out.
Whole numbers are those of a second; over a longer cycle (a stream has a tuple a minute), or where mu is large, a unit
is what a path does for a small part of mu, a *step*.

Owns ``whole_unit``, ``step_unit``, and the two ways to fill: ``fill_best_first``, which the paper shows to be wrong,
and ``fill_whole``, dynamic programming. Cost: ``fill_whole`` takes mu steps for each path and each binary digit of how
often it may be used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf

from headrace.plan.allocating import NEARLY, InputPath

MOST_TUPLES = 128
"""Tuples of a path that its unit is looked for among."""
WHOLE = 0.01
"""How far from whole a number of a unit may be."""


@dataclass(frozen=True, slots=True)
class PathUnit:
    """A row of the path productivity table (figure 8): what a whole path uses and gives for so many tuples of its
    stream, and how often that can be."""

    uses: int
    gives: float
    times: int
    tuples: float = 1.0


def whole_unit(path: InputPath, rate: float, mu: float = inf) -> PathUnit:
    """A path's unit; what does not divide is rounded up, so that no more is used than there is. Where no number of
    tuples divides, as many as there are, or as ``mu`` is enough for."""
    counts = range(1, max(1, min(MOST_TUPLES, floor(rate))) + 1)
    most = counts[-1] if path.cost * counts[-1] <= mu else max(1, floor(mu / path.cost))
    count = next((one for one in counts if _is_whole(path.cost * one) and _is_whole(path.made * one)), most)
    return PathUnit(max(1, ceil(path.cost * count - WHOLE)), path.made * count, floor(rate / count), float(count))


def step_unit(path: InputPath, rate: float, step: float) -> PathUnit:
    """What a path makes for a step; so many equal units that all of the stream's tuples are in them."""
    times = ceil(rate * path.cost / step - NEARLY)
    tuples = rate / times if times > 0 else 0.0
    return PathUnit(1, path.made * tuples, times, tuples)


def _is_whole(value: float) -> bool:
    return value >= 1 - WHOLE and abs(value - round(value)) <= WHOLE


def fill_best_first(units: Sequence[PathUnit], mu: int) -> list[int]:
    """How often each path is used, the most productive first, as often as it fits: not the optimum.

    >>> fill_best_first([PathUnit(15, 4, 2), PathUnit(16, 5, 2), PathUnit(10, 1, 3)], 30)
    [0, 1, 1]
    """
    times = [0] * len(units)
    for number in sorted(range(len(units)), key=lambda one: -units[one].gives / units[one].uses):
        times[number] = min(units[number].times, mu // units[number].uses)
        mu -= times[number] * units[number].uses
    return times


def fill_whole(units: Sequence[PathUnit], mu: int) -> list[int]:
    """How often each path is used for the most results that ``mu`` allows.

    >>> fill_whole([PathUnit(15, 4, 2), PathUnit(16, 5, 2), PathUnit(10, 1, 3)], 30)
    [2, 0, 0]
    """
    best = [0.0] * (mu + 1)
    taken: list[tuple[int, int, bytearray]] = []
    for number, unit in enumerate(units):
        for count in _digits(min(unit.times, mu // unit.uses)):
            uses, gives, took = count * unit.uses, count * unit.gives, bytearray(mu + 1)
            for room in range(mu, uses - 1, -1):
                with_it = best[room - uses] + gives
                if with_it > best[room]:
                    best[room], took[room] = with_it, 1
            taken.append((number, count, took))
    return _traced(units, mu, taken)


def _traced(units: Sequence[PathUnit], mu: int, taken: Sequence[tuple[int, int, bytearray]]) -> list[int]:
    times, room = [0] * len(units), mu
    for number, count, took in reversed(taken):
        if took[room]:
            times[number] += count
            room -= count * units[number].uses
    return times


def _digits(times: int) -> Iterator[int]:
    """Numbers whose sums are all numbers up to ``times``: 1, 2, 4, ... and the rest."""
    power = 1
    while times > 0:
        count = min(power, times)
        yield count
        times, power = times - count, power * 2
