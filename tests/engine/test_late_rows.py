"""Late rows of a stream that several inputs read: each is reported once, by an input that takes it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from local_host import LocalHost

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


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("value", [1, 7, 20])
def test_a_late_row_is_reported_once_whichever_inputs_take_it(value: int, shards: int) -> None:
    script = read_script(SCRIPT)
    host = LocalHost(script.catalog, script.queries, shards=shards)
    host.arrive({"a": rows((0, 1000), (50, 1000))})
    host.arrive({"a": rows((value, 999), (50, 1001))})
    assert [row["row"]["v"] for row in host.rejected] == [value]
