"""Rows of a chunk that come from several sources of one stream (its partitions).

    rows, as they arrived     a1 b1 a2 c1 b2 ...      one chunk: ties keep the order of arrival, whatever the source
    PART                       0  1  0  2  1 ...      which of the chunk's sources a row is from
    names                     a, b, c

Sources may lag each other, so what is late is told source by source; everything else about a chunk (places, numbers,
the order of ties) is of the chunk as a whole. Owns :class:`Parts` and the column PART, which rows have on the way to
the shard where their chunk has several sources. Cost: O(rows), and a sort of their codes where there are several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headrace.engine.keys import Int64s

PART = "__part"
"""The column that holds a row's source, as its place among the chunk's."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The sources of a chunk's rows, in the order in which they are first met; ``codes``: which each row is of."""

    names: tuple[str, ...]
    codes: Int64s

    @property
    def are_several(self) -> bool:
        return len(self.names) > 1

    def rows_of_each(self) -> Iterator[tuple[str, Int64s]]:
        """Each source and its rows, in arrival order."""
        if not self.are_several:
            yield self.names[0], np.arange(len(self.codes))
            return
        by_part = np.argsort(self.codes, kind="stable")
        cuts = np.searchsorted(self.codes[by_part], np.arange(len(self.names) + 1))
        for name, (begin, end) in zip(self.names, pairwise(cuts), strict=True):
            yield name, by_part[begin:end]

    def late_rows(self, ts_us: Int64s, max_delay_us: int) -> np.ndarray:
        """Rows further behind the newest of their source before them than the stream allows."""
        late = np.zeros(len(ts_us), dtype=bool)
        for _, rows in self.rows_of_each():
            mine_us = ts_us[rows]
            late[rows] = mine_us < np.maximum.accumulate(mine_us) - max_delay_us
        return late


def parts_of(chunk: pa.RecordBatch, column: str | None) -> Parts:
    """The sources of a chunk's rows, where a column tells them; a row without one is of a source of its own."""
    if column is None:
        return Parts(("",), np.zeros(chunk.num_rows, dtype=np.int64))
    encoded = chunk.column(column).cast(pa.string()).fill_null("").dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return Parts(tuple(encoded.dictionary.to_pylist()), codes)
