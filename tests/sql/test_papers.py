"""The papers' example queries are read and run as printed; their placeholders are numbers."""

from __future__ import annotations

import datetime as dt
import random

import duck
import duck_aggregates
import engine_cases as cases
import outcomes
import pytest
from engine_cases import Case, Row, Way
from strategies import EPOCH

from headrace.engine.shard import ShardOptions
from headrace.model import BIGINT, StreamId
from headrace.plan.aggregates import Fold
from headrace.plan.expressions import ColumnRef
from headrace.plan.queries import Query, within_us
from headrace.reference_aggregates import evaluation_times, grouped_answer
from headrace.sql import read_script

STREAMS = """
CREATE STREAM Temperature (LocationId BIGINT, Value DOUBLE, TimeStamp TIMESTAMP) WITH (connector = 'generator');
CREATE STREAM Humidity (LocationId BIGINT, Value DOUBLE, TimeStamp TIMESTAMP) WITH (connector = 'generator');
CREATE STREAM stocksNYC (symbol STRING, price DOUBLE, volume BIGINT, ts TIMESTAMP) WITH (connector = 'generator');
CREATE STREAM stocksTokyo (symbol STRING, price DOUBLE, volume BIGINT, ts TIMESTAMP) WITH (connector = 'generator');
CREATE STREAM SensorReadings1 (ItemType BIGINT, ts TIMESTAMP) WITH (connector = 'generator');
CREATE STREAM SensorReadings2 (ItemType BIGINT, ts TIMESTAMP) WITH (connector = 'generator');
"""
COUNT_OF_LOCATIONS = """SELECT COUNT(DISTINCT A.LocationId)
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId and
A.Value > 30 and B.Value > 70
WINDOW 1 min;"""
"""Q1 of paper 000, with numbers for its thresholds."""
PEAKS = """SELECT A.LocationId, MAX(A.Value), MAX(B.Value)
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId
GROUP BY A.LocationId
WINDOW 1 hour;"""
"""Q2 of paper 000."""
COMMON_ITEMS = """SELECT COUNT(DISTINCT S.ItemType)
FROM SensorReadings1 S, SensorReadings2 T
WHERE S.ItemType = T.ItemType
WINDOW 10 minutes"""
"""Q of paper 004."""


def bound(text: str) -> Query:
    (query,) = read_script(STREAMS + text).queries
    return query


def aggregates(query: Query) -> list[tuple[Fold, str]]:
    assert query.grouping is not None
    return [(one.fold, one.argument.name) for one in query.grouping.aggregates if isinstance(one.argument, ColumnRef)]


@pytest.mark.parametrize("before", ["", "CREATE QUERY q AS ", "create query Q as "])
def test_count_of_hot_and_wet_locations(before: str) -> None:
    query = bound(before + COUNT_OF_LOCATIONS)
    assert query.schema.names == ("count_distinct_locationid", "ts")
    assert aggregates(query) == [(Fold.DISTINCT, "LocationId")]
    assert query.windows == within_us(60_000_000)


def test_peaks_of_each_location() -> None:
    query = bound(PEAKS)
    assert query.schema.names == ("LocationId", "max_value", "max_b_value", "ts")
    assert aggregates(query) == [(Fold.MAX, "Value"), (Fold.MAX, "Value")]
    assert query.grouping is not None
    assert query.grouping.keys == (ColumnRef(0, "LocationId", BIGINT),)
    assert query.windows == within_us(3_600_000_000)


def test_items_sold_in_both_stores() -> None:
    query = bound(COMMON_ITEMS)
    assert aggregates(query) == [(Fold.DISTINCT, "ItemType")]
    assert query.windows == within_us(600_000_000)


def test_rows_behind_the_first_paper_query_are_a_query() -> None:
    text = (
        "SELECT A.Value FROM Temperature A, Humidity B WHERE A.LocationId = B.LocationId and A.Value > 30 WINDOW 1 min;"
    )
    (query,) = read_script(STREAMS + text).queries
    assert query.windows == within_us(60_000_000)


def test_join_on_an_inequality_alone_is_a_query() -> None:
    text = (
        "SELECT B.symbol, B.price FROM stocksNYC A, stocksTokyo B "
        'WHERE A.symbol = "GOOG" AND B.volume > A.volume WINDOW 10 mins'
    )
    (query,) = read_script(STREAMS + text).queries
    assert query.windows == within_us(600_000_000)


# --- run


@pytest.fixture(scope="module")
def database() -> duck.duckdb.DuckDBPyConnection:
    return duck.connect()


def readings(draw: random.Random, longest_s: int) -> dict[StreamId, list[Row]]:
    """Rows of the sensors' streams, for hours or minutes: some locations are hot, some wet, and windows are emptied."""
    found: dict[StreamId, list[Row]] = {StreamId("stocksNYC"): [], StreamId("stocksTokyo"): []}
    for name, lowest in (("Temperature", 20.0), ("Humidity", 50.0), ("SensorReadings1", 0.0), ("SensorReadings2", 0.0)):
        now, rows = EPOCH, []
        for _ in range(24):
            now += dt.timedelta(seconds=draw.choice([1, 5, longest_s // 8, longest_s]))
            number = draw.randrange(8 if "Sensor" in name else 4)
            amount = lowest + draw.randrange(60)
            row: Row = {"ItemType": number, "ts": now}
            found[StreamId(name)] = rows
            rows.append(row if "Sensor" in name else {"LocationId": number, "Value": amount, "TimeStamp": now})
    return found


@pytest.mark.parametrize(
    ("texts", "longest_s"),
    [((COUNT_OF_LOCATIONS,), 60), ((PEAKS,), 1500), ((COMMON_ITEMS,), 400), ((COUNT_OF_LOCATIONS, PEAKS), 300)],
    ids=["locations", "peaks", "items", "locations and peaks"],
)
@pytest.mark.parametrize(
    "way",
    [Way(blocks=(3,)), Way(blocks=(3, 2), shards=3), Way(blocks=(7,), options=ShardOptions(is_eager=True))],
    ids=["one shard", "three shards", "eager"],
)
def test_they_run_as_printed(
    texts: tuple[str, ...], longest_s: int, way: Way, database: duck.duckdb.DuckDBPyConnection
) -> None:
    """Row for row what the reference says, and DuckDB, at every time that they were evaluated."""
    named = "".join(f"CREATE QUERY q{number} AS {text.rstrip(';')};" for number, text in enumerate(texts))
    script = read_script(STREAMS + named)
    arrivals = readings(random.Random(7), longest_s)
    case = Case(script.catalog, arrivals, script.queries)
    host = cases.run(case, way)
    for query in script.queries:
        times = host.evaluated[query.name]
        if way.options.is_eager:
            times = evaluation_times(query, script.catalog, arrivals, times[-1])
        got = outcomes.got(host, query)
        assert len(got) >= 3
        assert got == outcomes.shown(grouped_answer(query, script.catalog, arrivals, times))
        assert got == outcomes.shown(duck_aggregates.grouped_answer(query, script.catalog, arrivals, times, database))
