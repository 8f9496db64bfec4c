"""The workloads, the Parquet files they become, and the right answers.

A workload is two streams or more, ``a``, ``b`` ...: keys uniform, event time spaced evenly at the rate and the same in
all, one file per stream and micro-batch with increasing modification times, so that one file per trigger is one
micro-batch.
The answers are DuckDB's: a range join over the same files, once per window.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

STREAMS = ("a", "b")
START_US = 1_700_000_000_000_000
SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.float64()), ("ts", pa.timestamp("us", tz="UTC"))])


class Work(Protocol):
    """What contenders are given: input files, and queries that DuckDB answers."""

    @property
    def name(self) -> str: ...

    @property
    def batches(self) -> int: ...

    @property
    def tuples(self) -> int:
        """Of all streams together."""

    @property
    def steady_from(self) -> int:
        """The first micro-batch that begins when the largest window is full."""

    @property
    def hashed(self) -> tuple[str, ...]:
        """The columns of a result, as expressions that DuckDB can hash."""

    def write(self, root: Path) -> Path:
        """The input's directory, with one for each stream; written once, reused where the data is the same."""

    def expected(self, data: Path) -> dict[str, Answer]:
        """DuckDB's answer to every query."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Streams of ``tuples_per_s`` each for ``seconds``, joined on their key, once per window."""

    name: str
    tuples_per_s: int
    seconds: int
    keys: int
    windows_s: tuple[int, ...]
    batch_s: int = 5
    streams: tuple[str, ...] = STREAMS

    def __post_init__(self) -> None:
        assert self.seconds % self.batch_s == 0, "the input must be whole micro-batches"
        assert 1_000_000 % self.tuples_per_s == 0, "tuples must be whole microseconds apart"

    @property
    def batches(self) -> int:
        return self.seconds // self.batch_s

    @property
    def tuples(self) -> int:
        return len(self.streams) * self.tuples_per_s * self.seconds

    @property
    def steady_from(self) -> int:
        return -(-max(self.windows_s) // self.batch_s)

    @property
    def data_name(self) -> str:
        size = f"{self.tuples_per_s}-per-s-{self.seconds}-s-{self.keys}-keys-{self.batch_s}-s-files"
        return size if self.streams == STREAMS else f"{size}-{'-'.join(self.streams)}"

    @property
    def hashed(self) -> tuple[str, ...]:
        return ("key", *(column for stream in self.streams for column in (f"v{stream}", f"epoch_us(t{stream})")))

    def __str__(self) -> str:
        windows = ", ".join(map(str, self.windows_s))
        return (
            f"{len(self.streams)} x {self.tuples_per_s:,} tuples/s x {self.seconds} s, {self.keys:,} keys, "
            f"{len(self.windows_s)} {'query' if len(self.windows_s) == 1 else 'queries'} ({windows} s)"
        )

    def write(self, root: Path) -> Path:
        directory = root / self.data_name
        done = directory / "written.json"
        if not done.exists():
            shutil.rmtree(directory, ignore_errors=True)
            for number, stream in enumerate(self.streams):
                (directory / stream).mkdir(parents=True)
                _write_stream(self, directory / stream, np.random.default_rng([number, self.keys]))
            done.write_text(json.dumps({"tuples": self.tuples}))
        return directory

    def expected(self, data: Path) -> dict[str, Answer]:
        first, *others = self.streams
        columns = [f"{first}.key", *(f"{one}.value AS v{one}, {one}.ts AS t{one}" for one in self.streams)]
        same_key = [f"{first}.key = {one}.key" for one in others]
        answers = {}
        for window in self.windows_s:
            within = [
                f"{one}.ts BETWEEN {other}.ts - INTERVAL {window} SECONDS AND {other}.ts + INTERVAL {window} SECONDS"
                for other, one in combinations(self.streams, 2)
            ]
            selected = f"SELECT {', '.join(columns)} FROM {read_streams(data, self.streams)}"
            answers[query_name(window)] = answer_of(
                f"{selected} WHERE {' AND '.join([*same_key, *within])}", self.hashed
            )
        return answers


@dataclass(frozen=True, slots=True)
class Answer:
    """A query's results: how many, and an order-independent checksum over all their columns (None: only counted)."""

    results: int
    checksum: str | None = None

    def agrees(self, other: Answer) -> bool:
        both = self.checksum is not None and other.checksum is not None
        return self.results == other.results and (not both or self.checksum == other.checksum)


def _write_stream(workload: Workload, directory: Path, chance: np.random.Generator) -> None:
    rows = workload.tuples_per_s * workload.batch_s
    for batch in range(workload.batches):
        ts = START_US + (batch * rows + np.arange(rows)) * (1_000_000 // workload.tuples_per_s)
        columns = [
            pa.array(chance.integers(0, workload.keys, rows)),
            pa.array(chance.random(rows)),
            pa.array(ts).cast(SCHEMA.field("ts").type),
        ]
        write_file(directory, batch, pa.Table.from_arrays(columns, schema=SCHEMA))


def file_name(batch: int) -> str:
    return f"{batch:05d}.parquet"


def write_file(directory: Path, batch: int, rows: pa.Table) -> None:
    """A stream's file of a micro-batch; files are taken in order of their modification times."""
    path = directory / file_name(batch)
    pq.write_table(rows, path, compression="snappy")
    os.utime(path, (START_US // 1_000_000 + batch,) * 2)


def read_files(data: Path, stream: str, batches: Iterable[int]) -> str:
    """A stream's files of some micro-batches, in a FROM list."""
    return f"read_parquet({[str(data / stream / file_name(batch)) for batch in batches]}) {stream}"


def read_streams(data: Path, streams: Sequence[str]) -> str:
    """A FROM list of the files of streams."""
    return ", ".join(f"read_parquet('{data}/{stream}/*.parquet') {stream}" for stream in streams)


def answer_of(rows: str, hashed: Sequence[str]) -> Answer:
    """The count and checksum of what a SELECT gives."""
    with duckdb.connect() as database:
        sql = f"SELECT count(*), bit_xor(hash({', '.join(hashed)})) FROM ({rows})"
        return _answer(database.execute(sql).fetchone())


def found(files: list[Path], hashed: Sequence[str]) -> Answer:
    """What a contender wrote, as DuckDB reads it."""
    if not files:
        return Answer(0, "0")
    return answer_of(f"SELECT * FROM read_parquet({[str(path) for path in files]})", hashed)


def _answer(row: tuple[int, int | None] | None) -> Answer:
    assert row is not None
    return Answer(row[0], None if row[1] is None else str(row[1]))


def query_name(window_s: int) -> str:
    return f"q{window_s}"


def result_files(directory: Path) -> list[Path]:
    """The Parquet files under a directory, without those a writer still stages or keeps for itself."""
    return sorted(
        path
        for path in directory.rglob("*.parquet")
        if not any(name.startswith(("_", ".")) for name in path.relative_to(directory).parts)
    )


def codec_of(files: list[Path]) -> str | None:
    """The compression a contender's files really have: equal codecs are part of a fair comparison."""
    for path in files:
        metadata = pq.read_metadata(path)
        if metadata.num_row_groups:
            return str(metadata.row_group(0).column(0).compression).lower()
    return None
