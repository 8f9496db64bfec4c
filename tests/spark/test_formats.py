"""Any format of Spark's by name: read with its options, written with them, refused where it does not fit. And what
Kafka's records and lines of files hold, without a broker."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from pyspark.sql import SparkSession
from streams import at, dead_letters, output

from headrace import Engine
from headrace.config import Settings
from headrace.engine.packing import CORRUPT
from headrace.errors import SinkError, SourceError
from headrace.plan.connectors import SOURCES
from headrace.spark.kafka import _rows, records_of
from headrace.spark.sources import source_frame
from headrace.sql import read_script

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


def read_values(
    spark: SparkSession, options: str, values: list[str], columns: str = "k BIGINT, s STRING"
) -> list[tuple[object, ...]]:
    """What values are as records of a stream: its columns k and s, and the text of one that cannot be read."""
    text = f"CREATE STREAM c ({columns}, ts TIMESTAMP) WITH (connector = 'kafka', servers = 'h:1', topic = 't', "
    (stream,) = read_script(f"{text}time = 'ts', timestamp_column = 'ts', {options});").catalog.streams
    record = ("CAST(NULL AS BINARY) AS key", "CAST(v AS BINARY) AS value", "'t' AS topic", "0 AS partition")
    frame = spark.createDataFrame([(one,) for one in values], "v string")
    records = frame.selectExpr(*record, "TIMESTAMP '2026-01-31 12:00:00' AS timestamp")
    return [
        (row[0], row[1], row[3]) for row in _rows(records, stream, SOURCES["kafka"].values(stream.options)).collect()
    ]


def read_file(
    spark: SparkSession, directory: Path, kind: str, lines: list[str], options: str = ""
) -> tuple[list[tuple[object, ...]], list[str]]:
    """What lines of a file are in a stream: its columns k, s and t, and the texts of those that cannot be read."""
    # A directory's name gives a column, too.
    (directory / "in" / "day=2026-01-31").mkdir(parents=True)
    (directory / "in" / "day=2026-01-31" / f"0.{kind}").write_text("\n".join(lines) + "\n")
    text = "CREATE STREAM c (k BIGINT, s STRING, t TIMESTAMP, day TIMESTAMP) WITH (connector = 'files', time = 'day', "
    (stream,) = read_script(f"{text} path = '{directory / 'in'}', format = '{kind}' {options});").catalog.streams
    frame = source_frame(spark, stream, Settings(), 0)
    query = frame.writeStream.format("memory").queryName("lines").trigger(availableNow=True).start()
    assert query.awaitTermination(100)
    rows = spark.table("lines").collect()
    assert {row.day for row in rows} == {dt.datetime(2026, 1, 31)}
    read = [(row.k, row.s) if row.t is None else (row.k, row.s, row.t) for row in rows if row[CORRUPT] is None]
    return read, [row[CORRUPT] for row in rows if row[CORRUPT] is not None]


def test_a_record_of_kafka_or_a_line_is_one_whole_value_or_malformed(spark: SparkSession, tmp_path: Path) -> None:
    one, two = '{"k": 1, "s": "}]"}', '{"k": 2}'
    assert read_values(spark, "format = 'json'", [f" {one}\n", "{}"]) == [(1, "}]", None), (None, None, None)]
    bad = [
        f"{one} {two}",
        f"{one}\n{two}",
        f"{one},{two}",
        f'{one},"w":2',
        f"{one},null",
        f"{one}}}",
        f"{one}x",
        f"[{one}]",
        "null",
        "5",
        "",
        one[:-1],
    ]
    assert [told[2] for told in read_values(spark, "format = 'json'", bad)] == bad
    bad = [text for text in bad if text and "\n" not in text]
    lines = ["", *bad, f" {one}\t", "  ", two]
    read, told = read_file(spark, tmp_path, "json", lines)
    assert (sorted(read, key=str), sorted(told)) == ([(1, "}]"), (2, None)], sorted(bad))
    assert read_values(spark, "format = 'csv'", ["1,a", ",", "", "1"])[2:] == [(None, None, ""), (1, None, "1")]


def test_a_time_without_a_date_or_in_milliseconds_is_malformed(spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes the first for today's, and the second for one in the far future: a replay gave something else."""
    good = ["2026-01-31T12:00:00Z", "2026-01-31 13:00:00+01:00", "2026-1-31 12"]
    bad = ["12:00", " T1:00", "T12", "noon"]
    objects = [json.dumps({"s": "12:00", "t": one}) for one in (*good, 1769860800)]
    wrong = [json.dumps({"s": "1", "t": one}) for one in (*bad, 1769860800000, 1769860800000000)]
    wrong.append('{"s": "1", "t": "\\u00312:00"}')
    read, told = read_file(spark, tmp_path / "json", "json", [*objects, *wrong])
    noon = (None, "12:00", dt.datetime(2026, 1, 31, 12))
    assert (read, told) == ([noon] * 4, wrong)
    read, told = read_file(spark, tmp_path / "csv", "csv", [f",12:00,{one}" for one in (*good, *bad)])
    assert (read, told) == ([noon] * 3, [f",12:00,{one},2026-01-31" for one in bad])
    columns = "s STRING, t TIMESTAMP"
    values = [f"12:00,{one}" for one in (*good, *bad)]
    found = read_values(spark, "format = 'csv'", values, columns)
    assert found == [(*noon[1:], None)] * 3 + [("12:00", found[3 + n][1], one) for n, one in enumerate(values[3:])]
    assert [one[2] for one in read_values(spark, "format = 'json'", objects + wrong, columns)] == [None] * 4 + wrong


