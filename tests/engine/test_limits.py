"""A range of an index holds every row that meets the comparison, whatever the types, signs and sizes of its numbers."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from engine_cases import examples
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.arrow_types import arrow_type
from headrace.engine.evaluate import evaluate, filter_mask
from headrace.engine.keys import encode_keys
from headrace.engine.limits import limits_of, value_ranges
from headrace.model import BIGINT, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, DataType, StreamId, decimal
from headrace.plan.expressions import ColumnRef, Expression, Literal, Value, expression_text
from headrace.plan.functions import call
from headrace.plan.joingraph import KeyForm, join_graph
from headrace.plan.ranges import Range

WIDE = decimal(30, 6)
PRICE = decimal(6, 2)
LARGEST = 2**63 - 1
POOLS: dict[DataType, tuple[Value, ...]] = {
    INT: (0, 1, 2, -3, 7, 2**31 - 1, -(2**31), None),
    BIGINT: (0, 1, 2, 3, -5, 10**15, 2**61, 2**62, LARGEST, LARGEST - 1, -LARGEST, -LARGEST - 1, None),
    DOUBLE: (
        0.0, -0.0, 0.1, 0.2, 0.3, 0.30000000000000004, 1.0, -2.5, 5e-324, 1e-300, 1e16, 1e300, 1e308, -1e308, math.inf,
        -math.inf, math.nan, None,
    ),
    PRICE: (*tuple(map(Decimal, ("0.00", "0.01", "-0.01", "1.00", "9999.99", "-9999.99"))), None),
    WIDE: (*tuple(map(Decimal, ("0", "0.000001", "1", "-2.5", "9" * 24, "-" + "9" * 24, "12345678901234.5"))), None),
    TIMESTAMP: (
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 0, 0, 1, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 1, 0, 0, 2, 1, tzinfo=dt.UTC), dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC), None,
    ),
    STRING: ("", "a", "b", "aaaaaaaa", "aaaaaaaab", "aaaaaaaaa", "é漢", "\0", "zzzzzzzzzzzz", None),
}  # fmt: skip
"""Values near each other, at the ends of what there is, and neither."""
NUMBERS = (INT, BIGINT, DOUBLE, PRICE, WIDE)
LITERALS = {
    INT: (0, 2, -1),
    DOUBLE: (0.1, -2.5, 1e308, math.inf, math.nan, 3.0),
    PRICE: (Decimal("0.01"), Decimal("-2.50")),
}


def column(side: int, of: DataType) -> ColumnRef:
    return ColumnRef(side, f"c{list(POOLS).index(of)}", of)


def numbers() -> st.SearchStrategy[Expression]:
    """Columns of either side and constants, added, subtracted, negated, multiplied, their distance."""
    columns = st.builds(column, st.integers(0, 1), st.sampled_from(NUMBERS))
    constants = st.sampled_from([Literal(value, of) for of, some in LITERALS.items() for value in some])
    pairs = st.tuples(st.sampled_from("+-"), st.integers(0, 1), *(st.sampled_from(NUMBERS),) * 2)
    apart = pairs.map(lambda one: call(one[0], column(one[1], one[2]), column(1 - one[1], one[3])))

    def larger(some: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        return st.one_of(
            st.builds(call, st.sampled_from("+-"), some, st.one_of(some, constants)),
            st.builds(call, st.sampled_from("*/"), some, constants),
            st.builds(call, st.sampled_from(("neg", "abs")), some),
        )

    return st.recursive(st.one_of(columns, apart, apart), larger, max_leaves=3)


def times() -> st.SearchStrategy[Expression]:
    """Two times, moved or not, compared; or how far they are apart."""
    spans = st.sampled_from((0, 1_000_000, -2_000_001, LARGEST, 86_400_000_000)).map(lambda us: Literal(us, INTERVAL))
    here, there = column(0, TIMESTAMP), column(1, TIMESTAMP)
    moved = st.builds(lambda sign, span: call(sign, here, span), st.sampled_from("+-"), spans)
    return st.one_of(
        st.builds(lambda one, left: call(one, left, there), COMPARISONS, moved),
        st.builds(lambda one, span: call(one, call("-", here, there), span), COMPARISONS, spans),
    )


COMPARISONS = st.sampled_from(("<", "<=", ">", ">=", "="))


def conditions() -> st.SearchStrategy[Expression]:
    compared = st.builds(call, COMPARISONS, numbers(), st.one_of(numbers(), numbers()))
    return st.one_of(compared, compared, compared, times())


def rows_of(seed: int, rows: int) -> dict[str, pa.Array]:
    picks = np.random.default_rng(seed)
    return {
        column(0, of).name: pa.array([pool[pick] for pick in picks.integers(0, len(pool), rows)], arrow_type(of))
        for of, pool in POOLS.items()
    }


Side = dict[str, pa.Array]


def check(joined: list[Expression], sides: list[Side]) -> list[int]:
    """That each range alone, and all of an index together, hold all rows that meet the conditions; what they leave."""
    graph = join_graph((StreamId("a"), StreamId("b")), joined)
    left = []
    for side in graph.sides:
        for number, index in enumerate(graph.indexes[side]):
            ranges = [one for one in graph.ranges if (one.side, one.index) == (side, number)]
            for some in [ranges] * (len(ranges) > 1) + [[one] for one in ranges]:
                left.append(check_ranges(some, index.keys[0], joined, sides[side], sides[1 - side]))
    return left


def check_ranges(ranges: list[Range], key: Expression, joined: list[Expression], mine: Side, other: Side) -> int:
    """What the ranges leave of a side's rows for all rows of the other."""
    probes, meets = rows_in(other), meeting(ranges[0].side, joined, mine, other)
    values = evaluate(key, lambda ref: mine[ref.name], rows_in(mine))
    known = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    assert not meets[:, np.setdiff1d(np.arange(rows_in(mine)), known)].any()
    keys = encode_keys([values.take(pa.array(known))], KeyForm.ORDERED)
    order = np.argsort(keys, kind="stable")
    low, high = value_ranges(keys[order], limits_of(ranges, lambda ref: other[ref.name], probes), probes)
    for probe in range(probes):
        inside = known[order[low[probe] : high[probe]]]
        assert not len(np.setdiff1d(np.flatnonzero(meets[probe]), inside)), expression_text(joined[0], "ab")
    return int((high - low).sum())


