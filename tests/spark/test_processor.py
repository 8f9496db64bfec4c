"""The shard's host without a JVM: envelopes in, reports out, all that is needed kept in the state."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.tws_tester import TwsTester
from streams import READINGS, Row, answers, at, cut, readings

from headrace.engine.arrow_types import arrow_type
from headrace.engine.packing import ORDER, ORDER_SHIFT, Envelope, Kind, Packer, dead_letters_from
from headrace.engine.segments import unpack_batch
from headrace.errors import StateError
from headrace.model import StreamId
from headrace.plan.sharing import share
from headrace.spark.cache import SegmentCache
from headrace.spark.envelopes import DEAD, ROWS, STAGED, TOLD, to_arrow
from headrace.spark.orders import Orders, Work
from headrace.spark.processor import ShardProcessor
from headrace.spark.step import HostOptions
from headrace.sql import read_script

LABEL = 7
PROGRAM = "".join(
    f"CREATE STREAM {name} ({READINGS}) WITH (connector = 'files', path = 'nowhere', time = 'ts');"
    for name in ("temperature", "humidity")
) + (
    "CREATE QUERY near AS SELECT a.value, b.value AS h FROM temperature a, humidity b "
    "WHERE a.location_id = b.location_id WINDOW 2 s;"
    "CREATE QUERY far AS SELECT a.value, b.value AS h FROM temperature a, humidity b "
    "WHERE a.location_id = b.location_id WINDOW 20 s;"
)


class Host:
    """One shard's processor on states in memory."""

    def __init__(self, directory: Path, *, limit_bytes: int = 2**30, staged: bool = False) -> None:
        script = read_script(PROGRAM)
        self.plan = share(script.catalog, script.queries)
        self.cache = directory / "cache"
        options = HostOptions(
            labels=(LABEL,),
            cache=SegmentCache(self.cache, "one", limit_bytes),
            orders=Orders(str(directory / "orders")),
            out=str(directory),
            compression="zstd",
            console_rows=10,
        )
        queries = frozenset(self.plan.queries)
        work = Work(self.plan, queries if staged else frozenset(), frozenset() if staged else queries)
        self.tester = TwsTester(ShardProcessor(work, options))
        self.rows: dict[str, list[tuple[Any, ...]]] = {query: [] for query in self.plan.queries}
        self._files = 0

    def arrive(self, **streams: list[Row]) -> list[Any]:
        """A micro-batch of one file a stream; gives the reports."""
        envelopes: list[Envelope] = []
        for name, rows in streams.items():
            stream = self.plan.catalog.get(StreamId(name))
            self._files += 1
            schema = pa.schema([(column.name, arrow_type(column.type)) for column in stream.schema])
            batch = pa.RecordBatch.from_pylist(rows, schema=schema)
            batch = batch.append_column(ORDER, pa.array([self._files << ORDER_SHIFT] * len(rows), pa.int64()))
            envelopes += Packer(self.plan, stream, 1).pack(batch, arrived_us=0)
        return self.deliver(envelopes)

    def end(self) -> list[Any]:
        return self.deliver([Envelope(0, Kind.END)])

    def deliver(self, envelopes: list[Envelope]) -> list[Any]:
        frame: pd.DataFrame = to_arrow(envelopes, (LABEL,)).to_pandas()
        reports = list(self.tester.testInPandas(LABEL, frame).itertuples(index=False))
        for report in reports:
            if report.kind == ROWS:
                for query in report.queries:
                    self.rows[query] += [tuple(row.values()) for row in unpack_batch(report.payload).to_pylist()]
        return reports

    @property
    def segments(self) -> dict[Any, Any]:
        return self.tester.peekMapState("segments", LABEL)


def told(reports: list[Any]) -> dict[str, Any]:
    (detail,) = [report.detail for report in reports if report.kind == TOLD]
    return dict(json.loads(detail))


def inputs() -> tuple[list[list[Row]], list[list[Row]]]:
    return cut(readings(1, 200, 100), 8), cut(readings(2, 200, 100), 8)


@pytest.mark.parametrize("state", ["warm", "cold", "tiny"])
def test_answers_are_the_oracles_whatever_the_cache_has(tmp_path: Path, state: str) -> None:
    host = Host(tmp_path, limit_bytes=0 if state == "tiny" else 2**30)
    left, right = inputs()
    for a, b in zip(left, right, strict=True):
        host.arrive(temperature=a, humidity=b)
        if state == "cold":
            shutil.rmtree(host.cache)
    host.end()
    expected = answers(PROGRAM, {"temperature": list(chain(*left)), "humidity": list(chain(*right))})
    for query, rows in expected.items():
        assert rows
        assert Counter(host.rows[query]) == Counter(rows)
    if state == "tiny":
        assert not [file for file in host.cache.rglob("*") if file.is_file()]


