"""Shares of a hypercube's dimensions: the best of all ways to share out the shards, found by looking at few of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan import shares as searched
from headrace.plan.shares import Cost, Shares, best_shares

CHAIN = ((0, 1), (1, 2), (2, 3), (3, 4), (0,), (1,), (2,), (3,))

cut = st.lists(st.sets(st.integers(0, 4), min_size=1, max_size=3).map(tuple), min_size=0, max_size=5)
some_rows = st.lists(st.sampled_from((1.0, 2.0, 3.7, 50.0, 1e6)), min_size=5, max_size=5)


def all_shares(dimensions: int, shards: int) -> Iterator[Shares]:
    if dimensions == 0:
        yield ()
        return
    for first in range(1, shards + 1):
        for rest in all_shares(dimensions - 1, shards // first):
            yield (first, *rest)


def cost(dimensions: Sequence[Sequence[int]], shares: Shares, rows: Sequence[float]) -> Cost:
    """What a cell holds, what is copied, and in how many dimensions."""
    cells = math.prod(shares)
    pairs = list(zip(dimensions, shares, strict=True))
    copies = [math.prod(share for one, share in pairs if side not in one) for side in range(len(rows))]
    in_cell = sum(one * (copied / cells) for one, copied in zip(rows, copies, strict=True))
    copied = sum(one * copied for one, copied in zip(rows, copies, strict=True))
    return round(in_cell, 6), copied, sum(share > 1 for share in shares)


@given(dimensions=cut, rows=some_rows, shards=st.integers(1, 16))
def test_shares_are_the_first_of_the_best_of_all(
    dimensions: list[tuple[int, ...]], rows: list[float], shards: int
) -> None:
    every = all_shares(len(dimensions), shards)
    assert best_shares(dimensions, rows, shards) == min(every, key=lambda one: cost(dimensions, one, rows))


@given(
    dimensions=cut,
    rows=st.lists(st.sampled_from((0.0, 1e-9, 1.0, 1e12)), min_size=5, max_size=5),
    shards=st.integers(1, 16),
)
def test_sides_that_hold_next_to_nothing_are_no_exception(
    dimensions: list[tuple[int, ...]], rows: list[float], shards: int
) -> None:
    best = min(cost(dimensions, one, rows) for one in all_shares(len(dimensions), shards))
    assert cost(dimensions, best_shares(dimensions, rows, shards), rows) == pytest.approx(best)


def test_few_are_looked_at_where_there_are_millions(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0
    least = searched._Bound.least

    def counted(bound: searched._Bound, rows: Sequence[float], left: int) -> float:
        nonlocal looked_at
        looked_at += 1
        return least(bound, rows, left)

    monkeypatch.setattr(searched._Bound, "least", counted)
    assert best_shares(CHAIN, (1.0,) * 5, 1024) == (10, 3, 3, 11, 1, 1, 1, 1)
    assert looked_at < 10_000
