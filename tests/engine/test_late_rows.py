"""Late rows: each is reported once, whole where it can be, and they hold nothing back."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from local_host import LocalHost

from headrace.engine.cutting import BlockCut
from headrace.engine.packing import ORDER, ORDER_SHIFT, Envelope, Packer
from headrace.engine.shard import ShardOptions
from headrace.model import StreamId
from headrace.sql import read_script

SCRIPT = """
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (connector = 'files', path = 'a', time = 'ts');
CREATE STREAM b (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (connector = 'files', path = 'b', time = 'ts');
CREATE STREAM c (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (connector = 'files', path = 'c', time = 'ts');
CREATE QUERY small AS SELECT x.v FROM a x, b y WHERE x.k = y.k AND x.v < 10 WINDOW 1 SECOND;
CREATE QUERY large AS SELECT x.v FROM a x, c y WHERE x.k = y.k AND x.v >= 5 WINDOW 1 SECOND;
"""


def rows(*pairs: tuple[int, int]) -> pa.RecordBatch:
    values, times = zip(*pairs, strict=True)
    columns = {"k": pa.array([1] * len(pairs)), "v": pa.array(values), "ts": pa.array(times, pa.timestamp("us", "UTC"))}
    return pa.RecordBatch.from_pydict(columns)


def chunk(host: LocalHost, order: int, batch: pa.RecordBatch) -> list[Envelope]:
    """A file's rows as a source task sends them."""
    batch = batch.append_column(ORDER, pa.array([order << ORDER_SHIFT] * batch.num_rows, pa.int64()))
    return list(Packer(host.plan, host.plan.catalog.get(StreamId("a")), len(host.stores)).pack(batch, 0))


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("value", [1, 7, 20])
def test_a_late_row_is_reported_once_whichever_inputs_take_it(value: int, shards: int) -> None:
    """It is behind another file of its micro-batch: so the shards find out."""
    script = read_script(SCRIPT)
    host = LocalHost(script.catalog, script.queries, shards=shards)
    first, second = rows((0, 1000), (50, 1000)), rows((value, 999), (50, 1001))
    host.deliver([*chunk(host, 1, first), *chunk(host, 2, second)])
    assert [row["row"]["v"] for row in host.rejected] == [value]


@pytest.mark.parametrize("source", ["a", "c"])
def test_what_is_behind_earlier_micro_batches_is_kept_whole(source: str) -> None:
    """Whatever columns its queries read, and if none takes it."""
    script = read_script(SCRIPT)
    host = LocalHost(script.catalog, script.queries, shards=3)
    host.arrive({source: rows((0, 1000), (50, 1000))})
    host.arrive({source: rows((1, 999), (50, 1001))})
    (letter,) = host.rejected
    assert json.loads(str(letter["row"])) == {"k": 1, "v": 1, "ts": "1970-01-01 00:00:00.000999+00:00"}


JOINED = """
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (connector = 'files', path = 'a', time = 'ts');
CREATE STREAM b (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (connector = 'files', path = 'b', time = 'ts');
CREATE QUERY pairs AS SELECT x.v, y.v AS w FROM a x, b y WHERE x.k = y.k WINDOW 0 SECONDS;
CREATE QUERY counts AS SELECT COUNT(*) AS n FROM a x, b y WHERE x.k = y.k WINDOW 1 HOUR;
CREATE QUERY others AS SELECT x.v FROM a x, b y WHERE x.v = y.v WINDOW 0 SECONDS;
"""
"""Two joins, which take turns."""


def ahead(**options: BlockCut) -> LocalHost:
    """Tuples are joined ahead, a block in each micro-batch."""
    script = read_script(JOINED)
    return LocalHost(script.catalog, script.queries, options=ShardOptions(**options), probes=1, filter_order=(True,))


def test_a_late_row_holds_no_results_back() -> None:
    """The block that it comes with has nothing that is before progress, so what others find leaves before that block is
    scanned."""
    host = ahead(block=BlockCut(span_us=1000))
    times = [(number, 1000 * number) for number in range(1, 6)]
    host.arrive({"a": rows(*times), "b": rows(*times)})
    host.arrive({"a": rows((0, 0), (6, 6000)), "b": rows((6, 6000))})
    assert len(host.rejected) == 1
    while host.is_behind:
        host.go_on()
    assert [[row["v"] for row in batch] for batch in host.results["pairs"]] == [[1], [2], [3], [4], [5]]


def test_aggregates_are_not_evaluated_at_the_times_of_late_rows() -> None:
    """What was found counts from where progress was then: at a time before that, it would be missing."""
    host = ahead()
    host.arrive({"a": rows((1, 1000)), "b": rows((1, 1000))})
    host.arrive({"a": rows((2, 2000), (3, 3000), (5, 5000)), "b": rows((2, 2000), (3, 3000), (5, 5000))})
    for time in (7000, 9000, 11000):
        host.arrive({"a": rows((0, time - 4000), (1, time)), "b": rows((1, time))})
    while host.is_behind:
        host.go_on()
    assert host.evaluated["counts"] == [999, 1999, 4999, 6999, 8999, 10999]
    assert [row["n"] for row in host.rows("counts")] == [1, 9, 16, 25, 36]
