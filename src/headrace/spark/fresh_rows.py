"""Until when each result may be released: from the shard, which knows, to the driver, which releases.

      told      by query: when results arrived, until when they are fresh, how many      who is counted, and as what
      staged    part.parquet, and beside it part.fresh                                   a time a row, in the same order
      payload   the rows' columns, and FRESH_UNTIL

Owns how that travels, and ``without_stale``, ``fresh_part``: the rows that are still fresh at a time. Only results of
queries that may leave results out know it; the other's parts and payloads have none. Cost: a time a row, of which there
are few different ones; a part is only read and written again where rows of it are stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.events import Freshness
from headrace.engine.keys import Int64s

FRESH_UNTIL = "__fresh_until"
"""The column that says until when a row may be released."""
_SCHEMA = pa.schema([(FRESH_UNTIL, pa.int64())])

FreshCounts = dict[tuple[int, int], int]
"""How many results there are by (when they arrived, until when they are fresh)."""


def count_fresh(counts: FreshCounts, fresh: Freshness) -> None:
    """Counts results in."""
    pairs, rows = np.unique(np.stack([fresh.arrived_us, fresh.until_us]), axis=1, return_counts=True)
    for arrived_us, until_us, some in zip(*pairs.tolist(), rows.tolist(), strict=True):
        counts[arrived_us, until_us] = counts.get((arrived_us, until_us), 0) + some


def counts_to_json(counts: Mapping[str, FreshCounts]) -> dict[str, list[list[int]]]:
    return {query: [[*pair, rows] for pair, rows in sorted(some.items())] for query, some in counts.items()}


# --- payloads


def with_until(batch: pa.RecordBatch, fresh: Freshness | None) -> pa.RecordBatch:
    """The rows, each with its time if there are any."""
    return batch if fresh is None else batch.append_column(FRESH_UNTIL, pa.array(fresh.until_us))


def without_stale(batch: pa.RecordBatch, released_us: int) -> pa.RecordBatch:
    """The rows that are fresh at a time, without saying so."""
    place = batch.schema.get_field_index(FRESH_UNTIL)
    if place < 0:
        return batch
    is_fresh = batch.column(place).to_numpy() >= released_us
    rows = batch.remove_column(place)
    return rows if is_fresh.all() else rows.filter(pa.array(is_fresh))


# --- staged parts


def beside(part: str | Path) -> Path:
    """Where the times of a part's rows are."""
    return Path(part).with_suffix(".fresh")


class UntilWriter:
    """Writes the times of a part's rows, as the part grows."""

    def __init__(self, part: Path) -> None:
        self._writer = pq.ParquetWriter(beside(part), _SCHEMA, compression="zstd")

    def write(self, until_us: Int64s) -> None:
        self._writer.write_batch(pa.RecordBatch.from_arrays([pa.array(until_us)], schema=_SCHEMA))

    def close(self) -> None:
        self._writer.close()


def fresh_part(part: str, released_us: int) -> tuple[str, int]:
    """A part with the rows that are fresh at a time, and how many they are: it itself where all are, else another one,
    and none at all where no row is."""
    until_us = pq.ParquetFile(beside(part)).read().column(0).to_numpy()
    is_fresh = until_us >= released_us
    rows = int(is_fresh.sum())
    if rows in (0, len(until_us)):
        return part, rows
    kept = Path(part).with_suffix(f".{released_us}.parquet")
    with pq.ParquetFile(part) as whole:
        options = _written_with(whole)
        with pq.ParquetWriter(kept, whole.schema_arrow, **options) as writer:
            begin = 0
            for number in range(whole.num_row_groups):
                table = whole.read_row_group(number)
                writer.write_table(table.filter(pa.array(is_fresh[begin : begin + table.num_rows])))
                begin += table.num_rows
    return str(kept), rows


def _written_with(whole: pq.ParquetFile) -> dict[str, object]:
    """How a part was written, for one like it."""
    columns = [whole.metadata.row_group(0).column(number) for number in range(whole.metadata.num_columns)]
    names = [one.path_in_schema for one in columns if "RLE_DICTIONARY" in one.encodings]
    compression = columns[0].compression if columns else "UNCOMPRESSED"
    has_schema = b"ARROW:schema" in (whole.metadata.metadata or {})
    return {
        "compression": "none" if compression == "UNCOMPRESSED" else compression.lower(),
        "use_dictionary": names,
        "store_schema": has_schema,
    }
