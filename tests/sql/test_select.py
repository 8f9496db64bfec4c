"""What a SELECT means: sources, outputs, conditions."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from headrace.model import BIGINT, DATE, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, decimal
from headrace.plan.expressions import ColumnRef, Expression, Literal, render
from headrace.plan.queries import Query, Source, within_us
from headrace.sql import read_script

STREAMS = """CREATE STREAM t
  (k BIGINT, v DOUBLE, name STRING, ts TIMESTAMP, d DATE, p DECIMAL(10, 2), ok BOOLEAN, n INT)
  WITH (connector = 'files', path = 't', time = 'ts');
CREATE STREAM h (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (connector = 'files', path = 'h', time = 'ts');
"""
CATALOG = read_script(STREAMS).catalog


def bound(text: str) -> Query:
    (query,) = read_script(text, CATALOG).queries
    return query


def shown(query: Query, expression: Expression) -> str:
    return render(expression, lambda ref: f"{query.sources[ref.source].alias}.{ref.name}")


def output(expression: str) -> str:
    """A lone output expression, as bound and rendered."""
    query = bound(f"SELECT {expression} FROM t")
    return shown(query, query.outputs[0].expression).replace("t.", "")


def literal(expression: str) -> Literal:
    found = bound(f"SELECT v FROM t WHERE n = 1 AND {expression}").conditions[1]
    return next(node for node in found.args if isinstance(node, Literal))  # type: ignore[union-attr]


def test_comma_join_and_join_on_are_the_same_query() -> None:
    one = bound("SELECT a.v FROM t a, h b WHERE a.k = b.k AND a.v > 30 WINDOW 1 MINUTE")
    other = bound("select A.V from T as a inner join H b on a.k = B.K where a.v > 30 window 60 Seconds")
    assert one == other
    assert one.sources == (Source("t", "a"), Source("h", "b"))  # type: ignore[arg-type]
    assert [shown(one, condition) for condition in one.conditions] == ["(a.k = b.k)", "(a.v > 30.0e0)"]
    assert one.windows == within_us(60_000_000)


def test_window_is_a_column_where_a_value_stands() -> None:
    catalog = read_script("CREATE STREAM s (`window` INT, ts TIMESTAMP) WITH (connector = 'generator')").catalog
    (query,) = read_script("SELECT s.window FROM s WHERE s.window > 1 WINDOW 1 s", catalog).queries
    assert query.outputs[0].name == "window"
    assert query.windows == within_us(1_000_000, sources=1)


def test_self_join_reads_the_stream_twice() -> None:
    query = bound("SELECT a.v, b.v AS w FROM t a, t b WHERE a.k = b.k WINDOW 1 s")
    assert query.outputs[1].expression == ColumnRef(1, "v", DOUBLE)


def test_star_names_clashing_columns_by_alias() -> None:
    names = bound("SELECT * FROM h a, h b WHERE a.k = b.k WINDOW 1 s").schema.names
    assert names == ("k", "v", "ts", "b_k", "b_v", "b_ts")
    assert bound("SELECT b.*, a.v + 1 AS x FROM t a, h b WHERE a.k = b.k WINDOW 1 s").schema.names == (
        "k",
        "v",
        "ts",
        "x",
    )
    assert bound("SELECT n AS v, h.* FROM t, h WHERE t.k = h.k WINDOW 1 s").schema.names == ("v", "k", "h_v", "ts")


def test_output_without_alias_has_a_stable_name() -> None:
    assert bound("SELECT t.V, v + 1, (name), CAST(n AS INT) FROM t").schema.names == (
        "v",
        "column_2",
        "name",
        "column_4",
    )


def test_bare_null_is_a_string() -> None:
    assert bound("SELECT NULL AS x FROM t").outputs[0].expression == Literal(None, STRING)


@pytest.mark.parametrize(
    ("written", "rendered"),
    [
        ("v BETWEEN 1 AND 2", "((v >= 1.0e0) AND (v <= 2.0e0))"),
        ("v NOT BETWEEN 1 AND 2", "(NOT ((v >= 1.0e0) AND (v <= 2.0e0)))"),
        ("n NOT IN (1, 2)", "(NOT (n IN (1, 2)))"),
        ("name NOT LIKE 'a%'", "(NOT (name LIKE 'a%'))"),
        ("name NOT ILIKE 'a%'", "(NOT (name ILIKE 'a%'))"),
        ("NOT name LIKE 'a%'", "(NOT (name LIKE 'a%'))"),
        ("name IS NOT NULL", "(NOT (name IS NULL))"),
        ("name IS NULL", "(name IS NULL)"),
        ("ok IS TRUE", "COALESCE(ok, FALSE)"),
        ("ok IS NOT FALSE", "(NOT COALESCE((NOT ok), FALSE))"),
        ("n != 1", "(n <> 1)"),
        ("n == 1", "(n = 1)"),
        ("ok AND (ok AND NOT ok) OR ok", "((ok AND ok AND (NOT ok)) OR ok)"),
        ("IF(ok, 1, 2)", "CASE WHEN ok THEN 1 ELSE 2 END"),
        ("IFF(ok, 'x')", "CASE WHEN ok THEN 'x' ELSE NULL END"),
        ("CASE n WHEN 1 THEN 2 WHEN 2 THEN 3 END", "CASE WHEN (n = 1) THEN 2 WHEN (n = 2) THEN 3 ELSE NULL END"),
        ("CASE WHEN ok THEN 1 ELSE 2 END", "CASE WHEN ok THEN 1 ELSE 2 END"),
        ("name || 'x'", "(name || 'x')"),
        ("CONCAT(name, 'x', NULL)", "((name || 'x') || NULL)"),
        ("CAST(n AS STRING)", "TRY_CAST(n AS STRING)"),
        ("TRY_CAST(name AS DECIMAL(5, 1))", "TRY_CAST(name AS DECIMAL(5, 1))"),
        ("n::BIGINT", "TRY_CAST(n AS BIGINT)"),
        ("EXTRACT(YEAR FROM ts)", "YEAR(ts)"),
        ("extract(second from ts)", "SECOND(ts)"),
        ("DATE_TRUNC('HOUR', ts)", "DATE_TRUNC('hour', ts)"),
        ("NVL(name, 'x')", "COALESCE(name, 'x')"),
        ("MOD(n, 2)", "(TRY_CAST(n AS BIGINT) % NULLIF(2, 0))"),
        ("LEFT(name, 2)", "SUBSTRING(name, 1, 2)"),
        ("SUBSTRING(name FROM 2 FOR 3)", "SUBSTRING(name, 2, 3)"),
        ("SUBSTR(name, 2)", "SUBSTRING(name, 2)"),
        ("POW(v, 2)", "POWER(v, 2.0e0)"),
        ("CEILING(v)", "CEIL(v)"),
        ("ISNULL(name)", "(name IS NULL)"),
        ("name = \"GOOG\"", "(name = 'GOOG')"),
        ("name = 'it''s'", "(name = 'it''s')"),
        ("+v", "v"),
        ("-v", "(- v)"),
    ],
)  # fmt: skip
def test_forms_are_lowered(written: str, rendered: str) -> None:
    assert output(written).replace("TRY_CAST(n AS INT)", "n") == rendered


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("n = 5", Literal(5, INT)),
        ("n = -2147483648", Literal(-2147483648, INT)),
        ("k = 2147483648", Literal(2147483648, BIGINT)),
        ("v = 1.5", Literal(1.5, DOUBLE)),
        ("v = 1e3", Literal(1000.0, DOUBLE)),
        ("ts > '2026-01-31 12:00'", Literal(dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC), TIMESTAMP)),
        ("ts > '2026-01-31T12:00:00+01:00'", Literal(dt.datetime(2026, 1, 31, 11, tzinfo=dt.UTC), TIMESTAMP)),
        ("ts = TIMESTAMP '2026-01-31'", Literal(dt.datetime(2026, 1, 31, tzinfo=dt.UTC), TIMESTAMP)),
        ("d = '2026-01-31'", Literal(dt.date(2026, 1, 31), DATE)),
        ("d = DATE '2026-01-31'", Literal(dt.date(2026, 1, 31), DATE)),
        ("ts - ts < INTERVAL '5' SECOND", Literal(5_000_000, INTERVAL)),
        ("ts - ts < INTERVAL 5 SECONDS", Literal(5_000_000, INTERVAL)),
        ("ts - ts < INTERVAL '1.5 minutes'", Literal(90_000_000, INTERVAL)),
        ("ts - ts > INTERVAL '-2' hours", Literal(-7_200_000_000, INTERVAL)),
    ],
)
def test_literals_take_their_types(written: str, value: Literal) -> None:
    assert literal(written) == value


def test_number_with_a_point_is_an_exact_decimal() -> None:
    assert bound("SELECT 10.50 AS x FROM t").outputs[0].expression == Literal(Decimal("10.50"), decimal(4, 2))


def test_string_in_a_list_beside_a_time_is_a_time() -> None:
    rendered = output("ts IN ('2026-01-01', '2026-01-02')")
    assert rendered == "(ts IN (TIMESTAMP '2026-01-01 00:00:00.000000', TIMESTAMP '2026-01-02 00:00:00.000000'))"


def test_quoted_names_are_names() -> None:
    assert bound('SELECT `v`, t."n" AS "my column" FROM `t`').schema.names == ("v", "my column")


def test_into_comes_after_window() -> None:
    query = bound("SELECT v FROM t WHERE v > 1 WINDOW 1 s INTO (connector = 'console')")
    assert (query.windows, query.into) == (within_us(1_000_000, sources=1), (("connector", "console"),))
