"""Parquet output, exactly once: tasks write parts aside, the driver publishes a micro-batch's parts in one rename.

    OUT/_staging/<batch>/<part>.parquet          written by shard tasks; a failed attempt's parts are never published
    OUT/<query>/micro_batch=<batch>/<part>.parquet     appears whole: a directory built aside and renamed
    OUT/<query>/_checkpoint_id                   whose micro-batches these are

The directories' names are those of a Hive partition, so that Spark, pandas and DuckDB read ``OUT/<query>`` as it is.
A part that several queries read (a band) is written once and linked into each. A micro-batch that is run again after a
crash finds its directory published and leaves it alone; so that it never takes another run's for its own, a directory
belongs to one checkpoint (``claim``). Readers never look into ``_staging`` or hidden directories.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.events import EmitRows
from headrace.errors import SinkError

STAGING = "_staging"
BATCH_COLUMN = "micro_batch"
"""The column that readers of a whole output directory see besides the query's own."""
_OWNER = "_checkpoint_id"


@dataclass(frozen=True, slots=True)
class StagedPart:
    """A written part, who reads it, and how many rows it has."""

    path: str
    queries: tuple[str, ...]
    rows: int


@dataclass(slots=True)
class StageWriter:
    """Writes one shard's parts of one micro-batch; a part grows while batches for the same readers come."""

    directory: Path
    shard: int
    compression: str
    _writers: dict[tuple[tuple[str, ...], int], tuple[Path, pq.ParquetWriter, list[int]]] = field(default_factory=dict)

    def write(self, emission: EmitRows) -> None:
        place = (tuple(emission.queries), emission.part)
        if place not in self._writers:
            self.directory.mkdir(parents=True, exist_ok=True)
            path = self.directory / f"shard-{self.shard}-{len(self._writers)}-{uuid.uuid4().hex[:8]}.parquet"
            writer = pq.ParquetWriter(
                path, emission.batch.schema, compression=self.compression, use_dictionary=_repeating(emission.batch)
            )
            self._writers[place] = (path, writer, [])
        _, writer, rows = self._writers[place]
        writer.write_batch(emission.batch)
        rows.append(emission.batch.num_rows)

    def close(self) -> list[StagedPart]:
        parts = []
        for (queries, _), (path, writer, rows) in self._writers.items():
            writer.close()
            parts.append(StagedPart(str(path), queries, sum(rows)))
        self._writers.clear()
        return parts


def _repeating(batch: pa.RecordBatch) -> list[str]:
    """Columns worth a dictionary: text. Numbers of a join's results rarely repeat enough to pay for it."""
    return [one.name for one in batch.schema if pa.types.is_string(one.type)]


def batch_name(batch: int) -> str:
    return f"{batch:09d}"


def publish(batch: int, parts: Iterable[StagedPart], directories: Mapping[str, Path]) -> None:
    """Makes a micro-batch's parts visible, query by query, each in one step; what is published already stays."""
    by_query: dict[str, list[StagedPart]] = {}
    for part in parts:
        for query in part.queries:
            if query in directories:
                by_query.setdefault(query, []).append(part)
    for query, mine in by_query.items():
        _publish_one(batch, mine, directories[query])


def _publish_one(batch: int, parts: list[StagedPart], directory: Path) -> None:
    final = directory / f"{BATCH_COLUMN}={batch_name(batch)}"
    if final.exists():
        return
    aside = directory.parent / f".{directory.name}.{batch_name(batch)}"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for number, part in enumerate(sorted(parts, key=lambda one: one.path)):
        _link(Path(part.path), aside / f"part-{number:04d}.parquet")
    directory.mkdir(parents=True, exist_ok=True)
    aside.rename(final)


def claim(directory: Path, checkpoint_id: str) -> None:
    """Makes the directory this checkpoint's; refused if it has micro-batches of another, or anything else in it."""
    owner = directory / _OWNER
    check_writable(directory)
    if owner.exists() and owner.read_text().strip() == checkpoint_id:
        return
    if any(not entry.name.startswith(".") and entry != owner for entry in directory.iterdir()):
        raise SinkError(
            f"{directory} has results of another run in it: give --out a new directory, move them away, "
            "or go on from the checkpoint that they were written with"
        )
    aside = directory / f".{_OWNER}"
    aside.write_text(f"{checkpoint_id}\n")
    aside.rename(owner)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


def check_writable(directory: Path) -> None:
    """Refuses a directory that results could not be written to."""
    probe = directory / f".probe-{uuid.uuid4().hex[:8]}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SinkError(
            f"cannot write to {directory}: {error.strerror}. Give --out a directory that you may write to"
        ) from None
