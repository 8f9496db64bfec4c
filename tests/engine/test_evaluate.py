"""Arrow's kernels, the reference and DuckDB give the same value for every function, in every row."""

from __future__ import annotations

import datetime as dt
import math
import sys
import unicodedata
from decimal import Decimal

import duck
import pyarrow as pa
import pytest
import strategies as some
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import reference
from headrace.engine.arrow_types import arrow_schema, arrow_type, data_type
from headrace.engine.evaluate import KERNELS, Columns, evaluate, filter_mask
from headrace.errors import PlanError
from headrace.model import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
    TypeKind,
    decimal,
)
from headrace.plan.expressions import ColumnRef, Expression, Literal, Value, render
from headrace.plan.functions import FUNCTIONS, call, cast

Rows = list[dict[str, Value]]


@pytest.fixture(scope="module")
def database() -> duck.duckdb.DuckDBPyConnection:
    return duck.connect()


def columns_of(rows: Rows, cut: int | None = None) -> Columns:
    """The rows as Arrow columns that do not start at their buffers' start; ``cut`` splits them into chunks."""

    def column(wanted: ColumnRef) -> pa.Array | pa.ChunkedArray:
        array = pa.array([None, *(row[wanted.name] for row in rows)], arrow_type(wanted.type))[1:]
        return array if cut is None else pa.chunked_array([array[:cut], array[cut:]])

    return column


def by_arrow(expression: Expression, rows: Rows, cut: int | None = None) -> list[Value]:
    result = evaluate(expression, columns_of(rows, cut), len(rows))
    result.validate(full=True)
    assert result.type == arrow_type(expression.type)
    return result.to_pylist()


def by_reference(expression: Expression, rows: Rows) -> list[Value]:
    return [reference.value(expression, lambda column, row=row: row[column.name]) for row in rows]


def check(expression: Expression, rows: Rows, database: duck.duckdb.DuckDBPyConnection) -> None:
    text = render(expression, lambda column: column.name)
    wanted = by_reference(expression, rows)
    got = by_arrow(expression, rows)
    assert some.all_agree(got, wanted), f"{text}\narrow     {got}\nreference {wanted}"
    (told,) = duck.values([expression], some.MIXED, rows, database)
    assert some.all_agree(told, wanted), f"{text}\nduckdb    {told}\nreference {wanted}"


def constant(expression: Expression) -> Value:
    """An expression without columns, which Arrow and the reference must agree on."""
    (got,), (wanted,) = by_arrow(expression, [{}]), by_reference(expression, [{}])
    assert some.agree(got, wanted), (got, wanted)
    return got


def text(value: str | None) -> Literal:
    return Literal(value, STRING)


def number(value: float | None) -> Literal:
    return Literal(value, DOUBLE)


def whole(value: int | None) -> Literal:
    return Literal(value, BIGINT)


# --- everything at random


def test_every_function_has_a_kernel_and_a_signature() -> None:
    assert set(KERNELS) == {*FUNCTIONS, "cast"}
    assert set(some.SIGNATURES) == set(FUNCTIONS)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@given(data=st.data())
@settings(max_examples=12)
def test_function_agrees(name: str, data: st.DataObject, database: duck.duckdb.DuckDBPyConnection) -> None:
    check(data.draw(some.any_call(name)), data.draw(some.rows()), database)


@pytest.mark.parametrize(("source", "to"), some.CASTS, ids=str)
@given(data=st.data())
@settings(max_examples=7)
def test_cast_agrees(
    source: DataType, to: DataType, data: st.DataObject, database: duck.duckdb.DuckDBPyConnection
) -> None:
    check(cast(some.columns(source)[0], to), data.draw(some.rows()), database)


@given(data=st.data())
@settings(max_examples=100)
def test_nested_expressions_agree(data: st.DataObject, database: duck.duckdb.DuckDBPyConnection) -> None:
    wanted = data.draw(st.sampled_from((*some.TYPES, INTERVAL)))
    check(data.draw(some.expressions(wanted, depth=4)), data.draw(some.rows()), database)


@given(data=st.data())
@settings(max_examples=50)
def test_chunks_make_no_difference(data: st.DataObject) -> None:
    expression = data.draw(st.sampled_from(some.TYPES).flatmap(some.expressions))
    rows = data.draw(some.rows())
    cut = data.draw(st.integers(0, len(rows)))
    assert some.all_agree(by_arrow(expression, rows, cut), by_arrow(expression, rows))


