"""Many queries as one Spark query: the rows are DuckDB's, in the promised order, whatever the source."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from streams import (
    READINGS,
    SMALL_LARGE_S,
    UNIFORM_S,
    Feed,
    answers,
    assert_answers,
    assert_in_order,
    cut,
    declare,
    output,
    published,
    readings,
)

from headrace.spark.generator import spec_of
from headrace.spark.session import Engine, Run
from headrace.sql import read_script
from headrace.workload import GeneratorSpec, Position, generate

pytestmark = pytest.mark.spark

ALL = "a.location_id, a.value AS t, b.value AS h, a.ts AS a_ts, b.ts AS b_ts"
FILTERS = ("", "", "", "AND a.value > 60", "AND a.value > 60", "AND b.value < a.value", "AND a.value + b.value > 90")


def seven(windows_s: tuple[int, ...], key: str = "a.location_id = b.location_id", columns: str = ALL) -> str:
    """One query a window; the first three, and the next two, differ in nothing else."""
    return "".join(
        f"CREATE QUERY w{window} AS SELECT {columns}{', a.value - b.value AS gap' if number == 6 else ''}\n"
        f"FROM temperature a, humidity b WHERE {key} {FILTERS[number]} WINDOW {window} SECONDS;\n"
        for number, window in enumerate(windows_s)
    )


def run_once(spark: SparkSession, program: str, out: Path) -> Run:
    engine = Engine(spark)
    engine.sql(program)
    run = engine.start(out, once=True)
    assert run.wait(400)
    return run


@pytest.mark.parametrize("windows_s", [UNIFORM_S, SMALL_LARGE_S], ids=["uniform", "small_large"])
def test_seven_windows_of_the_paper_give_the_oracles_rows_in_order(
    spark: SparkSession, tmp_path: Path, windows_s: tuple[int, ...]
) -> None:
    a = Feed(tmp_path / "a").add_all(cut(readings(1, 300, 1200), 5))
    b = Feed(tmp_path / "b").add_all(cut(readings(2, 300, 800), 4))  # lags: ends well before the other
    program = (
        "SET shards = 3;"
        + declare("temperature", a, max_files_per_batch="1")
        + declare("humidity", b, max_files_per_batch="1")
        + seven(windows_s)
    )
    out = tmp_path / "out"
    run = run_once(spark, program, out)
    expected = answers(program, {"temperature": a.rows, "humidity": b.rows})
    assert_answers(out, expected)
    assert all(expected.values())
    for query in expected:
        assert_in_order(out / query, slice(3, 5))
        assert len(published(out / query)) >= (1 if query == "w1" else 3)
    stats = run.stats()
    assert stats.batches >= 5
    assert {one.query: one.results for one in stats.queries} == {query: len(rows) for query, rows in expected.items()}
    assert {one.stream: one.tuples for one in stats.streams} == {"temperature": 300, "humidity": 300}
    assert not (out / "_staging").exists()


def test_one_shard_keeps_the_whole_order(spark: SparkSession, tmp_path: Path) -> None:
    a = Feed(tmp_path / "a").add_all(cut(readings(3, 150, 300, keys=3), 3))
    b = Feed(tmp_path / "b").add_all(cut(readings(4, 150, 250, keys=3), 2))
    program = (
        "SET shards = 1;"
        + declare("temperature", a, max_files_per_batch="1")
        + declare("humidity", b, max_files_per_batch="1")
        + seven((1, 5, 15, 60, 90, 120, 150))
    )
    run_once(spark, program, tmp_path / "out")
    for query, rows in answers(program, {"temperature": a.rows, "humidity": b.rows}).items():
        assert output(tmp_path / "out" / query) == rows


def test_text_and_composite_keys(spark: SparkSession, tmp_path: Path) -> None:
    columns = "place STRING, sensor INT, value DOUBLE, ts TIMESTAMP"

    def named(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        places = ["north", "süd", "", None]
        return [
            {"place": places[i % 4], "sensor": None if i % 11 == 0 else i % 3, "value": row["value"], "ts": row["ts"]}
            for i, row in enumerate(rows)
        ]

    a, b = Feed(tmp_path / "a"), Feed(tmp_path / "b")
    streams = declare("temperature", a, columns, max_files_per_batch="1") + declare("humidity", b, columns)
    a.add_all(cut(named(readings(5, 120, 200)), 2))
    b.add_all(cut(named(readings(6, 120, 200)), 2))
    both = "a.place = b.place AND a.sensor = b.sensor"
    selected = "a.place, a.sensor, b.value AS h, a.ts AS a_ts, b.ts AS b_ts"
    program = (
        f"SET shards = 3;{streams}"
        f"CREATE QUERY one AS SELECT {selected} FROM temperature a, humidity b WHERE a.place = b.place WINDOW 20 s;"
        f"CREATE QUERY two AS SELECT {selected} FROM temperature a, humidity b WHERE {both} WINDOW 30 s;"
        f"CREATE QUERY near AS SELECT {selected} FROM temperature a, humidity b WHERE {both} WINDOW 3 s;"
        "CREATE QUERY same AS SELECT a.place, b.value, a.ts AS a_ts, b.ts AS b_ts FROM temperature a, temperature b "
        "WHERE a.place = b.place AND a.value < b.value WINDOW 10 s;"
        "CREATE QUERY scan AS SELECT place || '!' AS place, value, ts FROM humidity WHERE value > 50;"
    )
    run_once(spark, program, tmp_path / "out")
    expected = answers(program, {"temperature": a.rows, "humidity": b.rows})
    assert all(expected.values())
    assert_answers(tmp_path / "out", expected)
    for query in ("one", "two", "near"):
        assert_in_order(tmp_path / "out" / query, slice(3, 5))


def test_json_and_csv_sources(spark: SparkSession, tmp_path: Path) -> None:
    a = Feed(tmp_path / "a", "json").add_all(cut(readings(7, 100, 100), 2))
    b = Feed(tmp_path / "b", "csv").add_all(cut(readings(8, 100, 100), 2))
    c = Feed(tmp_path / "c", "csv", header=False).add_all(cut(readings(9, 60, 100), 2))
    program = (
        declare("temperature", a, max_files_per_batch="1")
        + declare("humidity", b)
        + declare("pressure", c)
        + seven((1, 5, 10, 20, 30, 40, 50))
        + "CREATE QUERY third AS SELECT a.value, c.value AS p FROM temperature a, pressure c "
        "WHERE a.location_id = c.location_id WINDOW 5 s;"
    )
    run = run_once(spark, program, tmp_path / "out")
    assert_answers(tmp_path / "out", answers(program, {"temperature": a.rows, "humidity": b.rows, "pressure": c.rows}))
    assert [one.malformed + one.late for one in run.stats().streams] == [0, 0, 0]


def generated(spec: GeneratorSpec) -> list[dict[str, object]]:
    assert spec.last_us is not None
    return generate(spec, Position.at_start(spec), spec.last_us)[0].to_pylist()


def test_generator_sources(spark: SparkSession, tmp_path: Path) -> None:
    program = (
        "SET shards = 3;"
        + "".join(
            f"CREATE STREAM {name} ({READINGS}) WITH (connector = 'generator', time = 'ts', rate = 20, keys = 20, "
            f"seed = {seed}, start = '2026-01-31 12:00:00', speed = 0, duration = '{seconds} s', step = '5 s');"
            for name, seed, seconds in (("temperature", 1, 20), ("humidity", 2, 15))
        )
        + seven((1, 2, 3, 4, 5, 6, 7))
    )
    run_once(spark, program, tmp_path / "out")
    streams = read_script(program).catalog.streams
    start_us = 1_769_860_800_000_000
    rows = {one.name: generated(spec_of(one, start_us)) for one in streams}
    expected = answers(program, rows)
    assert all(expected.values())
    assert_answers(tmp_path / "out", expected)
    for query in expected:
        assert_in_order(tmp_path / "out" / query, slice(3, 5))


def test_output_is_read_back_by_spark_pandas_pyarrow_and_duckdb(spark: SparkSession, tmp_path: Path) -> None:
    a = Feed(tmp_path / "a").add_all(cut(readings(10, 80, 60), 3))
    b = Feed(tmp_path / "b").add_all(cut(readings(11, 80, 60), 3))
    program = (
        declare("temperature", a, max_files_per_batch="1")
        + declare("humidity", b, max_files_per_batch="1")
        + "CREATE QUERY q AS SELECT a.location_id, a.value, b.value AS h FROM temperature a, humidity b "
        "WHERE a.location_id = b.location_id WINDOW 10 s;"
    )
    run_once(spark, program, tmp_path / "out")
    directory = tmp_path / "out" / "q"
    names = ["location_id", "value", "h"]
    expected = sorted(answers(program, {"temperature": a.rows, "humidity": b.rows})["q"])
    assert len(published(directory)) > 1
    read = spark.read.parquet(str(directory))
    assert read.columns == [*names, "micro_batch"]
    assert sorted(tuple(row) for row in read.select(*names).collect()) == expected
    assert sorted(pd.read_parquet(directory)[names].itertuples(index=False, name=None)) == expected
    assert sorted(tuple(row.values()) for row in ds.dataset(directory).to_table(columns=names).to_pylist()) == expected
    assert sorted(duckdb.sql(f"SELECT location_id, value, h FROM '{directory}/**/*.parquet'").fetchall()) == expected
