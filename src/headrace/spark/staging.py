"""Parquet output, exactly once: tasks write parts aside, the driver publishes a micro-batch's parts in one rename.

    OUT/_staging/<batch>/<part>.parquet          written by shard tasks; a failed attempt's parts are never published
    OUT/<query>/micro_batch=<batch>/<part>.parquet     appears whole: a directory built aside and renamed
    OUT/<query>/_checkpoint_id                   whose micro-batches these are

The directories' names are those of a Hive partition, so that Spark, pandas and DuckDB read ``OUT/<query>`` as it is.
A part that several queries read (a band) is written once and linked into each. Queries that share a sink have one
directory, and one part a shard and micro-batch for all of them: a first column, ``query``, says whose each row is.
Those whose results may be left out have parts of their own, one for each group of them, and beside each part until when
its rows may be released (``fresh_rows``).
A micro-batch that is run again after a crash finds its directory published and leaves it alone; so that it never takes
another run's for its own, a directory belongs to one checkpoint (``claim``). Readers never look into ``_staging`` or
hidden directories.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.events import EmitRows, Freshness
from headrace.errors import SinkError
from headrace.plan.sinks import QUERY_COLUMN
from headrace.spark.fresh_rows import UntilWriter

STAGING = "_staging"
BATCH_COLUMN = "micro_batch"
"""The column that readers of a whole output directory see besides the query's own."""
_OWNER = "_checkpoint_id"
NAME_BYTES = 255
"""Of a file, on the file systems there are."""


@dataclass(frozen=True, slots=True)
class StagedPart:
    """A written part, who reads it, and how many rows it has."""

    path: str
    queries: tuple[str, ...]
    rows: int


GROUP_ROWS = 1 << 17
"""Rows that are gathered for a row group."""
GATHERED_ROWS = 1 << 20
"""Rows that may be gathered for all parts together, before all are written."""


@dataclass(slots=True)
class StageWriter:
    """Writes one shard's parts of one micro-batch; a part grows while batches for the same readers come. ``shared``:
    the sink of every query that shares one; ``adapting``: the group of every query whose results may be left out."""

    directory: Path
    shard: int
    compression: str
    shared: Mapping[str, str] = field(default_factory=dict)
    adapting: Mapping[str, str] = field(default_factory=dict)
    _parts: dict[tuple[str | tuple[str, ...], str | None, int], _Part] = field(default_factory=dict)
    _gathered: int = 0

    def write(self, emission: EmitRows) -> None:
        sharing = [query for query in emission.queries if query in self.shared]
        for query in sharing:  # of an emission's queries that are written, all share a sink or none does
            part = self._part(self.shared[query], self.adapting.get(query), emission)
            self._gather(part, emission, query)
        if not sharing:
            part = self._part(tuple(emission.queries), None, emission)
            part.queries.update(dict.fromkeys(emission.queries))
            self._gather(part, emission, None)

    def _part(self, readers: str | tuple[str, ...], group: str | None, emission: EmitRows) -> _Part:
        place = (readers, group, emission.part)
        if place not in self._parts:
            self.directory.mkdir(parents=True, exist_ok=True)
            path = self.directory / f"shard-{self.shard}-{len(self._parts)}-{uuid.uuid4().hex[:8]}.parquet"
            self._parts[place] = _Part(path, self.compression)
        return self._parts[place]

    def _gather(self, part: _Part, emission: EmitRows, query: str | None) -> None:
        part.gather(emission.batch, query, emission.fresh)
        self._gathered += emission.batch.num_rows
        if part.gathered_rows >= GROUP_ROWS:
            self._gathered -= part.gathered_rows
            part.flush()
        elif self._gathered >= GATHERED_ROWS:
            for one in self._parts.values():
                one.flush()
            self._gathered = 0

    def close(self) -> list[StagedPart]:
        staged = [one.close() for one in self._parts.values()]
        self._parts.clear()
        return staged