@given(data=st.data())
@settings(max_examples=50)
def test_filter_keeps_the_rows_where_all_conditions_are_true(data: st.DataObject) -> None:
    conditions = data.draw(st.lists(some.expressions(BOOLEAN), max_size=3))
    rows = data.draw(some.rows())
    mask = filter_mask(conditions, columns_of(rows, cut=1), len(rows))
    met = [by_reference(condition, rows) for condition in conditions]
    kept = [all(values[i] is True for values in met) for i in range(len(rows))]
    assert (None if mask is None else mask.to_pylist()) == (None if all(kept) else kept)


# --- the rules, one by one


def test_filter_of_nothing_passes_everything() -> None:
    assert filter_mask([], columns_of([]), 3) is None
    assert filter_mask([Literal(True, BOOLEAN)], columns_of([]), 3) is None


def test_null_condition_keeps_nothing() -> None:
    assert filter_mask([Literal(None, NULL)], columns_of([]), 2).to_pylist() == [False, False]


def test_literal_fills_every_row() -> None:
    assert evaluate(text("a"), columns_of([]), 3).to_pylist() == ["a", "a", "a"]
    assert evaluate(Literal(None, INT), columns_of([]), 2).type == pa.int32()


def test_bare_column_comes_back_as_it_is() -> None:
    column = pa.chunked_array([[1], [2]], pa.int64())
    assert evaluate(ColumnRef(0, "n", BIGINT), lambda _: column, 2) is column


def test_integers_wrap_round() -> None:
    most = 2**63 - 1
    assert constant(call("+", whole(most), whole(1))) == -most - 1
    assert constant(call("*", whole(most), whole(2))) == -2
    assert constant(call("neg", whole(-most - 1))) == -most - 1
    assert constant(call("abs", whole(-most - 1))) == -most - 1


def test_division_by_zero_is_null() -> None:
    assert constant(call("/", whole(1), whole(0))) is None
    assert constant(call("%", whole(1), whole(0))) is None
    assert constant(call("%", number(1.0), number(0.0))) is None


def test_remainder_has_the_sign_of_the_dividend() -> None:
    assert constant(call("%", whole(-7), whole(3))) == -1
    assert constant(call("%", number(7.5), number(-2.0))) == 1.5
    assert constant(call("%", whole(-(2**63)), whole(-1))) == 0


def test_nan_equals_itself_and_is_above_infinity() -> None:
    nan = number(math.nan)
    assert constant(call("=", nan, nan)) is True
    assert constant(call("<", number(math.inf), nan)) is True
    assert constant(call("<", nan, nan)) is False
    assert constant(call("<=", nan, nan)) is True
    assert constant(call("in", nan, number(1.0), nan)) is True
    assert math.isnan(constant(call("greatest", number(math.inf), nan, number(None))))
    assert constant(call("least", nan, number(math.inf))) == math.inf


@pytest.mark.parametrize(
    ("value", "rounded"), [(0.5, 1.0), (-0.5, -1.0), (2.5, 3.0), (0.49999999999999994, 0.0), (1e300, 1e300)]
)
def test_halves_round_away_from_zero(value: float, rounded: float) -> None:
    assert constant(call("round", number(value))) == rounded


def test_rounding_to_places() -> None:
    assert constant(call("round", number(123.456), whole(1))) == 123.5
    assert constant(call("round", number(151.0), whole(-2))) == 200.0
    assert constant(call("round", number(1.5), whole(400))) == 1.5
    assert constant(call("round", number(1.5), whole(-400))) == 0.0


def test_outside_their_domain_functions_give_null() -> None:
    assert constant(call("sqrt", number(-1.0))) is None
    assert constant(call("ln", number(0.0))) is None


def test_power_follows_c() -> None:
    assert constant(call("power", number(0.0), number(-1.0))) == math.inf
    assert constant(call("power", number(-0.0), number(-3.0))) == -math.inf
    assert constant(call("power", number(-10.0), number(999.0))) == -math.inf
    assert math.isnan(constant(call("power", number(-8.0), number(0.5))))


@pytest.mark.parametrize(
    ("value", "pattern", "matches"),
    [
        ("abc", "a%", True),
        ("abc", "A%", False),
        ("a\nc", "a_c", True),
        ("a\nb\nc", "a%c", True),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("a%", r"a\%", False),
        (r"a\b", r"a\%", True),
        ("", "%", True),
        ("", "_", False),
        ("😀", "_", True),
        ("ab", "%%", True),
        ("(a", "(_", True),
        ("ab\n", "ab", False),
    ],
)
def test_like(value: str, pattern: str, matches: bool) -> None:
    assert constant(call("like", text(value), text(pattern))) is matches


