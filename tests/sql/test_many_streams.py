"""Joins of more than two streams: what FROM, JOIN and WHERE mean together; their errors are in ``golden/errors``."""

from __future__ import annotations

import pytest

from headrace.plan.expressions import Expression, render
from headrace.plan.queries import Extent, Measure, Query, within_us
from headrace.sql import read_script
from headrace.sql.select import MOST_STREAMS

STREAMS = "".join(
    f"CREATE STREAM {name} (k {key}, y INT, v DOUBLE, s STRING, ts TIMESTAMP) WITH (connector = 'generator');\n"
    for name, key in (("a", "INT"), ("b", "BIGINT"), ("c", "DOUBLE"), ("d", "INT"))
)
CATALOG = read_script(STREAMS).catalog
MINUTE = Extent(Measure.TIME, 60_000_000)


def bound(text: str) -> Query:
    (query,) = read_script(text, CATALOG).queries
    return query


def shown(query: Query, expression: Expression) -> str:
    return render(expression, lambda ref: f"{query.sources[ref.source].alias}.{ref.name}")


def conditions(query: Query) -> list[str]:
    return [shown(query, one) for one in query.conditions]


@pytest.mark.parametrize(
    "written",
    [
        "a, b, c, d WHERE a.y = b.y AND b.y = c.y AND c.v < d.v",
        "a JOIN b ON a.y = b.y JOIN c ON b.y = c.y JOIN d ON c.v < d.v",
        "a INNER JOIN b ON a.y = b.y, c JOIN d ON b.y = c.y AND c.v < d.v",
        "a, b JOIN c ON a.y = b.y AND b.y = c.y CROSS JOIN d WHERE c.v < d.v",
        "a JOIN b JOIN c ON a.y = b.y JOIN d ON b.y = c.y WHERE (c.v < d.v)",
        "a CROSS JOIN b CROSS JOIN c CROSS JOIN d WHERE a.y = b.y AND (b.y = c.y AND c.v < d.v)",
    ],
)
def test_commas_and_joins_in_any_mixture_are_one_query(written: str) -> None:
    query = bound(f"SELECT a.v FROM {written} WINDOW 1 MINUTE")
    assert [source.stream for source in query.sources] == ["a", "b", "c", "d"]
    assert [one for one in conditions(query) if one != "TRUE"] == ["(a.y = b.y)", "(b.y = c.y)", "(c.v < d.v)"]
    assert query.windows == within_us(60_000_000, sources=4)


def test_each_of_many_streams_has_its_window() -> None:
    query = bound("SELECT a.v FROM a [ROWS 5], b x [RANGE 2 s] JOIN c AS z [ROWS 7] ON x.y = z.y, d WINDOW 1 MINUTE")
    own = (Extent(Measure.ROWS, 5), Extent(Measure.TIME, 2_000_000), Extent(Measure.ROWS, 7))
    assert query.windows == (*own, MINUTE)
    assert [source.alias for source in query.sources] == ["a", "x", "z", "d"]


def test_a_stream_stands_three_times_under_aliases() -> None:
    query = bound("SELECT p.v, q.v AS w, a.v AS x FROM a p, a q, a WHERE p.y = q.y AND q.y < a.y WINDOW 5 ROWS")
    assert [(one.stream, one.alias) for one in query.sources] == [("a", "p"), ("a", "q"), ("a", "a")]
    assert query.windows == (Extent(Measure.ROWS, 5),) * 3
    assert conditions(query) == ["(p.y = q.y)", "(q.y < a.y)"]


def test_ranges_and_arithmetic_over_three_streams() -> None:
    query = bound("SELECT a.v FROM a, b, c WHERE c.v BETWEEN a.v - b.v AND a.v + b.v + 1 WINDOW 1 MINUTE")
    assert conditions(query) == ["(c.v >= (a.v - b.v))", "(c.v <= ((a.v + b.v) + 1.0e0))"]


def test_conditions_are_not_needed() -> None:
    assert bound("SELECT a.v FROM a, b CROSS JOIN c WINDOW 0 s").conditions == ()


def test_equalities_of_different_types_keep_their_own() -> None:
    query = bound("SELECT a.v FROM a, b, c WHERE a.k = b.k AND b.k = c.k AND a.k = c.k WINDOW 1 s")
    assert [[str(arg.type) for arg in one.args] for one in query.conditions] == [  # type: ignore[union-attr]
        ["BIGINT", "BIGINT"],
        ["DOUBLE", "DOUBLE"],
        ["DOUBLE", "DOUBLE"],
    ]


def test_star_names_the_columns_of_later_streams_after_their_aliases() -> None:
    names = bound("SELECT * FROM a, b, a z WINDOW 1 s").schema.names
    assert names == (*"kyvs", "ts", "b_k", "b_y", "b_v", "b_s", "b_ts", "z_k", "z_y", "z_v", "z_s", "z_ts")


def test_as_many_streams_as_are_allowed() -> None:
    streams = ", ".join(f"a a{i}" for i in range(MOST_STREAMS))
    assert len(bound(f"SELECT a0.v FROM {streams} WINDOW 1 s").sources) == MOST_STREAMS
