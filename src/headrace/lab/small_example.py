"""Paper 002's Tables 2 and 3: six tuples in three windows, evaluated lazily by a shard.

S1   90 100                      windows of 100 s, evaluated every 30: the new tuples of S3 together, at 210
S2           150  180            195 reaches back to 95, 205 to 105: so 90 joins neither, and 100 only 195
S3                    195 205
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa

from headrace.engine.events import Arrival, EmitRows, Event, ProgressMade
from headrace.engine.packing import EVENTS, ORDER, ORDER_SHIFT, Packer
from headrace.engine.shard import Shard, ShardOptions
from headrace.lab.experiment import Numbers, Setup
from headrace.model import StreamId
from headrace.plan.sharing import share
from headrace.sql import read_script

TABLE_2 = {"s1": (90, 100), "s2": (150, 180), "s3": (195, 205)}
TABLE_3 = ((100, 150, 195), (100, 180, 195))
INTERVAL_S, WINDOW_S = 30, 100
NOW_US = 210_000_001
"""An evaluation is due when its time has passed."""
PROGRAM = "".join(
    f"CREATE STREAM {name} (attr BIGINT, at BIGINT, ts TIMESTAMP) WITH (connector = 'generator', rate = '1', "
    "keys = '1', time = 'ts');"
    for name in TABLE_2
) + (
    "CREATE QUERY q AS SELECT s1.at AS t1, s2.at AS t2, s3.at AS t3 FROM s1, s2, s3 WHERE s1.attr = s2.attr "
    f"AND s2.attr = s3.attr WINDOW {WINDOW_S} s;"
)


def table_3(_: Setup) -> Numbers:
    """What the shard gives, and all combinations, which is what the naive lazy algorithm gives."""
    script = read_script(PROGRAM)
    plan = share(script.catalog, tuple(script.queries))
    shard = Shard(plan, ShardOptions(method="lazy", reevaluate_us=INTERVAL_S * 1_000_000))
    events: list[Event] = []
    for name, times in TABLE_2.items():
        stream = plan.catalog.get(StreamId(name))
        packed = Packer(plan, stream, 1).pack(_rows(times), 0)
        events += [one.event(plan) for one in packed if one.kind in EVENTS]
        events.append(ProgressMade(stream.name, Arrival(2 << ORDER_SHIFT, NOW_US), NOW_US, NOW_US))
    rows = [row for effect in shard.step(events) if isinstance(effect, EmitRows) for row in effect.batch.to_pylist()]
    found = sorted([row["t1"], row["t2"], row["t3"]] for row in rows)
    return {"ours": {"method": "lazy"}, "found": found, "naive": [list(row) for row in product(*TABLE_2.values())]}


def _rows(times: tuple[int, ...]) -> pa.RecordBatch:
    columns = {
        "attr": pa.array([1] * len(times), pa.int64()),
        "at": pa.array(times, pa.int64()),
        "ts": pa.array([one * 1_000_000 for one in times], pa.timestamp("us", tz="UTC")),
        ORDER: pa.array(np.full(len(times), 1 << ORDER_SHIFT)),
    }
    return pa.RecordBatch.from_pydict(columns)