def test_pattern_may_differ_from_row_to_row() -> None:
    rows: Rows = [{"s0": "abc", "s1": "a%"}, {"s0": "abc", "s1": "_"}, {"s0": "b", "s1": None}, {"s0": "x", "s1": "_"}]
    columns = some.columns(STRING)
    assert by_arrow(call("like", *columns), rows) == [True, False, None, True]
    assert by_arrow(call("contains", *columns), rows) == [False, False, None, False]


@pytest.mark.parametrize(
    ("start", "length", "piece"),
    [
        (1, None, "héllo"),
        (2, 3, "éll"),
        (0, 3, "hé"),
        (0, None, "héllo"),
        (-2, None, "lo"),
        (-7, 3, "h"),
        (-(2**63), None, "héllo"),
        (2**63 - 1, 2**63 - 1, ""),
        (3, -1, ""),
        (3, 0, ""),
    ],
)
def test_substring(start: int, length: int | None, piece: str) -> None:
    args = (whole(start),) if length is None else (whole(start), whole(length))
    assert constant(call("substring", text("héllo"), *args)) == piece


def test_decimals_have_no_negative_zero() -> None:
    zero = Literal(Decimal("0.00"), decimal(3, 2))
    assert constant(cast(call("neg", zero), STRING)) == "0.00"
    assert constant(cast(cast(text("-0.001"), decimal(3, 2)), STRING)) == "0.00"


def test_lengths_are_code_points() -> None:
    assert constant(call("length", text("e\u0301😀"))) == 3
    assert constant(call("reverse", text("ae\u0301"))) == "\u0301ea"


@pytest.mark.parametrize("name", ["upper", "lower"])
def test_case_is_changed_letter_by_letter(name: str) -> None:
    """Every letter Python knows; Arrow may know some of a later Unicode."""
    letters = [chr(i) for i in range(1, sys.maxunicode + 1) if unicodedata.category(chr(i)) not in ("Cs", "Cn")]
    rows: Rows = [{"s0": letter} for letter in letters]
    column = some.columns(STRING)[0]
    pairs = zip(letters, by_arrow(call(name, column), rows), by_reference(call(name, column), rows), strict=True)
    different = [letter for letter, got, wanted in pairs if got != wanted and unicodedata.category(str(got)) != "Cn"]
    assert different == []


def test_time_that_leaves_the_calendar_is_null() -> None:
    last = Literal(dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC), TIMESTAMP)
    assert constant(call("+", last, Literal(1, INTERVAL))) is None
    assert constant(call("+", Literal(2**63 - 1, INTERVAL), last)) is None
    assert constant(call("-", last, Literal(0, INTERVAL))) == last.value


def test_difference_of_times_is_microseconds() -> None:
    first, second = (Literal(some.at(seconds), TIMESTAMP) for seconds in (1, 2.5))
    assert constant(call("-", second, first)) == 1_500_000


def test_truncation_of_times_before_1970() -> None:
    time = Literal(dt.datetime(1969, 5, 1, 10, 0, 0, 123_456, tzinfo=dt.UTC), TIMESTAMP)
    assert constant(call("date_trunc", text("Seconds"), time)) == time.value.replace(microsecond=0)
    assert constant(call("date_trunc", text("week"), time)) == dt.datetime(1969, 4, 28, tzinfo=dt.UTC)
    assert constant(call("date_trunc", text("fortnight"), time)) is None


