"""The generator source: offsets without Spark, and whole queries on it, broken off and restarted."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.errors import SettingError, SourceError, StateError
from headrace.model import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Column, Schema, Stream, StreamId
from headrace.model import decimal as decimal_type
from headrace.spark import generator
from headrace.spark.generator import GeneratorStreamReader, generator_reader, pace_of, spec_of
from headrace.workload import Arrival, Position, generate

SECOND_US = 1_000_000
FIRST_US = 1_700_000_000_000_000
SENSOR = Schema((Column("location_id", BIGINT), Column("value", DOUBLE), Column("ts", TIMESTAMP)))
EVERYTHING = Schema(
    (
        *SENSOR,
        Column("Odd `name`", STRING),
        Column("small", INT),
        Column("price", decimal_type(12, 3)),
        Column("flag", BOOLEAN),
        Column("day", DATE),
    )
)


def declare(schema: Schema = SENSOR, **options: str) -> Stream:
    return Stream(StreamId("readings"), schema, "ts", options=tuple(sorted(options.items())))


class Clock:
    def __init__(self, now_us: int) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    wall = Clock(FIRST_US)
    monkeypatch.setattr(generator, "_wall_us", wall)
    return wall


def latest(reader: GeneratorStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    """The next offset, as it comes back from the offset log."""
    return json.loads(json.dumps(reader.latestOffset(start, ReadAllAvailable())))


def read(reader: GeneratorStreamReader, start: dict[str, Any], end: dict[str, Any]) -> pa.Table:
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return pa.Table.from_batches(batches).combine_chunks()


def test_event_time_follows_the_wall_clock_at_its_speed(clock: Clock) -> None:
    reader = GeneratorStreamReader(declare(rate="1000", speed="10", start="2026-01-01 00:00:00"), FIRST_US)
    assert latest(reader, {}) == {}
    clock.now_us += 2 * SECOND_US
    end = latest(reader, {})
    assert end["position"]["until_us"] - end["start_us"] == 20 * SECOND_US
    assert read(reader, {}, end)["ts"][0].as_py().isoformat().startswith("2026-01-01T00:00:00")


def test_history_is_there_at_once(clock: Clock) -> None:
    reader = GeneratorStreamReader(declare(rate="10", history="10 minutes"), FIRST_US)
    end = latest(reader, {})
    assert end["start_us"] == FIRST_US - 600 * SECOND_US
    assert end["position"]["until_us"] == FIRST_US
    clock.now_us += 5 * SECOND_US
    assert latest(reader, end)["position"]["until_us"] == FIRST_US + 5 * SECOND_US


def test_a_restarted_reader_goes_on_from_the_offsets_start(clock: Clock) -> None:
    stream = declare(rate="100")
    clock.now_us += 3 * SECOND_US
    first = GeneratorStreamReader(stream, FIRST_US)
    one = latest(first, {})
    clock.now_us += 100 * SECOND_US
    second = GeneratorStreamReader(stream, clock.now_us)
    assert read(second, {}, one) == read(first, {}, one), "micro-batch 0 replayed"
    two = latest(second, one)
    assert (two["start_us"], two["position"]["until_us"]) == (FIRST_US, clock.now_us)
    whole = generate(spec_of(stream, FIRST_US), Position.at_start(spec_of(stream, FIRST_US)), clock.now_us)[0]
    pieces = pa.concat_tables([read(second, {}, one), read(second, one, two)]).combine_chunks()
    assert pieces == pa.Table.from_batches([whole])


def test_an_offset_stays_where_there_are_no_new_tuples(clock: Clock) -> None:
    reader = GeneratorStreamReader(declare(rate="1", duration="20 seconds", seed="3"), FIRST_US)
    clock.now_us += 20 * SECOND_US
    end = latest(reader, {})
    clock.now_us += 500 * SECOND_US
    assert latest(reader, end) == end
    assert reader.partitions(end, end) == []


@pytest.mark.usefixtures("clock")
def test_unpaced_steps_pass_over_empty_stretches_to_the_end() -> None:
    stream = declare(rate="0.2", speed="0", duration="2 minutes", step="1 second")
    reader = GeneratorStreamReader(stream, FIRST_US)
    offsets: list[dict[str, Any]] = [{}]
    while (end := latest(reader, offsets[-1])) != offsets[-1]:
        assert end["position"]["until_us"] - end["position"]["last_us"] <= SECOND_US
        offsets.append(end)
    assert len(offsets) > 10
    spec = spec_of(stream, FIRST_US)
    whole = generate(spec, Position.at_start(spec), FIRST_US + 120 * SECOND_US)[0]
    pieces = [read(reader, a, b) for a, b in itertools.pairwise(offsets)]
    assert pa.concat_tables(pieces).combine_chunks() == pa.Table.from_batches([whole])


def test_available_now_ends_at_the_moment_it_began(clock: Clock) -> None:
    reader = GeneratorStreamReader(declare(rate="100"), FIRST_US)
    clock.now_us += SECOND_US
    reader.prepareForTriggerAvailableNow()
    clock.now_us += 50 * SECOND_US
    assert latest(reader, {})["position"]["until_us"] == FIRST_US + SECOND_US


def test_options_become_the_spec_and_the_pace() -> None:
    options = {
        "rate": "12.5", "keys": "7", "skew": "0.5", "seed": "9", "arrival": "Self_Similar", "burst": "3", "flows": "8",
        "on_shape": "1.5", "off_shape": "1.3", "key": "location_id", "low": "-1", "high": "1", "duration": "1 hour",
    }  # fmt: skip
    spec = spec_of(declare(**options), FIRST_US)
    assert (spec.rate, spec.keys, spec.skew, spec.seed, spec.arrival) == (12.5, 7, 0.5, 9, Arrival.SELF_SIMILAR)
    assert (spec.burst, spec.flows, spec.on_shape, spec.off_shape) == (3.0, 8, 1.5, 1.3)
    assert (spec.key, spec.low, spec.high, spec.duration_us) == ("location_id", -1.0, 1.0, 3600 * SECOND_US)
    pace = pace_of(declare(start="2026-01-01T01:00:00+01:00", speed="2", step="500 ms", history="1 min"))
    assert (pace.start_us, pace.speed, pace.step_us, pace.history_us) == (
        1_767_225_600 * SECOND_US, 2.0, 500_000, 60 * SECOND_US,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": "fast"}, "'fast' is not allowed"),
        ({"arrival": "weekly"}, "'weekly' is not allowed"),
        ({"start": "noon"}, "not a timestamp"),
        ({"duration": "long"}, "not a duration"),
        ({"burst": "5000"}, "1000"),
        ({"step": "0 s"}, "step must be longer than 0"),
        ({"speed": "0"}, "needs a duration"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises((SettingError, SourceError), match=message):
        spec_of(declare(**options), FIRST_US), pace_of(declare(**options))


def test_a_checkpoint_of_other_options_is_refused(clock: Clock) -> None:
    clock.now_us += SECOND_US
    end = latest(GeneratorStreamReader(declare(rate="10"), FIRST_US), {})
    with pytest.raises(StateError, match="other generator options"):
        latest(GeneratorStreamReader(declare(rate="20"), FIRST_US), end)


# On Spark.


class Crash:
    """A sink that keeps each micro-batch's rows, and breaks once at each of the given micro-batches."""

    def __init__(self, at: tuple[int, ...] = ()) -> None:
        self.at = list(at)
        self.batches: dict[int, pa.Table] = {}
        self.replayed = 0

    def __call__(self, batch: DataFrame, number: int) -> None:
        rows = batch.toArrow().combine_chunks()
        if number in self.batches:
            assert rows == self.batches[number], f"micro-batch {number} was replayed with other tuples"
            self.replayed += 1
        self.batches[number] = rows
        if number in self.at:
            self.at.remove(number)
            raise RuntimeError("broken off")

    def table(self) -> pa.Table:
        return pa.concat_tables([rows for _, rows in sorted(self.batches.items())]).combine_chunks()


