"""A query's rows as people and programs read them back: the latest ones, and each micro-batch's as it comes.

      OUT/<query>/micro_batch=000000012/part-0000.parquet     published in one rename: whole, or not there

Owns reading what was published. A micro-batch's number is a place in the output that outlives the process, so that a
reader who was cut off goes on where it was. Cost: rows that are given, and the row groups that they are in; finding the
latest micro-batches lists the query's directory.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.plan.sinks import QUERY_COLUMN
from headrace.spark.staging import BATCH_COLUMN, batch_name

PROBED = 200
"""Micro-batches that are looked for one by one; to find more, the directory is listed."""


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Rows of one micro-batch, of ``total`` that it has."""

    batch: int
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    total: int


@dataclass(frozen=True, slots=True)
class PublishedRows:
    """The output of one query, in a directory of its own or one that it shares."""

    directory: Path
    query: str
    has_query_column: bool = False
    """Whether ``query`` is a column of the query's own, as it can be where no sink is shared."""

    def latest(self, most: int) -> list[BatchRows]:
        """The last rows there are, those of the newest micro-batch last."""
        found: list[BatchRows] = []
        for batch in sorted(self._listed(), reverse=True):
            told = self.read(batch, most, from_end=True)
            if told is not None and told.rows:
                found.append(told)
                most -= len(told.rows)
            if most <= 0:
                break
        return found[::-1]

    def newest(self) -> int:
        """The last micro-batch with rows; -1 before the first."""
        return max(self._listed(), default=-1)

    def after(self, batch: int, upto: int) -> list[int]:
        """The micro-batches later than one, up to another, in which there are rows."""
        if upto - batch <= PROBED:
            return [number for number in range(batch + 1, upto + 1) if self._path(number).exists()]
        return sorted(number for number in self._listed() if batch < number <= upto)

    def read(self, batch: int, most: int, *, from_end: bool = False) -> BatchRows | None:
        """The first (or last) rows of a micro-batch; None if there are none, or if it was taken away meanwhile."""
        gathered: list[pa.Table] = []
        total = 0
        with suppress(FileNotFoundError):
            for part in sorted(self._path(batch).glob("*.parquet"), reverse=from_end):
                with pq.ParquetFile(part) as file:
                    total += self._gather(file, most - _rows(gathered), gathered, from_end=from_end)
        if not gathered:
            return None
        rows = [row for one in (gathered[::-1] if from_end else gathered) for row in plain_rows(one)]
        return BatchRows(batch, tuple(gathered[0].schema.names), tuple(rows), total)

    def _gather(self, file: pq.ParquetFile, most: int, into: list[pa.Table], *, from_end: bool) -> int:
        """Takes up to so many of this query's rows out of a file; how many it has."""
        numbers = range(file.num_row_groups)
        is_shared = file.schema_arrow.names[0] == QUERY_COLUMN and not self.has_query_column
        total = 0 if is_shared else file.metadata.num_rows
        for number in reversed(numbers) if from_end else numbers:
            if most <= 0 and not is_shared:
                break
            rows = file.read_row_group(number, columns=[QUERY_COLUMN] if most <= 0 else None)
            if is_shared:
                rows = rows.filter(pc.equal(rows.column(QUERY_COLUMN).cast(pa.string()), self.query))
                total += rows.num_rows
            if most > 0 and rows.num_rows:
                taken = rows[max(rows.num_rows - most, 0) :] if from_end else rows[:most]
                into.append(taken.drop_columns(QUERY_COLUMN) if is_shared else taken)
                most -= taken.num_rows
        return total

    def _listed(self) -> Iterator[int]:
        if self.directory.exists():
            for entry in self.directory.iterdir():
                name, _, number = entry.name.partition("=")
                if name == BATCH_COLUMN and number.isdigit():
                    yield int(number)

    def _path(self, batch: int) -> Path:
        return self.directory / f"{BATCH_COLUMN}={batch_name(batch)}"


def _rows(tables: Iterable[pa.Table]) -> int:
    return sum(one.num_rows for one in tables)


def plain_rows(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Rows as JSON can have them."""
    columns = [[plain(value) for value in column.to_pylist()] for column in rows.columns]
    return zip(*columns, strict=True)


def plain(value: Any) -> Any:
    """A value as JSON can have it: times as ISO text, decimals as text, what is no number as its name.

    >>> plain(dt.datetime(2026, 1, 2, tzinfo=dt.UTC)), plain(Decimal("1.50")), plain(float("inf")), plain(7)
    ('2026-01-02T00:00:00+00:00', '1.50', 'inf', 7)
    """
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, Decimal) else value