@pytest.mark.parametrize(
    ("written", "to", "read"),
    [
        (" 12 ", BIGINT, 12),
        ("1.5", BIGINT, None),
        ("-2147483649", INT, None),
        ("-2147483648", INT, -(2**31)),
        ("9223372036854775808", BIGINT, None),
        ("18446744073709551617", BIGINT, None),
        ("-0", BIGINT, 0),
        ("1_000", BIGINT, None),
        ("+.5e1", DOUBLE, 5.0),
        ("1e400", DOUBLE, math.inf),
        ("0x10", DOUBLE, None),
        ("YES", BOOLEAN, True),
        ("on", BOOLEAN, None),
        ("999.995", decimal(5, 2), None),
        ("-0.005", decimal(5, 2), Decimal("-0.01")),
        ("0" * 50 + "1." + "4" * 50, decimal(5, 2), Decimal("1.44")),
        ("9" * 38, decimal(38, 0), Decimal("9" * 38)),
        ("9" * 39, decimal(38, 0), None),
        ("0." + "9" * 39, decimal(38, 38), None),
        ("2024-02-30", DATE, None),
        ("2024-02-29", DATE, dt.date(2024, 2, 29)),
        ("1900-02-29", DATE, None),
        ("2024-02-29T10:00:00.25+01:30", TIMESTAMP, dt.datetime(2024, 2, 29, 8, 30, 0, 250_000, tzinfo=dt.UTC)),
        ("2024-02-29 10:00 ", TIMESTAMP, dt.datetime(2024, 2, 29, 10, tzinfo=dt.UTC)),
        ("0001-01-01 00:00:00+00:01", TIMESTAMP, None),
        ("2024-02-29 10", TIMESTAMP, None),
    ],
)
def test_cast_of_text(written: str, to: DataType, read: Value) -> None:
    assert constant(cast(text(written), to)) == read


@pytest.mark.parametrize(
    ("value", "of", "written"),
    [
        (1.0, DOUBLE, "1.0"),
        (1e16, DOUBLE, "1e+16"),
        (-math.inf, DOUBLE, "-inf"),
        (Decimal("-0.50"), decimal(2, 2), "-0.50"),
        (Decimal("1E-38"), decimal(38, 38), "0." + "0" * 37 + "1"),
        (Decimal("-" + "9" * 38), decimal(38, 0), "-" + "9" * 38),
        (dt.datetime(1, 2, 3, 4, 5, 6, 780_000, tzinfo=dt.UTC), TIMESTAMP, "0001-02-03 04:05:06.78"),
        (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), TIMESTAMP, "2020-01-01 00:00:00"),
        (dt.date(33, 4, 3), DATE, "0033-04-03"),
        (False, BOOLEAN, "false"),
    ],
)
def test_cast_to_text(value: Value, of: DataType, written: str) -> None:
    assert constant(cast(Literal(value, of), STRING)) == written


@pytest.mark.parametrize(
    ("value", "of", "to", "result"),
    [
        (2.5, DOUBLE, BIGINT, 3),
        (-2.5, DOUBLE, INT, -3),
        (math.nan, DOUBLE, BIGINT, None),
        (9.3e18, DOUBLE, BIGINT, None),
        (-(2.0**63), DOUBLE, BIGINT, -(2**63)),
        (2147483647.0, DOUBLE, INT, 2**31 - 1),
        (2147483647.5, DOUBLE, INT, None),
        (2.0**63, DOUBLE, BIGINT, None),
        (Decimal("99.5"), decimal(3, 1), BIGINT, 100),
        (Decimal("9" * 38), decimal(38, 0), BIGINT, None),
        (Decimal("0." + "9" * 38), decimal(38, 38), decimal(38, 37), Decimal(1)),
        (1e37, DOUBLE, decimal(38, 0), Decimal(int(1e37))),
        (-1e37, DOUBLE, decimal(38, 0), Decimal(int(-1e37))),
        (1e38, DOUBLE, decimal(38, 0), None),
        (-(2.0**64), DOUBLE, decimal(38, 0), Decimal(-(2**64))),
        (2**63 - 1, BIGINT, decimal(18, 0), None),
        (2**31, BIGINT, INT, None),
        (Decimal("0.1"), decimal(30, 20), DOUBLE, 0.1),
        (7, BIGINT, BOOLEAN, True),
    ],
)
def test_cast_of_numbers(value: Value, of: DataType, to: DataType, result: Value) -> None:
    assert constant(cast(Literal(value, of), to)) == result


# --- types


@pytest.mark.parametrize("one", [*some.TYPES, NULL, decimal(38, 38)], ids=str)
def test_types_survive_the_round_trip(one: DataType) -> None:
    assert data_type(arrow_type(one)) == one


def test_every_kind_has_an_arrow_type() -> None:
    for kind in TypeKind:
        assert arrow_type(decimal(3, 1) if kind is TypeKind.DECIMAL else DataType(kind)) is not None


def test_arrow_type_that_is_not_ours_is_refused() -> None:
    with pytest.raises(PlanError, match="uint8"):
        data_type(pa.uint8())


def test_arrow_schema_keeps_names_and_order() -> None:
    assert arrow_schema(some.EVENT).names == ["ts", "id", "k", "name", "x"]
    assert arrow_schema(some.EVENT).field("ts").type == pa.timestamp("us", "UTC")
