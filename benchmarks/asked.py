"""Workloads of one query each over streams of any columns, whose rates may change: their files and right answers.

Each stream has a rate for each part of the run; event time is spaced evenly at it, keys and values are uniform. One
file per stream and micro-batch, as in ``inputs``. The same SELECT and WHERE go to Headrace and to DuckDB, which is told
the windows as conditions between all pairs of streams: a tuple is at most its stream's window older than any other.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import reduce
from itertools import permutations
from operator import xor
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.contenders import stream_sql
from benchmarks.inputs import START_US, Answer, answer_of, read_files, write_file

QUERY = "q"
TYPES = {int: (pa.int64(), "BIGINT"), float: (pa.float64(), "DOUBLE")}


@dataclass(frozen=True, slots=True)
class Stream:
    """``columns``: the upper limit of each, which is of its type. ``rates``: tuples a second in each part."""

    name: str
    columns: Mapping[str, int | float]
    rates: tuple[int, ...]
    window_s: int

    @property
    def declared(self) -> str:
        """Its columns in SQL."""
        return ", ".join([*(f"{name} {TYPES[type(most)][1]}" for name, most in self.columns.items()), "ts TIMESTAMP"])


@dataclass(frozen=True, slots=True)
class Asked:
    """A query over streams that run through parts, each of so many micro-batches."""

    name: str
    streams: tuple[Stream, ...]
    select: Mapping[str, str]
    """Result columns: what each is."""
    where: str
    part_batches: tuple[int, ...]
    batch_s: int
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What each contender sets."""

    @property
    def batches(self) -> int:
        return sum(self.part_batches)

    @property
    def tuples(self) -> int:
        return sum(sum(self._rows(one)) for one in self.streams)

    @property
    def steady_from(self) -> int:
        return self._far

    @property
    def _far(self) -> int:
        """How many micro-batches apart tuples can be that meet."""
        return -(-max(one.window_s for one in self.streams) // self.batch_s)

    def _rows(self, stream: Stream) -> list[int]:
        """By micro-batch, how many tuples a stream has."""
        pairs = zip(stream.rates, self.part_batches, strict=True)
        return [rate * self.batch_s for rate, batches in pairs for _ in range(batches)]

    @property
    def hashed(self) -> tuple[str, ...]:
        return tuple(self.select)

    @property
    def _selected(self) -> str:
        columns = ", ".join(f"{what} AS {name}" for name, what in self.select.items())
        return f"SELECT {columns} FROM "

    def __str__(self) -> str:
        rates = ", ".join(f"{one.name} {' then '.join(f'{rate:,}' for rate in one.rates)}" for one in self.streams)
        windows = ", ".join(f"{one.name} {one.window_s} s" for one in self.streams)
        spans = ", ".join(f"{batches * self.batch_s} s" for batches in self.part_batches)
        return f"{self.where}; tuples/s: {rates} ({spans}); windows: {windows}"

    def sql(self, data: Path | str, contender: str) -> str:
        """The program for Headrace."""
        ranges = ", ".join(f"{one.name} [RANGE {one.window_s} SECONDS]" for one in self.streams)
        return "\n".join(
            [
                *(f"SET {name} = '{value}';" for name, value in self.settings.get(contender, {}).items()),
                *(stream_sql(one.name, one.declared, data) for one in self.streams),
                f"CREATE QUERY {QUERY} AS {self._selected} {ranges} WHERE {self.where};",
            ]
        )

    def write(self, root: Path) -> Path:
        told = json.dumps([[asdict(one) for one in self.streams], self.part_batches, self.batch_s])
        directory = root / f"{self.name}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
        done = directory / "written.json"
        if not done.exists():
            shutil.rmtree(directory, ignore_errors=True)
            for number, stream in enumerate(self.streams):
                (directory / stream.name).mkdir(parents=True)
                for batch, rows in enumerate(self._files(stream, np.random.default_rng([number, self.batches]))):
                    write_file(directory / stream.name, batch, rows)
            done.write_text(told)
        return directory

    def _files(self, stream: Stream, chance: np.random.Generator) -> Iterator[pa.Table]:
        for batch, rows in enumerate(self._rows(stream)):
            columns = {
                name: chance.integers(0, most, rows) if isinstance(most, int) else chance.random(rows) * most
                for name, most in stream.columns.items()
            }
            ts = START_US + batch * self.batch_s * 1_000_000 + np.arange(rows) * self.batch_s * 1_000_000 // rows
            yield pa.table({**columns, "ts": pa.array(ts).cast(pa.timestamp("us", tz="UTC"))})

    def expected(self, data: Path) -> dict[str, Answer]:
        """Added up over the files of the first stream, each with those of the others that it can meet: DuckDB would
        compare all tuples of a key, however far apart."""
        answers = [answer_of(self._meeting(data, batch), self.hashed) for batch in range(self.batches)]
        checksum = reduce(xor, (int(one.checksum or 0) for one in answers))
        return {QUERY: Answer(sum(one.results for one in answers), str(checksum))}

    def _meeting(self, data: Path, batch: int) -> str:
        """What the tuples of one file of the first stream are in."""
        within = [
            f"epoch_us({newer.name}.ts) - epoch_us({older.name}.ts) <= {older.window_s} * 1000000"
            for older, newer in permutations(self.streams, 2)
        ]
        first, *others = self.streams
        near = range(max(0, batch - self._far), min(self.batches, batch + self._far + 1))
        read = [read_files(data, first.name, [batch]), *(read_files(data, one.name, near) for one in others)]
        return f"{self._selected} {', '.join(read)} WHERE {' AND '.join([f'({self.where})', *within])}"
