"""The papers' example queries are read as printed; their placeholders are numbers."""

from __future__ import annotations

import pytest

from headrace.model import BIGINT
from headrace.plan.aggregates import Fold
from headrace.plan.expressions import ColumnRef
from headrace.plan.queries import Query, within_us
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
