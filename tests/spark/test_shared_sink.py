"""Many queries into one sink on real Spark: one file a shard and micro-batch, every query's rows DuckDB's, in order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from streams import Feed, answers, cut, declare, published, readings

from headrace.errors import SqlError
from headrace.spark.session import Engine, Run

pytestmark = pytest.mark.spark

WINDOWS_S = (3, 30, 90)


def alerts(count: int, into: str = "") -> str:
    """Queries that differ in window and threshold."""
    return "".join(
        f"CREATE QUERY q{number} AS SELECT a.location_id, a.value AS t, b.value AS h, a.ts AS a_ts, b.ts AS b_ts "
        f"FROM temperature a, humidity b WHERE a.location_id = b.location_id AND a.value > {95 - number} "
        f"WINDOW {WINDOWS_S[number % len(WINDOWS_S)]} s{into};\n"
        for number in range(count)
    )


class Place:
    """Two feeds, and what is run on them."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.out = directory / "out"
        self.a, self.b = Feed(directory / "a"), Feed(directory / "b")
        one_file = {"max_files_per_batch": "1"}
        self.streams = declare("temperature", self.a, **one_file) + declare("humidity", self.b, **one_file)
        self.left, self.right = cut(readings(1, 240, 240), 6), cut(readings(2, 240, 240), 6)

    def feed(self, files: slice) -> None:
        self.a.add_all(self.left[files])
        self.b.add_all(self.right[files])

    def once(self, program: str) -> Run:
        engine = Engine(self.spark)
        engine.sql(self.streams + program)
        run = engine.start(self.out, once=True)
        assert run.wait(400)
        return run

    def answers(self, program: str) -> dict[str, list[tuple[Any, ...]]]:
        return answers(self.streams + program, {"temperature": self.a.rows, "humidity": self.b.rows})


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(spark, tmp_path)


def assert_shared(directory: Path, expected: dict[str, list[tuple[Any, ...]]], shards: int = 2) -> None:
    """Every query has its rows, in order within each file; and there is at most one file a shard and micro-batch."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for batch in published(directory):
        assert len(batch) <= shards
        for file in batch:
            by_query: dict[str, list[tuple[Any, ...]]] = {}
            for row in file:
                by_query.setdefault(row[0], []).append(row[1:])
            for query, rows in by_query.items():
                times = [max(row[-2:]) for row in rows]
                assert times == sorted(times), query
                found.setdefault(query, []).extend(rows)
    assert {query: Counter(rows) for query, rows in found.items()} == {
        query: Counter(rows) for query, rows in expected.items() if rows
    }


@pytest.mark.parametrize("settings", ["", "SET budget = '150 probes';"], ids=["at_once", "budget"])
def test_one_file_a_shard_and_micro_batch_holds_all_queries_over_restarts(place: Place, settings: str) -> None:
    program = f"SET shared_sink = 'alerts'; {settings}" + alerts(40)
    for files in (slice(0, 3), slice(3, 6)):
        place.feed(files)
        run = place.once(program)
        expected = place.answers(program)
        assert sum(map(len, expected.values())) > 1000
        assert_shared(place.out / "alerts", expected)
    assert {path.name for path in place.out.iterdir()} == {"alerts", "_checkpoint"}
    files = list((place.out / "alerts").rglob("*.parquet"))
    assert all(pq.read_metadata(file).num_row_groups == 1 for file in files)
    schema = pq.read_schema(files[0])
    assert (schema.names[0], str(schema.types[0])) == ("query", "string")
    counted = duckdb.sql(f"SELECT query, count(*) FROM '{place.out}/alerts/*/*.parquet' GROUP BY ALL").fetchall()
    assert dict(counted) == {query: len(rows) for query, rows in expected.items() if rows}
    assert run.stats().queries


def test_sinks_beside_each_other(place: Place, tmp_path: Path) -> None:
    """A shared sink in a place of its own, a query with files of its own, one that is called, one dropped later."""
    place.feed(slice(0, 3))
    into = f" INTO (connector = 'parquet', shared = 'alerts', path = '{tmp_path}/elsewhere')"
    own = alerts(1).replace("q0", "own")
    program = place.streams + alerts(20, into) + own
    called: list[tuple[Any, ...]] = []

    def callback(_query: str, rows: DataFrame, _batch: int) -> None:
        called.extend(tuple(row) for row in rows.collect())

    engine = Engine(place.spark)
    engine.sql(program)
    engine.sink("q3", callback)
    run = engine.start(place.out, once=True)
    assert run.wait(400)
    expected = place.answers(alerts(20) + own)
    assert len(called) == len(expected.pop("q3"))
    assert Counter(row for batch in published(place.out / "own") for file in batch for row in file) == Counter(
        expected.pop("own")
    )
    assert_shared(tmp_path / "elsewhere", expected)
    assert {path.name for path in place.out.iterdir()} == {"own", "_checkpoint"}


def test_a_directory_is_one_sinks_or_one_querys(place: Place) -> None:
    into = " INTO (connector = 'parquet', shared = 'alerts')"
    own = alerts(1).replace("q0", "alerts")
    with pytest.raises(SqlError, match=r"queries q0 and alerts both write to .*alerts"):
        place.once(alerts(2, into) + own)
    with pytest.raises(SqlError, match=r"queries alerts and q0 both write to .*alerts"):
        place.once(own + alerts(2, into))
