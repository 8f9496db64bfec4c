"""Any format of Spark's by name: read with its options, written with them, refused where it does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from pyspark.sql import SparkSession
from streams import at, dead_letters, output

from headrace import Engine
from headrace.errors import SinkError, SourceError

pytestmark = pytest.mark.spark


def test_a_format_is_read_and_written_with_its_options(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = [{"id": "1", "ts": at(1)}, {"id": "two", "ts": at(2)}, {"id": "3", "ts": at(3)}]
    orc.write_table(pa.Table.from_pylist(rows), tmp_path / "in" / "0.orc")
    engine = Engine(spark)
    engine.sql(
        "SET shards = 2;"
        "CREATE STREAM s (id STRING, ts TIMESTAMP) WITH (connector = 'spark', format = 'orc', "
        f"path = '{tmp_path / 'in'}', option.pathGlobFilter = '*.orc');"
        "CREATE QUERY q AS SELECT id, COUNT(*) AS n FROM s GROUP BY id WINDOW 10 s INTO (connector = 'spark', "
        f"format = 'csv', path = '{tmp_path}/{{query}}/{{micro_batch}}', mode = 'overwrite', option.header = true);"
        "CREATE QUERY p AS SELECT a.id FROM s a, s b WHERE a.id = b.id WINDOW 1 s INTO (connector = 'spark', "
        f"format = 'json', path = '{tmp_path}/p');"
    )
    run = engine.start(tmp_path / "out", once=True)
    assert run.wait(400)
    counted = {line[:6] for file in tmp_path.glob("q/[0-9]*/*.csv") for line in file.read_text().splitlines()}
    assert counted == {"id,n,t", "1,1,20", "two,1,", "3,1,20"}
    paired = [line for file in tmp_path.glob("p/*.json") for line in file.read_text().splitlines()]
    assert sorted(paired) == ['{"id":"1"}', '{"id":"3"}', '{"id":"two"}']


def test_columns_are_cast_and_a_row_that_cannot_be_is_malformed(spark: SparkSession, tmp_path: Path) -> None:
    engine = Engine(spark)
    engine.sql(
        "CREATE STREAM ticks (timestamp TIMESTAMP, value DECIMAL(1, 0)) WITH (connector = 'spark', format = 'rate', "
        "option.rowsPerSecond = 100); CREATE QUERY q AS SELECT value FROM ticks;"
    )
    run = engine.start(tmp_path / "out")
    while not run.stats().streams[0].malformed:
        assert not run.wait(0.1)
    run.stop()
    assert sorted(map(int, (value for (value,) in output(tmp_path / "out" / "q")))) == list(range(10))
    assert min(json.loads(one["row"])["value"] for one in dead_letters(tmp_path / "out")) == 10


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        ("WITH (connector = 'spark', format = 'rates')", "stream s: this Spark has no format rates. Check the name"),
        ("WITH (connector = 'spark', format = 'rate')", "the source has no column id \\(it has timestamp, value\\)"),
        ("WITH (connector = 'spark', format = 'rate', option.rowsPerSecond = 'x')", "Spark cannot read rate so"),
        ("WITH (connector = 'kafka', servers = 'localhost:1', topic = 't')", "no format kafka. Start Spark with"),
    ],
)
def test_a_source_that_does_not_fit_is_refused(spark: SparkSession, tmp_path: Path, stream: str, message: str) -> None:
    engine = Engine(spark)
    engine.sql(f"CREATE STREAM s (id BIGINT, ts TIMESTAMP) {stream}; CREATE QUERY q AS SELECT id FROM s;")
    with pytest.raises(SourceError, match=message):
        engine.start(tmp_path / "out")


@pytest.mark.parametrize(
    ("into", "message"),
    [
        ("format = 'dleta'", "this Spark has no format dleta"),
        ("format = 'text', path = '{out}/x'", "Spark cannot write text so: .*doesn't support the column `id`"),
        ("format = 'csv', path = '{out}/x', option.compression = 'z'", "Spark cannot write csv so: .*codec z is not"),
        ("format = 'csv', path = '{out}/x', option.timestampFormat = 'bb'", "Spark cannot write csv so: .*'bb'"),
        ("format = 'json', path = '{out}/x', mode = 'error'", "mode = 'error' would write the first micro-batch only"),
    ],
)
def test_a_sink_that_could_not_be_written_to_is_refused(
    spark: SparkSession, tmp_path: Path, into: str, message: str
) -> None:
    """Before anything runs: in a micro-batch it would end the pipeline, with all its other queries."""
    out = tmp_path / "out"
    engine = Engine(spark)
    engine.sql(
        "CREATE STREAM s (id BIGINT, ts TIMESTAMP) WITH (connector = 'generator');"
        f"CREATE QUERY q AS SELECT id, ts FROM s INTO (connector = 'spark', {into.format(out=out)});"
    )
    with pytest.raises(SinkError, match=f"query q: {message}"):
        engine.start(out)
    assert not list((out / "_checkpoint").glob(".trial*"))
    assert not (out / "x").exists()
