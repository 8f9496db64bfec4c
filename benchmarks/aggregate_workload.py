"""What the benchmark of aggregates runs: two streams, a hundred queries over one join, and the right answers.

Two streams of sensors that report once a second: their key, the site they are at, a kind of reading and a value. Every
query joins the streams by key and folds the results of one window (of ten) by one grouping (of ten) into COUNT, SUM and
MAX. The answers are DuckDB's: the values of all groups at a few evaluation times, from all pairs that are in the
window then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.contenders import stream_sql
from benchmarks.inputs import START_US, STREAMS, write_file

COLUMNS = "key BIGINT, site BIGINT, kind BIGINT, value DOUBLE, ts TIMESTAMP"
SCHEMA = pa.schema(
    [
        ("key", pa.int64()),
        ("site", pa.int64()),
        ("kind", pa.int64()),
        ("value", pa.float64()),
        ("ts", pa.timestamp("us", tz="UTC")),
    ]
)
WINDOWS_S = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
GROUPINGS: tuple[tuple[str, ...], ...] = (
    ("a.site", "a.kind"),
    (),
    ("a.site",),
    ("a.kind",),
    ("b.kind",),
    ("a.kind", "b.kind"),
    ("a.site", "b.kind"),
    ("a.key % 100",),
    ("a.site", "a.kind", "b.kind"),
    ("a.key",),
)
SITES, KINDS = 20, 5
RESULT = ("grp", "n", "total", "top", "ts")
"""The columns of every query: its group's keys as one text, its aggregates, and when they were evaluated."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Files of ``batch_s`` of event time, one a stream and micro-batch. Those in which the largest window fills and the
    first ``settling`` after them are not measured."""

    sensors: int = 1000
    batch_s: int = 2
    batches: int = 40
    settling: int = 5

    @property
    def filling(self) -> int:
        return -(-max(WINDOWS_S) // self.batch_s)

    @property
    def first_measured(self) -> int:
        return self.filling + self.settling

    def __str__(self) -> str:
        return (
            f"2 x {self.sensors:,} tuples/s ({self.sensors:,} sensors at {SITES} sites, one reading a second in each "
            f"stream), micro-batches of {self.batch_s} s of event time, windows of {', '.join(map(str, WINDOWS_S))} s"
        )


def table(workload: Workload, stream: int, batch: int) -> pa.Table:
    """One file's rows: every sensor once a second, at a moment of its own, and none on a full second, which is where
    windows end: so it does not matter on which side they are closed."""
    chance = np.random.default_rng([stream, workload.sensors, batch])
    keys = np.concatenate([chance.permutation(workload.sensors) for _ in range(workload.batch_s)])
    apart_us = 1_000_000 // workload.sensors
    ts = START_US + batch * workload.batch_s * 1_000_000 + np.arange(len(keys)) * apart_us + apart_us // 2
    columns = [keys, keys % SITES, chance.integers(0, KINDS, len(keys)), chance.random(len(keys)) * 100]
    return pa.Table.from_arrays([*map(pa.array, columns), pa.array(ts).cast(SCHEMA.types[-1])], schema=SCHEMA)


def write(workload: Workload, directory: Path) -> None:
    for number, stream in enumerate(STREAMS):
        (directory / stream).mkdir(parents=True)
        for batch in range(workload.batches):
            write_file(directory / stream, batch, table(workload, number, batch))


@dataclass(frozen=True, slots=True)
class Folded:
    """A query: one window, one grouping."""

    window_s: int
    keys: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"q{GROUPINGS.index(self.keys)}_{self.window_s}"

    @property
    def text(self) -> str:
        """The group's keys as one text."""
        return " || '/' || ".join(f"CAST({key} AS VARCHAR)" for key in self.keys) or "'all'"

    @property
    def sql(self) -> str:
        by = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return (
            f"CREATE QUERY {self.name} AS SELECT {self.text} AS grp, COUNT(*) AS n, SUM(b.value) AS total, "
            f"MAX(a.value) AS top FROM a, b WHERE a.key = b.key{by} WINDOW {self.window_s} SECONDS;"
        )


def queries(windows_s: Iterable[int] = WINDOWS_S, groupings: Iterable[tuple[str, ...]] = GROUPINGS) -> list[Folded]:
    groupings = tuple(groupings)
    return [Folded(window_s, keys) for window_s in windows_s for keys in groupings]


def program(asked: Iterable[Folded], reevaluate_s: int, data: Path) -> str:
    """``reevaluate_s``: 0 for once a micro-batch."""
    streams = (stream_sql(stream, COLUMNS, data) for stream in STREAMS)
    return "\n".join([f"SET reevaluate = '{reevaluate_s} seconds';", *streams, *(query.sql for query in asked)])


# --- right answers --------------------------------------------------------------------------------------------------

Values = dict[str, tuple[int, float, float]]
"""By group: COUNT, SUM, MAX."""
CHECKED = 3
"""Evaluation times at which the values of all groups are compared."""


class Answers:
    """DuckDB's values of all groups, at any time."""

    def __init__(self, data: Path) -> None:
        self._database = duckdb.connect()
        for stream in STREAMS:
            files = f"{data}/{stream}/*.parquet"
            self._database.execute(
                f"CREATE TABLE {stream} AS SELECT *, epoch_us(ts) AS us FROM read_parquet('{files}') ORDER BY ts"
            )

    def values(self, query: Folded, at_us: int) -> Values:
        since_us = at_us - query.window_s * 1_000_000
        by = f"GROUP BY {', '.join(query.keys)}" if query.keys else ""
        rows = self._database.execute(
            f"""SELECT {query.text}, count(*), fsum(b.value), max(a.value) FROM a JOIN b ON a.key = b.key
            WHERE a.us BETWEEN {since_us} AND {at_us} AND b.us BETWEEN {since_us} AND {at_us} {by}"""
        ).fetchall()
        return {group: (n, total, top) for group, n, total, top in rows}


def written_times(files: str) -> list[int]:
    """The times at which there are rows, without the last, which is that of the input's end."""
    with duckdb.connect() as database:
        rows = database.execute(f"SELECT DISTINCT epoch_us(ts) FROM read_parquet('{files}') ORDER BY 1").fetchall()
    return [at_us for (at_us,) in rows][:-1]


def written_values(files: str, at_us: int, where: str = "true") -> Values:
    """Each group's last row at or before a time; emptied ones are left out."""
    with duckdb.connect() as database:
        rows = database.execute(
            f"""SELECT grp, arg_max(n, ts), arg_max(total, ts), arg_max(top, ts) FROM read_parquet('{files}')
            WHERE epoch_us(ts) <= {at_us} AND {where} GROUP BY grp"""
        ).fetchall()
    return {group: (n, total, top) for group, n, total, top in rows if n}


def difference(right: Values, written: Values) -> str | None:
    """How the values differ; sums are DuckDB's up to rounding."""
    if set(right) != set(written):
        return f"{len(written)} groups instead of {len(right)}"
    for group, (n, total, top) in right.items():
        mine = written[group]
        if mine[0] != n or mine[2] != top or not math.isclose(mine[1], total, rel_tol=1e-12):
            return f"group {group}: {mine} instead of {(n, total, top)}"
    return None


def spread(times_us: list[int]) -> list[int]:
    """A few of the times."""
    return sorted({times_us[len(times_us) * number // CHECKED - 1] for number in range(1, CHECKED + 1)})
