"""Where results go besides Parquet under the output directory, and streams that come as DataFrames."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from rich.console import Console
from streams import READINGS, Feed, answers, assert_answers, cut, declare, readings

from headrace.errors import PlanError, SinkError, SourceError, SqlError
from headrace.spark.session import Engine

pytestmark = pytest.mark.spark

SELECTED = (
    "SELECT a.location_id, a.value, b.value AS h FROM temperature a, humidity b "
    "WHERE a.location_id = b.location_id AND a.value > 50 WINDOW"
)


def feeds(directory: Path) -> tuple[Feed, Feed]:
    a = Feed(directory / "a").add_all(cut(readings(1, 120, 60), 3))
    b = Feed(directory / "b").add_all(cut(readings(2, 120, 50), 2))
    return a, b


def declared(a: Feed, b: Feed) -> str:
    return declare("temperature", a, max_files_per_batch="1") + declare("humidity", b, max_files_per_batch="1")


def test_every_sink_gets_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    a, b = feeds(tmp_path)
    program = declared(a, b) + (
        f"CREATE QUERY called AS {SELECTED} 5 s;"
        f"CREATE QUERY called_too AS {SELECTED} 20 s;"
        f"CREATE QUERY printed AS {SELECTED} 5 s INTO (connector = 'console');"
        f"CREATE QUERY counted AS {SELECTED} 10 s INTO (connector = 'count');"
        f"CREATE QUERY placed AS {SELECTED} 10 s INTO (connector = 'parquet', path = '{tmp_path}/elsewhere/placed');"
        f"CREATE QUERY written AS {SELECTED} 20 s;"
    )
    calls: list[tuple[str, int, list[tuple[Any, ...]]]] = []

    def callback(query: str, rows: DataFrame, batch: int) -> None:
        assert rows.columns == ["location_id", "value", "h"]
        calls.append((query, batch, [tuple(row) for row in rows.collect()]))

    engine = Engine(spark)
    engine.sql(program)
    engine.sink("called", callback)
    engine.sink("called_too", callback)
    screen = io.StringIO()
    run = engine.start(tmp_path / "out", once=True, console=Console(file=screen, width=200))
    assert run.wait(400)
    expected = answers(program, {"temperature": a.rows, "humidity": b.rows})
    assert all(expected.values())
    for query in ("called", "called_too"):
        mine = [(batch, rows) for name, batch, rows in calls if name == query]
        assert [batch for batch, _ in mine] == list(range(run.stats().batches))
        assert Counter(row for _, rows in mine for row in rows) == Counter(expected[query])
    assert_answers(tmp_path / "elsewhere", {"placed": expected["placed"]})
    assert_answers(tmp_path / "out", {"written": expected["written"]})
    results = {one.query: one.results for one in run.stats().queries}
    assert results == {query: len(rows) for query, rows in expected.items()}
    shown = screen.getvalue()
    assert "printed: " in shown
    assert "location_id" in shown
    titles = [line.split() for line in shown.splitlines() if line.startswith("printed: ")]
    assert sum(int(words[1]) for words in titles) == len(expected["printed"])
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"written", "_checkpoint"}


def test_any_streaming_dataframe_is_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    columns = READINGS.replace("BIGINT", "INT")
    a, b = Feed(tmp_path / "a"), Feed(tmp_path / "b")
    streams = declare("temperature", a, f"{columns}, twice DOUBLE") + declare("humidity", b, columns, max_delay="5 s")
    a.add_all(cut(readings(1, 120, 60), 3))
    b.add_all(cut(readings(2, 120, 50), 2))
    reader = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
    engine = Engine(spark)
    hot = reader.parquet(str(a.directory)).where("value > 30").withColumn("twice", sf.col("value") * 2)
    engine.stream("temperature", hot, time="ts")
    engine.stream("humidity", reader.parquet(str(b.directory)), time="ts", max_delay="5 seconds")
    selected = (
        "CREATE QUERY q AS SELECT a.location_id, a.twice, b.value AS h FROM temperature a, humidity b "
        "WHERE a.location_id = b.location_id WINDOW 10 s"
    )
    engine.sql(selected)
    run = engine.start(tmp_path / "out", once=True)
    assert run.wait(400)
    arrived = [{**row, "twice": row["value"] * 2} for row in a.rows if row["value"] > 30]
    expected = answers(streams + selected, {"temperature": arrived, "humidity": b.rows})
    assert expected["q"]
    assert_answers(tmp_path / "out", expected)


def test_rate_source_without_an_output_directory(spark: SparkSession, tmp_path: Path) -> None:
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).option("numPartitions", 2)
    ticks = ticks.option("startTimestamp", 1_700_000_000_000).option("advanceMillisPerBatch", 1000)
    engine = Engine(spark)
    engine.stream("ticks", ticks.load(), time="timestamp")
    engine.sql("CREATE QUERY odd AS SELECT value FROM ticks WHERE value % 2 = 1")
    seen: list[int] = []
    engine.sink("odd", lambda _query, rows, _batch: seen.extend(row.value for row in rows.collect()))
    run = engine.start(checkpoint=tmp_path / "checkpoint")
    while run.stats().batches < 3:
        assert not run.wait(0.2)
    run.stop()
    assert not run.is_active
    assert sorted(seen)[:25] == list(range(1, 50, 2))
    assert len(set(seen)) == len(seen)


def test_what_cannot_be_started_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    engine = Engine(spark)
    with pytest.raises(SourceError, match="not a streaming DataFrame"):
        engine.stream("numbers", spark.range(3), time="id")
    rate = spark.readStream.format("rate").load()
    with pytest.raises(SourceError, match="column many of stream ticks is list"):
        engine.stream("ticks", rate.withColumn("many", sf.array("value")), time="timestamp")
    with pytest.raises(PlanError, match="no column when"):
        engine.stream("ticks", rate, time="when")
    with pytest.raises(PlanError, match="no query to run"):
        engine.start(tmp_path / "out")
    engine.stream("ticks", rate, time="timestamp")
    engine.sql("CREATE QUERY q AS SELECT value FROM ticks")
    with pytest.raises(PlanError, match="no query other"):
        engine.sink("other", print)
    with pytest.raises(SqlError, match="query q has nowhere to write to"):
        engine.start()
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="cannot write to"):
        engine.start(tmp_path / "file" / "out")
