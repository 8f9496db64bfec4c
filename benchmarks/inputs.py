"""The workloads, the Parquet files they become, and the right answers.

A workload is two streams, ``a`` and ``b``: keys uniform, event time spaced evenly at the rate and the same in both, one
file per stream and micro-batch with increasing modification times, so that one file per trigger is one micro-batch.
The answers are DuckDB's: a range join over the same files, once per window.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

STREAMS = ("a", "b")
START_US = 1_700_000_000_000_000
SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.float64()), ("ts", pa.timestamp("us", tz="UTC"))])


@dataclass(frozen=True, slots=True)
class Workload:
    """Two streams of ``tuples_per_s`` each for ``seconds``, joined once per window."""

    name: str
    tuples_per_s: int
    seconds: int
    keys: int
    windows_s: tuple[int, ...]
    batch_s: int = 5

    def __post_init__(self) -> None:
        assert self.seconds % self.batch_s == 0, "the input must be whole micro-batches"
        assert 1_000_000 % self.tuples_per_s == 0, "tuples must be whole microseconds apart"

    @property
    def batches(self) -> int:
        return self.seconds // self.batch_s

    @property
    def tuples(self) -> int:
        """Of both streams together."""
        return len(STREAMS) * self.tuples_per_s * self.seconds

    @property
    def steady_from(self) -> int:
        """The first micro-batch that begins when the largest window is full."""
        return -(-max(self.windows_s) // self.batch_s)

    @property
    def data_name(self) -> str:
        return f"{self.tuples_per_s}-per-s-{self.seconds}-s-{self.keys}-keys-{self.batch_s}-s-files"

    def __str__(self) -> str:
        windows = ", ".join(map(str, self.windows_s))
        return (
            f"2 x {self.tuples_per_s:,} tuples/s x {self.seconds} s, {self.keys:,} keys, "
            f"{len(self.windows_s)} {'query' if len(self.windows_s) == 1 else 'queries'} ({windows} s)"
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """A query's results: how many, and an order-independent checksum over all their columns (None: only counted)."""

    results: int
    checksum: str | None = None

    def agrees(self, other: Answer) -> bool:
        both = self.checksum is not None and other.checksum is not None
        return self.results == other.results and (not both or self.checksum == other.checksum)


def write(workload: Workload, root: Path) -> Path:
    """The workload's directory, with ``a/`` and ``b/``; written once, reused where the data is the same."""
    directory = root / workload.data_name
    done = directory / "written.json"
    if not done.exists():
        shutil.rmtree(directory, ignore_errors=True)
        for number, stream in enumerate(STREAMS):
            (directory / stream).mkdir(parents=True)
            _write_stream(workload, directory / stream, np.random.default_rng([number, workload.keys]))
        done.write_text(json.dumps({"tuples": workload.tuples}))
    return directory


def _write_stream(workload: Workload, directory: Path, chance: np.random.Generator) -> None:
    rows = workload.tuples_per_s * workload.batch_s
    for batch in range(workload.batches):
        ts = START_US + (batch * rows + np.arange(rows)) * (1_000_000 // workload.tuples_per_s)
        columns = [
            pa.array(chance.integers(0, workload.keys, rows)),
            pa.array(chance.random(rows)),
            pa.array(ts).cast(SCHEMA.field("ts").type),
        ]
        path = directory / f"{batch:05d}.parquet"
        pq.write_table(pa.Table.from_arrays(columns, schema=SCHEMA), path, compression="snappy")
        os.utime(path, (START_US // 1_000_000 + batch,) * 2)


_CHECKSUM = "bit_xor(hash({key}, {va}, epoch_us({ta}), {vb}, epoch_us({tb})))"


def expected(workload: Workload, data: Path, *, checksums: bool) -> dict[str, Answer]:
    """DuckDB's answer to every query of the workload."""
    checksum = _CHECKSUM.format(key="a.key", va="a.value", ta="a.ts", vb="b.value", tb="b.ts") if checksums else "NULL"
    answers = {}
    with duckdb.connect() as database:
        for window in workload.windows_s:
            row = database.execute(
                f"""
                SELECT count(*), {checksum}
                FROM read_parquet('{data}/a/*.parquet') a JOIN read_parquet('{data}/b/*.parquet') b
                  ON a.key = b.key
                 AND b.ts BETWEEN a.ts - INTERVAL {window} SECONDS AND a.ts + INTERVAL {window} SECONDS
                """
            ).fetchone()
            answers[query_name(window)] = _answer(row)
    return answers


def found(files: list[Path], *, checksums: bool) -> Answer:
    """What a contender wrote, as DuckDB reads it."""
    if not files:
        return Answer(0, "0" if checksums else None)
    checksum = _CHECKSUM.format(key="key", va="va", ta="ta", vb="vb", tb="tb") if checksums else "NULL"
    with duckdb.connect() as database:
        sql = f"SELECT count(*), {checksum} FROM read_parquet($files)"
        return _answer(database.execute(sql, {"files": [str(path) for path in files]}).fetchone())


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
