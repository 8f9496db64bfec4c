"""The kernels of the join against loops over tuples."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.matching import bisect_within, expand_ranges, key_ranges, narrow_type

NUMBERS = st.lists(st.integers(-5, 5), max_size=20)


def array(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@given(keys=NUMBERS, probes=NUMBERS)
def test_key_ranges_are_the_rows_with_the_key(keys: list[int], probes: list[int]) -> None:
    keys.sort()
    low, high = key_ranges(array(keys), array(probes))
    for probe, begin, end in zip(probes, low, high, strict=True):
        assert keys[begin:end] == [key for key in keys if key == probe]


@given(values=NUMBERS, data=st.data())
def test_bisect_finds_the_first_at_or_after_the_bound_in_each_range(values: list[int], data: st.DataObject) -> None:
    values.sort()
    places = st.integers(0, len(values))
    ranges = data.draw(st.lists(st.tuples(places, places, st.integers(-6, 6)), max_size=12))
    ranges = [(min(a, b), max(a, b), bound) for a, b, bound in ranges]
    low, high, bounds = (array(list(column)) for column in (zip(*ranges, strict=True) if ranges else ((), (), ())))
    found = bisect_within(array(values), low, high, bounds)
    naive = [next((i for i in range(a, b) if values[i] >= bound), b) for a, b, bound in ranges]
    assert found.tolist() == naive
    assert (low.tolist(), high.tolist()) == ([one[0] for one in ranges], [one[1] for one in ranges])


@given(ranges=st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 5)), max_size=12))
def test_expanded_ranges_are_every_position_in_turn(ranges: list[tuple[int, int]]) -> None:
    starts, lengths = array([start for start, _ in ranges]), array([length for _, length in ranges])
    assert expand_ranges(starts, lengths).tolist() == [start + i for start, length in ranges for i in range(length)]


def test_addresses_are_narrow_only_where_they_fit() -> None:
    assert narrow_type(2**31 - 1) is np.int32
    assert narrow_type(2**31) is np.int64