def test_a_line_of_csv_has_the_blanks_of_its_texts(spark: SparkSession) -> None:
    text = "CREATE STREAM c (s STRING, ts TIMESTAMP) WITH (connector = 'generator', time = 'ts');"
    into = "INTO (connector = 'kafka', servers = 'h:1', format = 'csv')"
    (query,) = read_script(f"{text} CREATE QUERY q AS SELECT s, s AS t FROM c {into};").queries
    rows = spark.sql("SELECT ' a b ' AS s, ' ' AS t, 0 AS shard, 0 AS row")
    (record,) = records_of(rows, query.schema, "q", query.into, 3, "run", "shard", "row").collect()
    assert (record.key, record.value) == ("run/q/3/0/0", " a b , ")


@pytest.mark.parametrize(("escape", "line"), [('"', '1,"a""b"'), ("\\", '1,"a\\"b"')])
def test_a_line_of_csv_that_was_written_is_read_the_same(
    spark: SparkSession, tmp_path: Path, escape: str, line: str
) -> None:
    texts = ['a"b', '"', "a\\", '\\"', "a,b", 'a\\",b', " a ", '""', "a\nb"]
    options = f"format = 'csv', escape = '{escape}'"
    text = "CREATE STREAM c (k BIGINT, s STRING, ts TIMESTAMP) WITH (connector = 'generator', time = 'ts');"
    into = f"INTO (connector = 'kafka', servers = 'h:1', {options})"
    (query,) = read_script(f"{text} CREATE QUERY q AS SELECT k, s FROM c {into};").queries
    rows = spark.createDataFrame([(1, one, 0, 0) for one in texts], "k BIGINT, s STRING, shard INT, row INT")
    records = records_of(rows, query.schema, "q", query.into, 3, "run", "shard", "row").collect()
    assert records[0].value == line
    assert read_values(spark, options, [one.value for one in records]) == [(1, one, None) for one in texts]
    lines = [f"{one.value},2026-01-31 12:00:00" for one in records[:-1]]
    read, told = read_file(spark, tmp_path, "csv", lines, f", escape = '{escape}'")
    assert ([one[1] for one in read], told) == (texts[:-1], [])
