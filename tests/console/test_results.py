"""Rows read back from what was published."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.console.results import PublishedRows


def publish(directory: Path, batch: int, *parts: pa.Table, group_rows: int = 2) -> None:
    folder = directory / f"micro_batch={batch:09d}"
    folder.mkdir(parents=True)
    for number, part in enumerate(parts):
        pq.write_table(part, folder / f"part-{number:04d}.parquet", row_group_size=group_rows)


def numbers(*some: int) -> pa.Table:
    return pa.table({"n": pa.array(some, pa.int64())})


@pytest.fixture
def rows(tmp_path: Path) -> PublishedRows:
    return PublishedRows(tmp_path / "q", "q")


def test_the_first_or_last_rows_of_a_micro_batch_and_how_many_there_are(rows: PublishedRows) -> None:
    publish(rows.directory, 3, numbers(1, 2, 3, 4, 5), numbers(6, 7))
    first = rows.read(3, 3)
    assert first is not None
    assert ([n for (n,) in first.rows], first.total, first.columns) == ([1, 2, 3], 7, ("n",))
    last = rows.read(3, 3, from_end=True)
    assert last is not None
    assert ([n for (n,) in last.rows], last.total) == ([5, 6, 7], 7)
    assert rows.read(4, 3) is None


def test_the_latest_rows_span_micro_batches(rows: PublishedRows) -> None:
    assert rows.latest(10) == []
    for batch in (1, 2, 5):
        publish(rows.directory, batch, numbers(10 * batch, 10 * batch + 1))
    told = rows.latest(3)
    assert [(one.batch, [n for (n,) in one.rows]) for one in told] == [(2, [21]), (5, [50, 51])]
    assert rows.newest() == 5


def test_micro_batches_after_one_are_found_by_looking_or_by_listing(rows: PublishedRows) -> None:
    for batch in (1, 2, 5, 900):
        publish(rows.directory, batch, numbers(batch))
    assert rows.after(1, 20) == [2, 5]
    assert rows.after(-1, 1000) == [1, 2, 5, 900]


def test_of_a_shared_sink_only_the_querys_own_rows_are_read(tmp_path: Path) -> None:
    owners = pa.array(["q", "r", "q", "r", "q"]).dictionary_encode()
    publish(tmp_path / "sink", 1, pa.table({"query": owners, "n": [1, 2, 3, 4, 5]}))
    mine = PublishedRows(tmp_path / "sink", "q").read(1, 2)
    assert mine is not None
    assert (mine.columns, mine.rows, mine.total) == (("n",), ((1,), (3,)), 3)
    last = PublishedRows(tmp_path / "sink", "q").read(1, 2, from_end=True)
    assert last is not None
    assert last.rows == ((3,), (5,))