def test_state_keeps_the_windows_and_lets_them_go(tmp_path: Path) -> None:
    host = Host(tmp_path)
    left, right = inputs()
    assert host.tester.peekValueState("manifest", LABEL) is None
    held = told(host.arrive(temperature=left[0], humidity=right[0]))["held"]
    assert host.tester.peekValueState("manifest", LABEL) is not None
    assert held[0] + held[1] > 0
    assert len(host.segments) > 0
    later = [{"location_id": 1, "value": 1.0, "ts": at(10_000)}]
    host.arrive(temperature=later, humidity=later)
    host.arrive(temperature=[{**later[0], "ts": at(20_000)}], humidity=[{**later[0], "ts": at(20_000)}])
    held = told(host.end())["held"]
    assert held[0] <= 2
    assert len(host.segments) <= 2


def test_reports_tell_what_was_read_and_joined(tmp_path: Path) -> None:
    host = Host(tmp_path)
    row = {"location_id": 1, "value": 1.0, "ts": at(5)}
    facts = told(host.arrive(temperature=[row, {**row, "ts": None}], humidity=[{**row, "ts": at(4)}]))
    assert facts["read"] == [["temperature", 2, 1], ["humidity", 1, 0]]
    facts = told(host.end())
    assert {query: sum(rows for _, rows in counts) for query, counts in facts["arrived"].items()} == {
        "near": 1,
        "far": 1,
    }
    assert set(facts["stage_ms"]) >= {"receive", "restore", "join", "emit", "keep"}


def test_late_rows_are_counted_and_reported_once(tmp_path: Path) -> None:
    host = Host(tmp_path)

    def row(seconds: float) -> Row:
        return {"location_id": 1, "value": seconds, "ts": at(seconds)}

    within = host.arrive(temperature=[row(10), row(9), row(11)])
    between = host.arrive(temperature=[row(8), row(12)])
    letters = [
        line for one in (*within, *between) if one.kind == DEAD for line in dead_letters_from(unpack_batch(one.payload))
    ]
    assert [(one["stream"], one["reason"], one["row"]["value"]) for one in map(json.loads, letters)] == [
        ("temperature", "late", 9.0),
        ("temperature", "late", 8.0),
    ]
    assert told(within)["late"] == {"temperature": 1}
    assert told(between)["late"] == {"temperature": 1}


def test_parts_are_staged_under_names_of_their_own(tmp_path: Path) -> None:
    host = Host(tmp_path, staged=True)
    rows = [{"location_id": 1, "value": 1.0, "ts": at(5)}]
    host.arrive(temperature=rows, humidity=rows)
    parts = [report for report in host.end() if report.kind == STAGED]
    assert {query for part in parts for query in part.queries} == {"near", "far"}
    assert sum(part.rows for part in parts if "far" in part.queries) == 1
    for part in parts:
        assert Path(part.detail).is_relative_to(tmp_path / "_staging")
        assert pq.ParquetFile(part.detail).read().num_rows == part.rows


def test_state_of_another_version_is_refused(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.tester.updateValueState("manifest", LABEL, (b'{"version": 99}',))
    with pytest.raises(StateError, match="version 99"):
        host.end()


def test_cache_copes_with_files_that_vanish_or_cannot_be_written(tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path / "cache", "one", 100)
    cache.put("a" * 32, pa.py_buffer(b"x" * 60))
    cache.put("b" * 32, pa.py_buffer(b"y" * 60))
    assert cache.get("a" * 32) is not None
    cache.trim()
    assert [cache.get(name) is None for name in ("a" * 32, "b" * 32)].count(True) == 1
    cache.clear()
    assert cache.get("a" * 32) is None
    (tmp_path / "file").write_text("")
    blocked = SegmentCache(tmp_path / "file", "one", 100)
    blocked.put("a" * 32, pa.py_buffer(b"x"))
    assert blocked.get("a" * 32) is None


def test_trimming_removes_nothing_but_segments(tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path, "here", limit_bytes=0)
    cache.put("c" * 32, pa.py_buffer(b"segment"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "thesis.txt").write_text("years of work")
    (tmp_path / "elsewhere" / "more").mkdir()
    cache.trim()
    assert cache.get("c" * 32) is None
    assert (tmp_path / "elsewhere" / "thesis.txt").exists()
