"""A service rate that several joins share: nobody has more than he needs, and the rest is shared alike."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.service_parts import fair_parts

NEEDS = st.lists(st.floats(0, 1e6), min_size=1, max_size=6)


@given(st.floats(0, 1e6), NEEDS)
def test_parts_are_max_min_fair(total: float, needs: list[float]) -> None:
    taken = [min(need, part) for need, part in zip(needs, fair_parts(total, needs), strict=True)]
    assert sum(taken) == pytest.approx(min(total, sum(needs)))
    short = [took for took, need in zip(taken, needs, strict=True) if took < need]
    assert all(took == pytest.approx(max(taken)) for took in short)


@given(st.floats(0, 1e6), NEEDS)
def test_parts_do_not_rest_on_the_order(total: float, needs: list[float]) -> None:
    assert fair_parts(total, needs[::-1]) == fair_parts(total, needs)[::-1]


def test_one_has_all_and_without_a_limit_so_has_each() -> None:
    assert fair_parts(300, [10]) == [300]
    assert fair_parts(inf, [10, 20]) == [inf, inf]
    assert fair_parts(300, []) == []
