"""The papers' example queries parse up to what this version refuses."""

from __future__ import annotations

import pytest

from headrace.errors import UnsupportedError
from headrace.plan.queries import within_us
from headrace.sql import read_script

STREAMS = """
CREATE STREAM Temperature (LocationId BIGINT, Value DOUBLE, TimeStamp TIMESTAMP) WITH (connector = 'generator');
CREATE STREAM Humidity (LocationId BIGINT, Value DOUBLE, TimeStamp TIMESTAMP) WITH (connector = 'generator');
CREATE STREAM stocksNYC (symbol STRING, price DOUBLE, volume BIGINT, ts TIMESTAMP) WITH (connector = 'generator');
CREATE STREAM stocksTokyo (symbol STRING, price DOUBLE, volume BIGINT, ts TIMESTAMP) WITH (connector = 'generator');
CREATE STREAM SensorReadings1 (ItemType BIGINT, ts TIMESTAMP) WITH (connector = 'generator');
CREATE STREAM SensorReadings2 (ItemType BIGINT, ts TIMESTAMP) WITH (connector = 'generator');
"""
AGGREGATES = [
    """SELECT COUNT(DISTINCT A.LocationId)
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId and
A.Value > Thresholdt and B.Value > Thresholdh
WINDOW 1 min;""",
    """SELECT A.LocationId, MAX(A.Value), MAX(B.Value)
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId
GROUP BY A.LocationId
WINDOW 1 hour;""",
    """SELECT COUNT(DISTINCT S.ItemType)
FROM SensorReadings1 S, SensorReadings2 T
WHERE S.ItemType = T.ItemType
WINDOW 10 minutes""",
]


@pytest.mark.parametrize("text", AGGREGATES)
def test_aggregate_of_a_paper_is_refused_as_an_aggregate(text: str) -> None:
    with pytest.raises(UnsupportedError, match="continuous aggregates are not supported in this version") as caught:
        read_script(STREAMS + text)
    assert caught.value.place.line == STREAMS.count("\n") + 1


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


def test_aggregates_of_the_design_are_refused_at_the_aggregate() -> None:
    text = """CREATE QUERY peaks AS
SELECT a.LocationId, MAX(a.Value) AS t
FROM Temperature a JOIN Humidity b ON a.LocationId = b.LocationId
GROUP BY a.LocationId
WINDOW 1 HOUR;"""
    with pytest.raises(UnsupportedError) as caught:
        read_script(STREAMS + text)
    assert (caught.value.place.line - STREAMS.count("\n"), caught.value.place.column) == (2, 22)