@dataclass(slots=True)
class _Part:
    """A file that is being written: batches are gathered into large row groups, each with its query if it is shared."""

    path: Path
    compression: str
    queries: dict[str, None] = field(default_factory=dict)
    gathered_rows: int = 0
    _rows: int = 0
    _batches: list[pa.RecordBatch] = field(default_factory=list)
    _owners: list[str] = field(default_factory=list)
    _writer: pq.ParquetWriter | None = None
    _fresh: UntilWriter | None = None

    def gather(self, batch: pa.RecordBatch, query: str | None, fresh: Freshness | None) -> None:
        self._batches.append(batch)
        if fresh is not None:
            self._fresh = self._fresh or UntilWriter(self.path)
            self._fresh.write(fresh.until_us)
        if query is not None:
            self._owners.append(query)
        self.gathered_rows += batch.num_rows

    def flush(self) -> None:
        if not self._batches:
            return
        batch = self._batches[0] if len(self._batches) == 1 else pa.concat_batches(self._batches)
        if self._owners:
            batch = batch.add_column(0, QUERY_COLUMN, _owner_column(self._owners, self._batches))
            self.queries.update(dict.fromkeys(self._owners))
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self.path,
                batch.schema,
                compression=self.compression,
                use_dictionary=_repeating(batch),
                store_schema=not self._owners,  # which would have readers take the dictionary for a type
            )
        self._writer.write_batch(batch)
        self._rows += batch.num_rows
        self._batches, self._owners, self.gathered_rows = [], [], 0

    def close(self) -> StagedPart:
        self.flush()
        assert self._writer is not None
        self._writer.close()
        if self._fresh is not None:
            self._fresh.close()
        return StagedPart(str(self.path), tuple(self.queries), self._rows)


def _owner_column(owners: Sequence[str], batches: Sequence[pa.RecordBatch]) -> pa.DictionaryArray:
    """Each row's query, given each batch's."""
    names = {name: code for code, name in enumerate(dict.fromkeys(owners))}
    codes = np.array([names[name] for name in owners], dtype=np.int32)
    rows = np.repeat(codes, [batch.num_rows for batch in batches])
    return pa.DictionaryArray.from_arrays(pa.array(rows), pa.array(list(names), pa.string()))


def _repeating(batch: pa.RecordBatch) -> list[str]:
    """Columns worth a dictionary: text. Numbers of a join's results rarely repeat enough to pay for it."""
    kinds = (pa.types.is_string, pa.types.is_dictionary)
    return [one.name for one in batch.schema if any(is_kind(one.type) for is_kind in kinds)]


def batch_name(batch: int) -> str:
    return f"{batch:09d}"


def publish(batch: int, parts: Iterable[StagedPart], directories: Mapping[str, Path]) -> None:
    """Makes a micro-batch's parts visible, each directory's in one step; what is published already stays."""
    by_directory: dict[Path, list[StagedPart]] = {}
    for part in parts:
        for directory in dict.fromkeys(directories[query] for query in part.queries if query in directories):
            by_directory.setdefault(directory, []).append(part)
    for directory, mine in by_directory.items():
        _publish_one(batch, mine, directory)


def _publish_one(batch: int, parts: list[StagedPart], directory: Path) -> None:
    final = directory / f"{BATCH_COLUMN}={batch_name(batch)}"
    if final.exists():
        return
    aside = _aside(directory, batch)
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for number, part in enumerate(sorted(parts, key=lambda one: one.path)):
        _link(Path(part.path), aside / f"part-{number:04d}.parquet")
    directory.mkdir(parents=True, exist_ok=True)
    aside.rename(final)


def _aside(directory: Path, batch: int) -> Path:
    """Where a micro-batch is put together, on the directory's file system and out of readers' sight."""
    return directory.parent / f".{directory.name}.{batch_name(batch)}"


def claim(directory: Path, checkpoint_id: str) -> None:
    """Makes the directory this checkpoint's; refused if it has micro-batches of another, or anything else in it."""
    owner = directory / _OWNER
    if len(os.fsencode(_aside(directory, 0).name)) > NAME_BYTES:
        raise SinkError(f"cannot write to {directory}: the last part of its path is too long. Give it a shorter one")
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


def is_claimed(directory: Path) -> bool:
    """Whether a directory is some checkpoint's."""
    return (directory / _OWNER).exists()


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


def check_writable(directory: Path, option: str = "--out") -> None:
    """Refuses a directory that could not be written to; ``option`` is what names it."""
    probe = directory / f".probe-{uuid.uuid4().hex[:8]}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SinkError(
            f"cannot write to {directory}: {error.strerror}. Give {option} a directory that you may write to"
        ) from None
