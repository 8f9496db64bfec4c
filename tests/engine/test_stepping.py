"""One evaluation time to the next by binary search: the same history as pane by pane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.folded_rows import Panel
from headrace.engine.histories import LOWEST, History, Points, history_of
from headrace.engine.keys import number_groups
from headrace.engine.panes import PaneRun, Panes, dense_codes, sorting_order
from headrace.engine.stepping import step_history

Row = tuple[int | None, int, int, int | None]
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 4)),
        st.integers(0, 20),
        st.integers(-5, 5),
        st.one_of(st.none(), st.integers(0, 9)),
    ),
    max_size=12,
)


def panes(rows: list[Row], from_us: int) -> Panes:
    """(group, since, what it adds, extreme)."""
    keys = (pa.array([row[0] for row in rows], pa.int64()),)
    since_us = np.array([row[1] for row in rows], dtype=np.int64)
    return Panes(
        number_groups(keys, len(rows)),
        number_groups(keys, len(rows), again=True),
        since_us,
        np.full(len(rows), from_us, dtype=np.int64),
        keys,
        {"n": np.array([row[2] for row in rows], dtype=np.int64)},
        (pa.array([row[3] for row in rows], pa.int64()),),
        (False,),
    )


def told(history: History | None, window_us: int) -> dict[Any, list[tuple[Any, ...]]]:
    """Of each group in a window, its slots."""
    if history is None:
        return {}
    number = history.windows_us.index(window_us)
    begin = 0 if number == 0 else history.ends[number - 1]
    keys, bests = history.keys[0].to_pylist(), history.bests[0].to_pylist()
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for slot in range(begin, history.ends[number]):
        value = (int(history.at_us[slot]), int(history.sums["n"][slot]), bests[slot])
        found.setdefault(keys[history.owners[slot]], []).append(value)
    return found


@given(st.lists(ROWS.filter(bool), max_size=3), ROWS, st.integers(15, 25), st.integers(1, 6))
def test_a_step_is_the_history_with_one_time(kept: list[list[Row]], come: list[Row], before_us: int, on: int) -> None:
    runs = [PaneRun.of(panes(rows, LOWEST)) for rows in kept]
    coming = panes(come, before_us + on).reduced() if come else None
    windows = (3, 9, 30)
    stepped = step_history(
        runs, None if coming is None else PaneRun.of(coming.from_time(LOWEST)), before_us, before_us + on, windows
    )
    for window_us in windows:
        whole = history_of(runs, coming, before_us, before_us + on, window_us, Points())
        assert told(stepped, window_us) == told(whole, window_us)


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 3), st.integers(0, 1)), max_size=30))
def test_the_sorting_order_is_by_group_since_and_from(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array([row[number] for row in rows], dtype=np.int64) for number in range(3)]
    order = sorting_order(*columns)
    assert [rows[place] for place in order] == sorted(rows)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30))
def test_codes_compare_as_the_numbers_do(numbers: list[int]) -> None:
    codes, count = dense_codes(np.array(numbers, dtype=np.int64))
    assert codes.min() >= 0
    assert codes.max() < count
    assert sorted(zip(codes.tolist(), numbers, strict=True)) == sorted(
        zip(codes.tolist(), numbers, strict=True), key=lambda one: one[1]
    )


@given(st.lists(st.sampled_from([0, 3, 7, 2**40]), min_size=1, max_size=30))
def test_rows_with_one_code_are_one_pane(numbers: list[int]) -> None:
    panel = Panel.of((np.array(numbers, dtype=np.int64), 2**41))
    values = np.arange(len(numbers)) + 1
    totals = dict(zip([numbers[row] for row in panel.firsts], panel.total(values).tolist(), strict=True))
    assert totals == {one: sum(place + 1 for place, other in enumerate(numbers) if other == one) for one in numbers}
