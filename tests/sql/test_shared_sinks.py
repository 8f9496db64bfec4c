"""Sinks that many queries share: who may, and what is said to those who may not."""

from __future__ import annotations

import pytest

from headrace.config import Settings
from headrace.errors import PlanError, SettingError, SqlError
from headrace.plan.sharing import Delivery, SharedPlan, share
from headrace.plan.sinks import shared_sinks, with_shared_sink
from headrace.sql import read_script

STREAM = "CREATE STREAM s (ts TIMESTAMP, k INT, x DOUBLE) WITH (connector = 'generator', time = 'ts');"


def planned(*queries: str) -> SharedPlan:
    named = [f"CREATE QUERY q{number} AS {text};" for number, text in enumerate(queries, 1)]
    script = read_script(STREAM + "".join(named))
    return share(script.catalog, script.queries)


def into(sink: str, rest: str = "") -> str:
    return f"INTO (connector = 'parquet', shared = '{sink}'{rest})"


def test_queries_with_the_same_columns_share_a_sink() -> None:
    plan = planned(
        f"SELECT k, x FROM s WHERE x > 1 {into('alerts')}",
        f"SELECT CAST(x AS INT) AS k, x * 2 AS x FROM s {into('alerts')}",
        f"SELECT k FROM s {into('others')}",
        "SELECT k FROM s",
    )
    assert shared_sinks(plan.sinks) == {"q1": "alerts", "q2": "alerts", "q3": "others"}
    deliveries = [cls.delivery for group in plan.groups for cls in group.classes]
    assert deliveries == [Delivery.SHARED] * 3 + [Delivery.ROWS]


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ("SELECT k, x AS y FROM s", "column 2 is x DOUBLE in q1 and y DOUBLE in q2"),
        ("SELECT k, k AS x FROM s", "column 2 is x DOUBLE in q1 and x INT in q2"),
        ("SELECT x, k FROM s", "column 1 is k INT in q1 and x DOUBLE in q2"),
        ("SELECT k FROM s", "q1 has 2 columns and q2 has 1"),
        ("SELECT k, x, ts FROM s", "q1 has 2 columns and q2 has 3"),
    ],
)
def test_other_columns_are_refused_with_both_names(other: str, difference: str) -> None:
    with pytest.raises(PlanError) as refused:
        planned(f"SELECT k, x FROM s {into('alerts')}", f"{other} {into('alerts')}")
    assert str(refused.value) == (
        f"queries q1 and q2 share the sink alerts, but {difference}: "
        "make them the same, or give one of the queries another sink"
    )


def test_another_path_is_refused() -> None:
    queries = [f"SELECT k FROM s {into('alerts', path)}" for path in (", path = '/a'", "")]
    with pytest.raises(PlanError, match="q1 has path = '/a' and q2 has no path"):
        planned(*queries)


def test_a_column_called_query_is_refused() -> None:
    with pytest.raises(PlanError, match=r"query q1 has a column query, as the shared sink alerts calls .* with AS"):
        planned(f'SELECT k AS "Query" FROM s {into("alerts")}')
    assert planned('SELECT k AS "query" FROM s').queries == ("q1",)


@pytest.mark.parametrize("name", ["", "a/b", "_staging", ".x", "1st", "a b", ".."])
def test_a_sink_has_a_name_that_a_directory_can_have(name: str) -> None:
    with pytest.raises(SqlError, match=r"option shared: .* is not a name"):
        planned(f"SELECT k FROM s {into(name)}")
    with pytest.raises(SettingError, match=r"shared_sink: .* is not a name"):
        Settings().with_text("shared_sink", name)


def test_only_files_are_shared() -> None:
    with pytest.raises(SqlError, match="connector console has no option shared"):
        planned("SELECT k FROM s INTO (connector = 'console', shared = 'alerts')")


def test_the_setting_is_for_queries_without_into() -> None:
    queries = read_script(
        f"{STREAM} CREATE QUERY a AS SELECT k FROM s; CREATE QUERY b AS SELECT k FROM s {into('others')};"
        "CREATE QUERY c AS SELECT k FROM s INTO (connector = 'count'); CREATE QUERY d AS SELECT k FROM s;"
    ).queries
    sinks = [(query.name, query.into) for query in with_shared_sink(queries, "alerts", apart={"d"})]
    assert shared_sinks(sinks) == {"a": "alerts", "b": "others"}
    assert with_shared_sink(queries, None) == queries
