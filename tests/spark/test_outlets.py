"""Where a row stands in its micro-batch: the numbers that its identity is made of; no Spark is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.engine.events import Freshness
from headrace.engine.segments import pack_batch
from headrace.spark.fresh_rows import with_until
from headrace.spark.orders import Work
from headrace.spark.outlets import ROW, SHARD, placed, unpacked
from headrace.spark.pipeline import Sinks
from headrace.spark.session import Engine

ALL = -(2**63)


def reports(*sent: tuple[int, list[int]]) -> pa.RecordBatch:
    """What reaches the writer: a shard's number and its rows."""
    payloads = [pack_batch(pa.RecordBatch.from_pydict({"v": values})).to_pybytes() for _, values in sent]
    shards = pa.array([shard for shard, _ in sent], pa.int32())
    return pa.RecordBatch.from_arrays([shards, pa.array(payloads, pa.binary())], ["shard", "payload"])


def test_rows_are_numbered_on_in_each_shard_from_report_to_report() -> None:
    batches = [reports((0, [10, 11]), (1, [20])), reports((0, [12]), (1, [21, 22]))]
    rows = pa.Table.from_batches(placed(ALL)(batches)).to_pylist()
    places = {(one[SHARD], one[ROW]): one["v"] for one in rows}
    assert places == {(0, 0): 10, (0, 1): 11, (0, 2): 12, (1, 0): 20, (1, 1): 21, (1, 2): 22}


def test_places_are_the_same_when_the_same_reports_come_in_other_batches() -> None:
    whole = [reports((0, [1, 2]), (0, [3]), (1, [4]))]
    parts = [reports((0, [1, 2])), reports((0, [3])), reports((1, [4]))]
    assert (
        pa.Table.from_batches(placed(ALL)(whole)).to_pylist() == pa.Table.from_batches(placed(ALL)(parts)).to_pylist()
    )


def test_stale_rows_are_left_out_and_the_others_keep_their_places() -> None:
    rows = pa.RecordBatch.from_pydict({"v": [10, 11, 12]})
    fresh = Freshness(np.array([50, 40, 60]), np.array([1, 1, 1]))
    payload = pa.array([pack_batch(with_until(rows, fresh)).to_pybytes()], pa.binary())
    sent = pa.RecordBatch.from_arrays([pa.array([0], pa.int32()), payload], ["shard", "payload"])
    assert pa.Table.from_batches(unpacked(50)([sent])).to_pydict() == {"v": [10, 12]}
    assert pa.Table.from_batches(placed(50)([sent])).to_pydict() == {"v": [10, 12], SHARD: [0, 0], ROW: [0, 2]}


STREAM = "CREATE STREAM t (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (connector = 'generator', time = 'ts');"
BROKER = "INTO (connector = 'kafka', servers = 'there:9092')"


def begun(out: Path, *queries: str) -> tuple[Work, Sinks]:
    """What a run of these queries tells its tasks, and where it writes."""
    session: Any = object()
    engine = Engine(session)
    engine.sql(STREAM + "".join(f"CREATE QUERY {query};" for query in queries))
    if any(query.startswith("called ") for query in queries):
        engine.sink("called", lambda _query, _rows, _batch: None)
    sinks = engine.sinks(engine.plan(), out)
    return engine.work(engine.plan(), sinks), sinks


def test_a_micro_batch_of_an_earlier_run_is_not_written_for_queries_with_other_columns_by_now(tmp_path: Path) -> None:
    called = "called AS SELECT k FROM t"
    earlier, _ = begun(
        tmp_path,
        f"same AS SELECT k FROM t WHERE v > 1 {BROKER}",
        f"wider AS SELECT k FROM t {BROKER}",
        f"retyped AS SELECT k AS n FROM t {BROKER}",
        "moved AS SELECT k FROM t",
        f"gone AS SELECT k FROM t {BROKER}",
        called,
    )
    later, sinks = begun(
        tmp_path,
        f"same AS SELECT k FROM t WHERE v > 2 {BROKER}",
        f"wider AS SELECT k, v FROM t {BROKER}",
        f"retyped AS SELECT v AS n FROM t {BROKER}",
        f"moved AS SELECT k FROM t {BROKER}",
        f"new AS SELECT k FROM t {BROKER}",
        called.replace("SELECT k", "SELECT v"),
    )
    assert sinks.fitting(earlier) == {"same"}
    assert sinks.fitting(later) == {"same", "wider", "retyped", "moved", "new", "called"}
