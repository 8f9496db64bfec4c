"""How many coordinates each dimension of a hypercube gets: the best way to share out the shards.

      a(x)  b(x, y)  c(y)  d       dimensions x {a b}, y {b c}, d {d}; also {a}, say, but what it cuts x cuts as well
      2, ...                       of the shares that are to come it is known how little they can leave in a cell: with
      2, 3, ...                    no better than the best so far, the branch is left
      2, 3, 5                      the last takes what is left of the shards, or as much as is of use

Owns ``best_shares``. A cell holds, of each side, its tuples divided by the shares of all dimensions it is in. What
dimensions to come can divide by, with ``r`` shards left: each side by ``r`` at most, and sides of which no two are in
one dimension by ``r`` all together, so that k of them leave at least ``k (w1 ... wk / r)^(1/k)`` of their w tuples
(the means' inequality). Cost: thousands of shares are looked at for 4,096 shards, where there are millions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

Shares: TypeAlias = tuple[int, ...]
Cost: TypeAlias = tuple[float, float, int]
"""What a cell holds, what is copied in all, and how many dimensions it takes."""

_DIGITS = 6
_ROUNDING = 1 - 1e-9
"""What may be lost of a bound as it is worked out."""


def best_shares(dimensions: Sequence[Collection[int]], held_rows: Sequence[float], shards: int) -> Shares:
    """For each dimension, the sides it cuts, how many coordinates it has: together at most the shards, so that a cell
    holds as little as possible, then little is copied, then dimensions are few; of several such the first.

    >>> best_shares([(0, 1), (1, 2), (0,)], (1, 1, 1), 4), best_shares([(0,), (1,)], (50, 1), 4)
    ((2, 2, 1), (4, 1))
    """
    sets = [frozenset(one) for one in dimensions]
    kept = [index for index, one in enumerate(sets) if not any(_is_better(sets, other, index) for other in _all(sets))]
    found = dict(zip(kept, _Search([sets[index] for index in kept], held_rows, shards).found(), strict=True))
    return tuple(found.get(index, 1) for index in _all(sets))


def _all(sets: Sequence[frozenset[int]]) -> range:
    return range(len(sets))


def _is_better(sets: Sequence[frozenset[int]], one: int, other: int) -> bool:
    """Whether a dimension cuts all that another does: what that has, it had better have."""
    return sets[other] < sets[one] or (sets[other] == sets[one] and one > other)


class _Search:
    def __init__(self, sets: Sequence[frozenset[int]], held_rows: Sequence[float], shards: int) -> None:
        self._sets = sets
        self._rows = held_rows
        self._shards = shards
        self._bounds = [_Bound(sets[first:], held_rows) for first in range(len(sets) + 1)]
        self._limit = self._cost(self._guess())[0]
        self._best: tuple[Cost, Shares] | None = None

    def found(self) -> Shares:
        if not self._sets:
            return ()
        self._go_on((), list(self._rows), self._shards)
        assert self._best is not None
        return self._best[1]

    def _cost(self, shares: Shares) -> Cost:
        cells = math.prod(shares)
        copies = [
            math.prod(share for one, share in zip(self._sets, shares, strict=True) if side not in one)
            for side in range(len(self._rows))
        ]
        in_cell = sum(rows * (copied / cells) for rows, copied in zip(self._rows, copies, strict=True))
        copied = sum(rows * copied for rows, copied in zip(self._rows, copies, strict=True))
        return round(in_cell, _DIGITS), copied, sum(share > 1 for share in shares)

    def _guess(self) -> Shares:
        """Shares that are not bad: one more where that helps the most, while there are shards."""
        shares = (1,) * len(self._sets)
        while more := list(self._one_more(shares)):
            shares = min(more, key=self._cost)
        return shares

    def _one_more(self, shares: Shares) -> Iterator[Shares]:
        for at, share in enumerate(shares):
            more = (*shares[:at], share + 1, *shares[at + 1 :])
            if math.prod(more) <= self._shards:
                yield more

    def _go_on(self, before: Shares, rows: Sequence[float], left: int) -> None:
        """All shares that begin so. ``rows``: what the sides have left after them, and ``left``: shards."""
        at = len(before)
        if at == len(self._sets) - 1:
            self._end(before, left)
            return
        for share in range(1, left + 1):
            cut = [one / share if side in self._sets[at] else one for side, one in enumerate(rows)]
            if self._may_be_best(self._bounds[at + 1].least(cut, left // share), (*before, share)):
                self._go_on((*before, share), cut, left // share)

    def _may_be_best(self, least: float, shares: Shares) -> bool:
        least = round(least * _ROUNDING, _DIGITS)
        if least > self._limit or self._best is None:
            return least <= self._limit
        rest = (1,) * (len(self._sets) - len(shares))
        return least < self._best[0][0] or (least, *self._cost((*shares, *rest))[1:]) < self._best[0]

    def _end(self, before: Shares, left: int) -> None:
        """The last share: the smallest with which cells hold no more than with all that is left."""
        least, low, high = self._cost((*before, left))[0], 1, left
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._cost((*before, middle))[0] <= least else (middle + 1, high)
        found = (self._cost((*before, high)), (*before, high))
        if self._best is None or found[0] < self._best[0]:
            self._best = found


class _Bound:
    """What some dimensions leave in a cell at least."""

    def __init__(self, sets: Sequence[frozenset[int]], held_rows: Sequence[float]) -> None:
        alike: dict[frozenset[int], list[int]] = {}
        for side in range(len(held_rows)):
            cut_by = frozenset(number for number, one in enumerate(sets) if side in one)
            alike.setdefault(cut_by, []).append(side)
        self._uncut = alike.pop(frozenset(), [])
        self._apart: list[list[int]] = []
        self._others: list[int] = []
        taken: set[int] = set()
        for cut_by, sides in sorted(alike.items(), key=lambda one: -sum(held_rows[side] for side in one[1])):
            if taken & cut_by:
                self._others += sides
            else:
                self._apart.append(sides)
                taken |= cut_by

    def least(self, rows: Sequence[float], left: int) -> float:
        """``rows``: of each side, what is left after the dimensions before."""
        apart = sorted((sum(rows[side] for side in sides) for sides in self._apart), reverse=True)
        best, rest, product = 0.0, sum(apart), 1.0
        for count, one in enumerate(apart, 1):
            rest, product = rest - one, product * one
            best = max(best, count * (product / left) ** (1 / count) + rest / left)
        others = sum(rows[side] for side in self._others) / left
        return sum(rows[side] for side in self._uncut) + others + best