def run(spark: SparkSession, stream: Stream, checkpoint: Path, sink: Crash) -> None:
    """The query until its available input is used up, restarted after every crash."""
    while True:
        frame = generator_reader(spark, stream)
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination(120)
        except StreamingQueryException:
            continue
        assert not query.isActive
        return


UNPACED = {"rate": "2000", "start": "2026-01-01", "speed": "0", "duration": "3 seconds", "arrival": "pareto"}


@pytest.mark.spark
def test_a_crashed_and_restarted_query_reads_what_an_undisturbed_one_reads(spark: SparkSession, tmp_path: Path) -> None:
    stream = declare(EVERYTHING, **UNPACED)
    broken, whole = Crash(at=(0, 2)), Crash()
    run(spark, stream, tmp_path / "broken", broken)
    run(spark, stream, tmp_path / "whole", whole)
    assert broken.replayed == 2
    assert len(whole.batches) == 3
    assert broken.table() == whole.table()
    spec = spec_of(stream, pace_of(stream).begins_us(0))
    expected = generate(spec, Position.at_start(spec), spec.start_us + 3 * SECOND_US)[0]
    assert whole.table().to_pylist() == expected.to_pylist()


@pytest.mark.spark
def test_a_paced_query_restarts_on_the_clock_of_its_first_start(spark: SparkSession, tmp_path: Path) -> None:
    stream = declare(rate="50", history="30 seconds")
    sink = Crash(at=(0,))
    run(spark, stream, tmp_path, sink)
    run(spark, stream, tmp_path, sink)
    assert len(sink.batches) >= 2
    offset = json.loads(sorted((tmp_path / "offsets").glob("[0-9]*"))[-1].read_text().splitlines()[-1])
    spec = spec_of(stream, offset["start_us"])
    expected = generate(spec, Position.at_start(spec), offset["position"]["until_us"])[0]
    assert sink.table().to_pylist() == expected.to_pylist()
    assert sink.table().num_rows > 1000
