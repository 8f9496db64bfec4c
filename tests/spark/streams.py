"""Input files, programs and oracle for the tests on real Spark.

Rows are made from a seed; files get modification times a second apart, so that their order never depends on the speed
of the machine. What a program must answer is asked of DuckDB.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duck
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.arrow_types import arrow_type
from headrace.model import StreamId
from headrace.sql import Script, read_script

Row = dict[str, Any]

START = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
UNIFORM_S = (1, 100, 200, 300, 400, 500, 600)
SMALL_LARGE_S = (1, 5, 15, 300, 510, 570, 600)
"""The windows of paper 000, Table 1, in seconds."""

READINGS = "location_id BIGINT, value DOUBLE, ts TIMESTAMP"


def at(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def readings(seed: int, count: int, seconds: float, keys: int = 8, begin: float = 0) -> list[Row]:
    """Rows in time order, some of them at one time."""
    chance = random.Random(seed)
    times = sorted(round(begin + chance.random() * seconds, 1) for _ in range(count))
    return [
        {"location_id": chance.randrange(keys), "value": round(chance.random() * 100, 2), "ts": at(t)} for t in times
    ]


def cut(rows: Sequence[Row], files: int) -> list[list[Row]]:
    """The rows in so many files, in order."""
    size = -(-len(rows) // files)
    return [list(rows[begin : begin + size]) for begin in range(0, len(rows), size)]


@dataclass
class Feed:
    """A directory that files come into, one after another; ``rows`` is all that came, in order of arrival."""

    directory: Path
    format: str = "parquet"
    header: bool = True
    schema: pa.Schema | None = None
    rows: list[Row] = field(default_factory=list)
    files: int = 0

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)

    def add(self, rows: Sequence[Row]) -> Path:
        self.rows += rows
        return self.place(f"{self.files:04d}.{self.format}", lambda path: self._write(path, rows))

    def add_all(self, parts: Iterable[Sequence[Row]]) -> Feed:
        for part in parts:
            self.add(part)
        return self

    def add_text(self, text: str, suffix: str = "") -> Path:
        """A file with that very content; its rows are not counted."""
        return self.place(f"{self.files:04d}{suffix or f'.{self.format}'}", lambda path: path.write_text(text))

    def place(self, name: str, write: Any) -> Path:
        """A file that appears whole, with a modification time of its own."""
        aside = self.directory / f".{name}"
        write(aside)
        moment = 1_770_000_000 + self.files
        os.utime(aside, (moment, moment))
        self.files += 1
        aside.rename(self.directory / name)
        return self.directory / name

    def _write(self, path: Path, rows: Sequence[Row]) -> None:
        if self.format == "parquet":
            pq.write_table(pa.Table.from_pylist(list(rows), schema=self.schema), path)
        elif self.format == "json":
            path.write_text("".join(json.dumps(row, default=_iso) + "\n" for row in rows))
        else:
            with path.open("w", newline="") as file:
                writer = csv.writer(file)
                if self.header:
                    writer.writerow(rows[0])
                writer.writerows(
                    [_iso(value) if isinstance(value, dt.datetime) else value for value in row.values()] for row in rows
                )


def _iso(value: Any) -> str:
    return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def declare(name: str, feed: Feed, columns: str = READINGS, **options: str) -> str:
    """The stream's CREATE STREAM; its files will be written with these columns' types."""
    given = {"connector": "files", "format": feed.format, "path": str(feed.directory), "time": "ts", **options}
    if feed.format == "csv":
        given["header"] = str(feed.header).lower()
    text = (
        f"CREATE STREAM {name} ({columns}) WITH ({', '.join(f'{key} = {value!r}' for key, value in given.items())});\n"
    )
    schema = read_script(text).catalog.streams[0].schema
    feed.schema = pa.schema([(column.name, arrow_type(column.type)) for column in schema])
    return text


def answers(program: str | Script, arrivals: Mapping[str, Sequence[Row]]) -> dict[str, list[tuple[Any, ...]]]:
    """What DuckDB says each query's output is, in order."""
    script = read_script(program) if isinstance(program, str) else program
    rows = {StreamId(name): list(one) for name, one in arrivals.items()}
    return {query.name: duck.answer(query, script.catalog, rows) for query in script.queries}


def published(directory: Path) -> list[list[list[tuple[Any, ...]]]]:
    """A query's output as rows in files in micro-batches, in order."""
    batches = sorted(directory.glob("micro_batch=*"))
    return [[_rows(file) for file in sorted(batch.glob("*.parquet"))] for batch in batches]


def _rows(file: Path) -> list[tuple[Any, ...]]:
    table = pq.ParquetFile(file).read()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def output(directory: Path) -> list[tuple[Any, ...]]:
    return [row for batch in published(directory) for file in batch for row in file]


def assert_answers(out: Path, expected: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
    """Every query has exactly these rows."""
    for query, rows in expected.items():
        assert Counter(output(out / query)) == Counter(rows), query


def assert_in_order(directory: Path, times: slice | int) -> None:
    """Rows within a file are ordered by result time, and no micro-batch has a row before one of an earlier one.

    ``times``: which columns are the joined tuples' event times."""
    newest = None
    for batch in published(directory):
        files = [[_newest(row, times) for row in file] for file in batch]
        for file in files:
            assert file == sorted(file), directory
        moments = [moment for file in files for moment in file]
        assert newest is None or not moments or min(moments) >= newest, directory
        newest = max([*moments, *([newest] if newest else [])], default=None)


def _newest(row: tuple[Any, ...], times: slice | int) -> dt.datetime:
    return max(row[times]) if isinstance(times, slice) else row[times]


def dead_letters(out: Path) -> list[dict[str, Any]]:
    files = sorted((out / "_dead_letters").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
