"""What a run was like in the last minutes: a sample a second, kept for the console's curves.

      samples   [ t, tuples/s in, results/s out, micro-batch ms, backlog, held | per query: results/s, mean ms, p99 ms ]
                  oldest ............................................ newest       the oldest goes when it is full

Owns :class:`Timeline`. Invariant: at most ``most`` samples. Memory: 12 bytes for each query and sample. No clock here:
the time of a sample is an input.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace.stats import QueryStats, RunStats

SAMPLES = 900
MOST_QUERIES = 30
"""Queries whose curves are given unless they are asked for by name: those with the most results."""
_NONE = float("nan")


@dataclass(frozen=True, slots=True)
class Curves:
    """One query's samples; None where there was nothing to measure."""

    query: str
    results_per_s: list[float | None]
    response_mean_ms: list[float | None]
    response_p99_ms: list[float | None]


@dataclass(frozen=True, slots=True)
class History:
    """Samples, oldest first; all lists are as long as ``at_s`` (seconds since the epoch)."""

    at_s: list[float]
    tuples_per_s: list[float]
    results_per_s: list[float]
    batch_ms: list[float]
    backlog_tuples: list[float]
    held_tuples: list[float]
    queries: list[Curves]


@dataclass(frozen=True, slots=True)
class _Sample:
    at_s: float
    totals: tuple[float, float, float, float, float]
    names: tuple[str, ...]
    numbers: array[float]
    """Three for each name."""


@dataclass(slots=True)
class Timeline:
    most: int = SAMPLES
    _samples: deque[_Sample] = field(init=False)

    def __post_init__(self) -> None:
        self._samples = deque(maxlen=self.most)

    def add(self, at_s: float, stats: RunStats) -> None:
        names = tuple(one.query for one in stats.queries)
        if self._samples and self._samples[-1].names == names:
            names = self._samples[-1].names  # one tuple for all samples of the same queries
        numbers = array("f", (number for one in stats.queries for number in _numbers(one)))
        self._samples.append(_Sample(at_s, _totals(stats), names, numbers))

    def history(self, after_s: float = 0.0, queries: Sequence[str] | None = None) -> History:
        """The samples later than a time, with the curves of these queries (or of those with the most results)."""
        samples = [one for one in tuple(self._samples) if one.at_s > after_s]
        places = [dict(zip(names, range(len(names)), strict=True)) for names in _distinct(samples)]
        by_names = dict(zip(_distinct(samples), places, strict=True))
        wanted = _most_active(samples) if queries is None else queries
        totals = [[one.totals[number] for one in samples] for number in range(5)]
        curves = [_curves(name, samples, by_names) for name in wanted]
        return History([one.at_s for one in samples], totals[0], totals[1], totals[2], totals[3], totals[4], curves)


def _totals(stats: RunStats) -> tuple[float, float, float, float, float]:
    return (
        sum(one.tuples_per_s for one in stats.streams),
        sum(one.results_per_s for one in stats.queries),
        stats.batch_ms,
        sum(one.backlog_tuples for one in stats.windows),
        sum(one.held_tuples for one in stats.shards),
    )


def _numbers(one: QueryStats) -> tuple[float, float, float]:
    mean, p99 = one.response_mean_ms, one.response_p99_ms
    return one.results_per_s, _NONE if mean is None else mean, _NONE if p99 is None else p99


def _distinct(samples: Iterable[_Sample]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(one.names for one in samples))


def _most_active(samples: Sequence[_Sample]) -> list[str]:
    """The queries of the last sample; of many, those with the most results."""
    if not samples:
        return []
    last = samples[-1]
    if len(last.names) <= MOST_QUERIES:
        return list(last.names)
    places = sorted(range(len(last.names)), key=lambda place: -last.numbers[3 * place])[:MOST_QUERIES]
    return [last.names[place] for place in sorted(places)]


def _curves(name: str, samples: Sequence[_Sample], places: dict[tuple[str, ...], dict[str, int]]) -> Curves:
    columns: tuple[list[float | None], ...] = ([], [], [])
    for sample in samples:
        place = places[sample.names].get(name)
        for number, column in enumerate(columns):
            value = _NONE if place is None else sample.numbers[3 * place + number]
            column.append(None if math.isnan(value) else round(value, 3))
    return Curves(name, *columns)
