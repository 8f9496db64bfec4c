"""What aggregates, GROUP BY and HAVING mean; their errors are in ``golden/errors/aggregates.txt``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.errors import PlanError
from headrace.model import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, decimal
from headrace.plan.aggregates import GROUP, Aggregate, Fold, aggregate_ref, key_ref
from headrace.plan.expressions import ColumnRef, Expression, render
from headrace.plan.queries import Query, within_us
from headrace.sql import read_script

STREAMS = """CREATE STREAM t
  (k BIGINT, v DOUBLE, name STRING, ts TIMESTAMP, d DATE, p DECIMAL(10, 2), ok BOOLEAN, n INT)
  WITH (connector = 'files', path = 't', time = 'ts');
CREATE STREAM h (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (connector = 'files', path = 'h', time = 'ts');
"""
CATALOG = read_script(STREAMS).catalog
K, V, N = ColumnRef(0, "k", BIGINT), ColumnRef(0, "v", DOUBLE), ColumnRef(0, "n", INT)
COUNT = Aggregate(Fold.COUNT)


def bound(text: str) -> Query:
    (query,) = read_script(text, CATALOG).queries
    return query


def grouped(text: str) -> tuple[tuple[Expression, ...], tuple[Aggregate, ...]]:
    grouping = bound(text).grouping
    assert grouping is not None
    return grouping.keys, grouping.aggregates


def outputs(text: str) -> list[str]:
    """The outputs, with the group's row as ``agg0`` and ``key0``."""
    return [render(one.expression, _shown) for one in bound(text).outputs]


def _shown(ref: ColumnRef) -> str:
    assert ref.source == GROUP
    return ref.name


def having(text: str) -> str:
    grouping = bound(text).grouping
    assert grouping is not None
    assert grouping.having is not None
    return render(grouping.having, _shown)


@pytest.mark.parametrize(
    ("written", "aggregate"),
    [
        ("COUNT(*)", COUNT),
        ("count(ALL *)", COUNT),
        ("COUNT(1)", COUNT),
        ("COUNT(n)", Aggregate(Fold.COUNT, N)),
        ("COUNT(DISTINCT t.n)", Aggregate(Fold.DISTINCT, N)),
        ("SUM(n)", Aggregate(Fold.SUM, N)),
        ("Avg(v)", Aggregate(Fold.AVG, V)),
        ("MIN(v)", Aggregate(Fold.MIN, V)),
        ("min(DISTINCT v)", Aggregate(Fold.MIN, V)),
        ("MAX(DISTINCT (v))", Aggregate(Fold.MAX, V)),
        ("`max`(v)", Aggregate(Fold.MAX, V)),
        ("COUNT(*) FILTER (WHERE ok)", Aggregate(Fold.COUNT, None, ColumnRef(0, "ok", BOOLEAN))),
        ("SUM(v) filter(where ok)", Aggregate(Fold.SUM, V, ColumnRef(0, "ok", BOOLEAN))),
    ],
)
def test_aggregate_is_read(written: str, aggregate: Aggregate) -> None:
    query = bound(f"SELECT {written} AS x FROM t WINDOW 1 MINUTE")
    assert query.grouping is not None
    assert (query.grouping.keys, query.grouping.aggregates) == ((), (aggregate,))
    assert query.outputs[0].expression == aggregate_ref(0, aggregate)


@pytest.mark.parametrize(
    ("written", "data_type"),
    [
        ("COUNT(name)", BIGINT),
        ("COUNT(DISTINCT v)", BIGINT),
        ("SUM(n)", BIGINT),
        ("SUM(v)", DOUBLE),
        ("SUM(p)", decimal(20, 2)),
        ("AVG(n)", DOUBLE),
        ("AVG(p)", DOUBLE),
        ("MAX(n)", INT),
        ("MIN(name)", STRING),
        ("MAX(ts)", TIMESTAMP),
        ("MIN(d)", DATE),
        ("MAX(ok)", BOOLEAN),
        ("MIN(p)", decimal(10, 2)),
    ],
)
def test_aggregate_has_its_type(written: str, data_type: DataType) -> None:
    assert bound(f"SELECT {written} FROM t WINDOW 1 s").outputs[0].expression.type == data_type


@pytest.mark.parametrize("window", ["t WINDOW 1 MINUTE", "t [RANGE 1 MINUTE]"])
def test_single_stream_has_a_window_of_its_own_or_at_the_end(window: str) -> None:
    assert bound(f"SELECT COUNT(*) FROM {window}").windows == within_us(60_000_000, sources=1)


def test_rows_of_a_group_have_their_time_last() -> None:
    schema = bound("SELECT k, COUNT(*) AS c FROM t GROUP BY k WINDOW 1 s").schema
    assert [(column.name, column.type) for column in schema] == [("k", BIGINT), ("c", BIGINT), ("ts", TIMESTAMP)]


def test_equal_aggregates_are_one() -> None:
    text = "SELECT MAX(v) AS a, MAX(T.V) - MIN(v) AS b FROM t HAVING MAX(v) > 1 AND COUNT(*) > 1 WINDOW 1 s"
    assert grouped(text) == ((), (Aggregate(Fold.MAX, V), Aggregate(Fold.MIN, V), COUNT))
    assert outputs(text) == ["agg0", "(agg0 - agg1)"]
    assert having(text) == "((agg0 > 1.0e0) AND (agg2 > 1))"


def test_aggregates_with_other_filters_are_others() -> None:
    text = (
        "SELECT COUNT(*) AS a, COUNT(*) FILTER (WHERE ok) AS b, COUNT(*) FILTER (WHERE NOT ok) AS c FROM t WINDOW 1 s"
    )
    assert len(grouped(text)[1]) == 3


def test_expression_over_aggregates_and_keys() -> None:
    text = "SELECT COUNT(*) * 100 / (n + 1) AS x, 'fix' AS y FROM t GROUP BY n + 1 WINDOW 1 s"
    assert outputs(text) == ["(TRY_CAST((agg0 * 100) AS DOUBLE) / NULLIF(TRY_CAST(key0 AS DOUBLE), 0))", "'fix'"]


@pytest.mark.parametrize(
    "written",
    [
        "SELECT n % 10 AS bucket, COUNT(*) AS c FROM t GROUP BY n % 10 WINDOW 1 s",
        "SELECT n % 10 AS bucket, COUNT(*) AS c FROM t GROUP BY MOD(T.N, 10) WINDOW 1 s",
        "SELECT n % 10 AS bucket, COUNT(*) AS c FROM t GROUP BY bucket WINDOW 1 s",
        "SELECT n % 10 AS bucket, COUNT(*) AS c FROM t GROUP BY `Bucket` WINDOW 1 s",
        "SELECT n % 10 AS bucket, COUNT(*) AS c FROM t GROUP BY 1 WINDOW 1 s",
        "SELECT n % 10 AS bucket, COUNT(*) AS c FROM t GROUP BY (n % 10), bucket, 1 WINDOW 1 s",
    ],
)
def test_key_is_an_expression_an_alias_or_a_position(written: str) -> None:
    assert bound(written) == bound("SELECT n % 10 AS bucket, COUNT(*) AS c FROM t GROUP BY n % 10 WINDOW 1 s")
    assert outputs(written) == ["key0", "agg0"]


def test_name_of_a_column_is_the_column_and_not_the_alias() -> None:
    assert grouped("SELECT COUNT(*) AS n, k % 2 AS v FROM t GROUP BY n, k WINDOW 1 s")[0] == (N, K)


def test_column_of_a_key_keeps_its_name() -> None:
    query = bound("SELECT (a.K), a.v FROM t a, h b GROUP BY a.v, a.k, b.k WINDOW 1 s")
    assert query.schema.names == ("k", "v", "ts")
    assert [one.expression for one in query.outputs] == [key_ref(1, K), key_ref(0, V)]


def test_keys_in_brackets_are_keys() -> None:
    assert grouped("SELECT COUNT(*) FROM t GROUP BY (k, v), n WINDOW 1 s")[0] == (K, V, N)


def test_groups_without_aggregates() -> None:
    assert grouped("SELECT k FROM t GROUP BY k WINDOW 1 s") == ((K,), ())


def test_having_alone_makes_one_group() -> None:
    assert grouped("SELECT TRUE AS many FROM t HAVING COUNT(*) > 3 WINDOW 1 s") == ((), (COUNT,))


def test_having_reads_aliases_that_no_column_has() -> None:
    text = "SELECT k % 2 AS odd, COUNT(*) AS c, MAX(v) AS v FROM t GROUP BY k % 2, v HAVING c + odd > 3 AND v > 1"
    assert having(f"{text} WINDOW 1 s") == "(((agg0 + key0) > 3) AND (key1 > 1.0e0))"


def test_alias_in_double_quotes_is_a_text() -> None:
    assert (
        having("SELECT MAX(name) AS c FROM t HAVING c = \"c\" AND `c` > 'a' WINDOW 1 s")
        == "((agg0 = 'c') AND (agg0 > 'a'))"
    )


def test_text_beside_a_greatest_time_is_a_time() -> None:
    assert having("SELECT COUNT(*) FROM t HAVING MAX(ts) > '2026-01-01' WINDOW 1 s").endswith(
        "TIMESTAMP '2026-01-01 00:00:00.000000')"
    )


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("COUNT(*)", "count"),
        ("COUNT(1), COUNT(*), COUNT(*) FILTER (WHERE a.ok)", "count count_2 count_3"),
        ("COUNT(a.n), COUNT(DISTINCT a.n)", "count_n count_distinct_n"),
        ("MAX(a.v), MAX(b.v), MAX(b.v)", "max_v max_b_v max_b_v_2"),
        ("SUM(a.v + b.v), AVG(a.n), SUM(a.n)", "sum avg_n sum_n"),
        ("MIN(a.v), a.k AS min_v", "min_a_v min_v"),
        ("MIN(a.v), a.k + 1 AS MIN_V", "min_a_v MIN_V"),
        ("a.k, MAX(a.v) - MIN(a.v), COUNT(*)", "k column_2 count"),
    ],
)
def test_aggregate_without_an_alias_is_named_by_what_it_is(written: str, names: str) -> None:
    text = f"SELECT {written} FROM t a, h b GROUP BY a.k WINDOW 1 s"
    assert bound(text).schema.names == (*names.split(), "ts")


def test_window_is_a_column_in_having() -> None:
    catalog = read_script("CREATE STREAM s (`window` INT, ts TIMESTAMP) WITH (connector = 'generator')").catalog
    text = "SELECT COUNT(*) FROM s GROUP BY s.window HAVING s.window > 1 WINDOW 1 s"
    (query,) = read_script(text, catalog).queries
    assert query.grouping is not None
    assert query.grouping.keys == (ColumnRef(0, "window", INT),)


@pytest.mark.parametrize("freshness", ["60 SECONDS", "2 MINUTES"])
def test_freshness_beside_aggregates_is_the_window_or_longer(freshness: str) -> None:
    """A shorter one is refused: ``golden/errors/overload.txt``."""
    text = f"SELECT a.k, COUNT(*) AS n FROM t a FRESHNESS {freshness}, h b WHERE a.k = b.k GROUP BY a.k WINDOW 1 MINUTE"
    query = bound(f"{text} ON OVERLOAD ADAPT")
    with pytest.raises(PlanError, match="shorter than its window"):
        replace(query, freshness=within_us(59_000_000))