def meeting(side: int, joined: list[Expression], mine: Side, other: Side) -> np.ndarray:
    """Which pairs meet the conditions: a row for each of the other side's."""
    pairs = (rows_in(other), rows_in(mine))
    others, mines = (pa.array(one.ravel()) for one in np.indices(pairs))

    def column(ref: ColumnRef) -> pa.Array:
        return mine[ref.name].take(mines) if ref.source == side else other[ref.name].take(others)

    mask = filter_mask(joined, column, pairs[0] * pairs[1])
    return np.ones(pairs, dtype=bool) if mask is None else np.asarray(mask).reshape(pairs)


def rows_in(side: Side) -> int:
    return len(next(iter(side.values())))


@given(condition=conditions(), seed=st.integers(0, 2**32 - 1), rows=st.sampled_from((3, 30)))
@examples(250)
def test_every_row_that_meets_a_comparison_is_in_the_range(condition: Expression, seed: int, rows: int) -> None:
    check([condition], [rows_of(seed, rows), rows_of(seed + 1, 30)])


@given(pair=st.tuples(conditions(), conditions()), seed=st.integers(0, 2**32 - 1))
@examples(80)
def test_and_in_the_range_of_two_comparisons(pair: tuple[Expression, Expression], seed: int) -> None:
    check(list(pair), [rows_of(seed, 30), rows_of(seed + 1, 30)])


@pytest.mark.parametrize("of", [STRING, WIDE, PRICE], ids=str)
@pytest.mark.parametrize("function", ["<", "<=", ">", ">=", "="])
def test_texts_and_decimals_are_searched_by(of: DataType, function: str) -> None:
    here, there = column(0, of), column(1, of)
    joined = call(function, here, there) if function != "=" else call("in", here, there, there)
    left = check([joined], [rows_of(1, 60), rows_of(2, 60)])
    assert left
    assert all(0 < one < 60 * 60 for one in left)


def test_a_distance_is_searched_from_both_sides_and_few_rows_are_left() -> None:
    values = np.random.default_rng(5).uniform(0, 1000, (2, 500))
    sides = [{column(0, DOUBLE).name: pa.array(one)} for one in values]
    apart = call("-", column(0, DOUBLE), column(1, DOUBLE))
    for joined in (
        [call("<=", call("abs", apart), Literal(1.0, DOUBLE))],
        [call(">=", apart, Literal(-1.0, DOUBLE)), call("<=", apart, Literal(1.0, DOUBLE))],
    ):
        near = int((np.abs(values[0][:, None] - values[1]) <= 1.0).sum())
        left = check(joined, sides)
        assert left.count(near) == 2  # exactly those: nothing is near enough to the ends for the margin to matter


def test_nan_in_a_segment_does_not_cost_the_rows_of_others() -> None:
    """NaN - b >= 5 holds, and NaN is above all: only a segment that has one is not cut."""
    joined = [call("<=", Literal(5.0, DOUBLE), call("-", column(1, DOUBLE), column(0, DOUBLE)))]
    name = column(0, DOUBLE).name
    sides = [{name: pa.array([0.0, 1.0, 7.0, 8.0])}, {name: pa.array([6.0])}]
    assert check(joined, sides)[0] == 2
    sides[0] = {name: pa.array([0.0, 1.0, 7.0, math.nan])}
    assert check(joined, sides)[0] == 4
