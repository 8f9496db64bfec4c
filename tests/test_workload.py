"""The generator's promises: one stream however it is cut, the stated rates, and the papers' burstiness."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import PlanError, SourceError
from headrace.model import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Column, Schema, decimal
from headrace.workload import Arrival, GeneratorSpec, Position, advance, arrow_schema, batches_until, generate

START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000

SENSOR = Schema((Column("location_id", BIGINT), Column("value", DOUBLE), Column("ts", TIMESTAMP)))
EVERYTHING = Schema(
    (
        Column("ts", TIMESTAMP),
        Column("name", STRING),
        Column("small", INT),
        Column("big", BIGINT),
        Column("value", DOUBLE),
        Column("price", decimal(10, 2)),
        Column("tiny", decimal(2, 2)),
        Column("fine", decimal(38, 20)),
        Column("flag", BOOLEAN),
        Column("day", DATE),
        Column("other_ts", TIMESTAMP),
        Column("note", STRING),
    )
)


def spec_of(**changes: object) -> GeneratorSpec:
    return replace(GeneratorSpec("readings", SENSOR, "ts", START_US), **changes)


def stream(spec: GeneratorSpec, seconds: float) -> pa.RecordBatch:
    return generate(spec, Position.at_start(spec), spec.start_us + int(seconds * SECOND_US))[0]


def offsets_us(batch: pa.RecordBatch) -> np.ndarray:
    return batch["ts"].cast(pa.int64()).to_numpy() - START_US


specs = st.builds(
    spec_of,
    rate=st.sampled_from([0.5, 30.0, 2000.0]),
    keys=st.sampled_from([1, 7, 1000]),
    skew=st.sampled_from([0.0, 1.2]),
    seed=st.integers(0, 5),
    arrival=st.sampled_from(Arrival),
    burst=st.sampled_from([1.0, 3.0, 50.0]),
    flows=st.sampled_from([1, 64]),
    duration_us=st.sampled_from([None, 9 * SECOND_US]),
)


@given(specs, st.lists(st.integers(-SECOND_US, 15 * SECOND_US), max_size=8))
@settings(max_examples=60, deadline=None)
def test_any_cuts_make_the_same_stream_and_end_in_the_same_position(spec: GeneratorSpec, cuts: list[int]) -> None:
    end_us = START_US + 15 * SECOND_US
    whole, end = generate(spec, Position.at_start(spec), end_us)
    position, pieces = Position.at_start(spec), []
    for cut in [*cuts, end_us - START_US]:
        piece, position = generate(spec, position, START_US + cut)
        position = Position.from_json(json.loads(json.dumps(position.to_json())))
        pieces.append(piece)
    assert pa.Table.from_batches(pieces).combine_chunks() == pa.Table.from_batches([whole])
    assert position == end
    assert end.tuples == whole.num_rows


@given(specs)
@settings(max_examples=30, deadline=None)
def test_the_stream_is_ordered_and_inside_its_time(spec: GeneratorSpec) -> None:
    at = offsets_us(stream(spec, 12))
    assert np.all(np.diff(at) >= 0)
    assert np.all((at >= 0) & (at <= (9 * SECOND_US - 1 if spec.duration_us else 12 * SECOND_US)))


@pytest.mark.parametrize("arrival", Arrival)
def test_cutting_exactly_at_a_tuple_takes_it_and_all_its_ties(arrival: Arrival) -> None:
    spec = spec_of(arrival=arrival, rate=500.0)
    whole = stream(spec, 30)
    last_us = int(whole["ts"].cast(pa.int64())[8200].as_py())
    first, position = generate(spec, Position.at_start(spec), last_us)
    second, _ = generate(spec, position, START_US + 30 * SECOND_US)
    assert first.num_rows == pc.sum(pc.less_equal(whole["ts"].cast(pa.int64()), last_us)).as_py()
    assert position.last_us == last_us
    assert pa.Table.from_batches([first, second]).combine_chunks() == pa.Table.from_batches([whole])


def test_an_older_until_gives_nothing_and_moves_nothing() -> None:
    spec = spec_of()
    position = advance(spec, Position.at_start(spec), START_US + 10 * SECOND_US)
    again, after = generate(spec, position, START_US + 3 * SECOND_US)
    assert (again.num_rows, after) == (0, position)


def test_advance_and_batches_agree_with_generate() -> None:
    spec = spec_of(rate=3000.0, arrival=Arrival.PARETO)
    until = START_US + 20 * SECOND_US
    whole, after = generate(spec, Position.at_start(spec), until)
    assert advance(spec, Position.at_start(spec), until) == after
    pieces = list(batches_until(spec, Position.at_start(spec), until))
    assert len(pieces) > 3
    assert pa.Table.from_batches(pieces).combine_chunks() == pa.Table.from_batches([whole])


@pytest.mark.parametrize("arrival", Arrival)
def test_mean_rate_is_the_stated_one(arrival: Arrival) -> None:
    spec = spec_of(rate=100.0, arrival=arrival)
    hours = 4
    produced = advance(spec, Position.at_start(spec), START_US + hours * 3600 * SECOND_US).tuples
    assert produced == pytest.approx(hours * 3600 * 100, rel=0.03)


def test_exponential_gaps_have_their_standard_deviation() -> None:
    gaps = np.diff(offsets_us(stream(spec_of(rate=1000.0), 200)))
    assert gaps.mean() == pytest.approx(1000, rel=0.02)
    assert gaps.std() == pytest.approx(1000, rel=0.02)


@pytest.mark.parametrize("burst", [2.0, 3.0])
def test_pareto_bursts_have_the_expected_size(burst: float) -> None:
    at = offsets_us(stream(spec_of(arrival=Arrival.PARETO, burst=burst, rate=1000.0), 1000))
    sizes = np.unique(at, return_counts=True)[1]
    assert sizes.mean() == pytest.approx(burst, rel=0.1)
    assert sizes.max() > 20 * burst


def test_a_burst_of_one_is_a_tuple_alone() -> None:
    at = offsets_us(stream(spec_of(arrival=Arrival.PARETO, burst=1.0, rate=10.0), 600))
    assert np.unique(at).size == at.size


def decay(spec: GeneratorSpec, hours: int) -> float:
    """The slope of log variance of counts against log scale, from 0.1 s to 100 s: -1 for a Poisson stream."""
    at = offsets_us(stream(spec, hours * 3600))
    scales = np.array([0.1, 1.0, 10.0, 100.0])
    variances = [
        (np.histogram(at, int(hours * 3600 / scale), (0, hours * 3600 * SECOND_US))[0] / scale).var()
        for scale in scales
    ]
    return float(np.polyfit(np.log(scales), np.log(variances), 1)[0])


def test_self_similar_variance_decays_slower_than_poisson() -> None:
    assert decay(spec_of(rate=500.0), 1) == pytest.approx(-1, abs=0.1)
    assert decay(spec_of(rate=500.0, arrival=Arrival.SELF_SIMILAR), 1) > -0.6


def test_streams_of_one_seed_and_different_names_differ() -> None:
    one, other = stream(spec_of(), 10), stream(spec_of(name="others"), 10)
    assert not one.equals(other)
    assert stream(spec_of(name="READINGS"), 10).equals(one)


def test_keys_are_uniform_without_skew_and_zipf_with_it() -> None:
    uniform = np.bincount(stream(spec_of(keys=10, rate=1000.0), 60)["location_id"].to_numpy())
    assert uniform.size == 10
    assert uniform.max() < 1.2 * uniform.min()
    skewed = np.bincount(stream(spec_of(keys=10, rate=1000.0, skew=1.0), 60)["location_id"].to_numpy())
    assert skewed[0] / skewed[4] == pytest.approx(5, rel=0.2)


def test_every_type_gets_values_of_its_kind() -> None:
    spec = spec_of(schema=EVERYTHING, keys=5, low=-3.0, high=7.0)
    batch = stream(spec, 20)
    assert batch.schema == arrow_schema(EVERYTHING)
    rows = batch.to_pylist()
    assert {row["name"] for row in rows} == {f"k{key}" for key in range(5)}
    assert {row["note"][0] for row in rows} == {"s"}
    assert all(0 <= row["small"] < 1000 and 0 <= row["big"] < 1000 for row in rows)
    assert all(-3 <= row["value"] <= 7 and -3 <= row["price"] <= 7 and -3 <= row["fine"] <= 7 for row in rows)
    assert all(-1 < row["tiny"] < 1 for row in rows)
    assert min(row["price"] for row in rows) < -2
    assert {row["flag"] for row in rows} == {True, False}
    assert all(row["day"] == row["ts"].astimezone(dt.UTC).date() and row["other_ts"] == row["ts"] for row in rows)


def test_the_key_column_can_be_chosen() -> None:
    batch = stream(spec_of(schema=EVERYTHING, key="big", keys=2), 20)
    assert set(batch["big"].to_pylist()) == {0, 1}
    assert set(batch["name"].to_pylist()).isdisjoint({"k0", "k1"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": 0.0},
        {"keys": 0},
        {"skew": -1.0},
        {"seed": -1},
        {"burst": 0.5},
        {"flows": 0},
        {"on_shape": 1.0},
        {"low": 2.0, "high": 1.0},
        {"duration_us": 0},
    ],
)
def test_impossible_numbers_are_refused_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(SourceError, match=f"generator: {next(iter(wrong)).removesuffix('_us')} must be"):
        spec_of(**wrong)


def test_a_key_must_be_a_column_that_can_hold_keys() -> None:
    with pytest.raises(PlanError, match="key = 'value'"):
        spec_of(key="value")
