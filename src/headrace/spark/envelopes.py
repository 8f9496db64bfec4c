"""Envelopes as Spark rows: what crosses the shuffle from pack to shard, and back from shard to driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

import pandas as pd
import pyarrow as pa

from headrace.engine.packing import Envelope, Kind

ENVELOPE_DDL = (
    "shard int, kind int, stream string, `group` int, input int, `order` bigint, first_us bigint, newest_us bigint, "
    "oldest_us bigint, arrived_us bigint, chunk bigint, rows bigint, malformed bigint, spent_us bigint, "
    "payload binary, times binary, partitions array<string>, parts binary"
)
_ENVELOPE_ARROW = pa.schema(
    [
        ("shard", pa.int32()), ("kind", pa.int32()), ("stream", pa.string()), ("group", pa.int32()),
        ("input", pa.int32()), ("order", pa.int64()), ("first_us", pa.int64()), ("newest_us", pa.int64()),
        ("oldest_us", pa.int64()),
        ("arrived_us", pa.int64()), ("chunk", pa.int64()), ("rows", pa.int64()), ("malformed", pa.int64()),
        ("spent_us", pa.int64()), ("payload", pa.binary()), ("times", pa.binary()),
        ("partitions", pa.list_(pa.string())), ("parts", pa.binary()),
    ]
)  # fmt: skip

REPORT_DDL = "kind string, shard int, queries array<string>, rows bigint, detail string, payload binary"
_REPORT_COLUMNS = ["kind", "shard", "queries", "rows", "detail", "payload"]

STAGED, ROWS, DEAD, TOLD, PANES, REACHED = "staged", "rows", "dead", "told", "panes", "reached"
"""Kinds of report: a staged part, result rows, dead letters, a shard's statistics; of groups that span shards, partial
aggregates and the times until which they are all there."""


@dataclass(frozen=True, slots=True)
class Report:
    """One message from a shard to the driver; which fields matter depends on the kind."""

    kind: str
    shard: int
    queries: tuple[str, ...] = ()
    rows: int = 0
    detail: str = ""
    payload: bytes = b""


def to_arrow(envelopes: Iterable[Envelope], labels: tuple[int, ...]) -> pa.RecordBatch:
    """Envelopes as a batch, addressed by the shards' labels."""
    rows = [(labels[one.shard], int(one.kind), *_fields(one)) for one in envelopes]
    columns = [
        pa.array(values, kind.type) for values, kind in zip(zip(*rows, strict=True), _ENVELOPE_ARROW, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ENVELOPE_ARROW)


def _fields(one: Envelope) -> tuple[object, ...]:
    return (
        one.stream, one.group, one.input, one.order, one.first_us, one.newest_us, one.oldest_us,
        one.arrived_us, one.chunk, one.rows, one.malformed, one.spent_us, memoryview(one.payload).tobytes(), one.times,
        one.partitions, one.parts,
    )  # fmt: skip


def from_pandas(frames: Iterable[pd.DataFrame], shard: int) -> Iterator[Envelope]:
    """The envelopes that reached a shard."""
    for frame in frames:
        for row in frame.itertuples(index=False):
            yield Envelope(
                shard, Kind(int(row.kind)), row.stream, int(row.group), int(row.input), int(row.order),
                int(row.first_us), int(row.newest_us), int(row.oldest_us), int(row.arrived_us), int(row.chunk),
                int(row.rows),
                int(row.malformed), int(row.spent_us), row.payload, row.times, tuple(row.partitions), row.parts,
            )  # fmt: skip


def to_pandas(reports: Iterable[Report]) -> pd.DataFrame:
    rows = [(*astuple(one)[:2], list(one.queries), one.rows, one.detail, one.payload) for one in reports]
    return pd.DataFrame(rows, columns=_REPORT_COLUMNS)
