"""Where a row stands in its micro-batch: the numbers that its identity is made of; no Spark is started."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.engine.events import Freshness
from headrace.engine.segments import pack_batch
from headrace.spark.fresh_rows import with_until
from headrace.spark.outlets import ROW, SHARD, placed, unpacked

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
