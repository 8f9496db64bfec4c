"""Results that are too old when they would be released: left out of every sink, only where that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.engine.events import EmitRows, Freshness
from headrace.engine.relations import ALWAYS
from headrace.model import QueryId
from headrace.plan.sharing import SharedPlan, share
from headrace.spark import withholding
from headrace.spark.fresh_rows import count_fresh, counts_to_json
from headrace.spark.staging import StagedPart, StageWriter, publish
from headrace.spark.withholding import Withholding, adapting
from headrace.sql import read_script

STREAMS = "".join(
    f"CREATE STREAM {name} (x BIGINT, v BIGINT, ts TIMESTAMP) WITH (connector = 'files', path = 'x', time = 'ts');"
    for name in "abc"
)
JOINED = "FROM a, b, c WHERE a.x = b.x AND b.x = c.x WINDOW 10 SECONDS"
SHARED = "INTO (connector = 'parquet', shared = 'alerts')"
QUERIES = f"""
CREATE QUERY adapts AS SELECT a.x {JOINED} ON OVERLOAD ADAPT {SHARED};
CREATE QUERY defers AS SELECT a.x {JOINED} {SHARED};
CREATE QUERY called AS SELECT a.x, b.v {JOINED} ON OVERLOAD ADAPT;
CREATE QUERY counts AS SELECT a.x, COUNT(*) AS n {JOINED.replace("WINDOW", "GROUP BY a.x WINDOW")} ON OVERLOAD ADAPT;
"""
NOW_US = 50_000_000


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> SharedPlan:
    monkeypatch.setattr(withholding, "now_us", lambda: NOW_US)
    script = read_script(STREAMS + QUERIES)
    return share(script.catalog, script.queries)


def told(plan: SharedPlan, *until_us: Sequence[int]) -> tuple[tuple[int, dict[str, Any]], ...]:
    """Each shard made so many results for every query, fresh until these times, of tuples that arrived at 1 and 2."""
    found = []
    for shard, times in enumerate(until_us):
        fresh: dict[tuple[int, int], int] = {}
        count_fresh(fresh, Freshness(np.array(times), 1 + np.arange(len(times)) % 2))
        arrived = {query: [[1, len(times)]] for query in plan.queries}
        found.append((shard, {"arrived": arrived, "fresh": counts_to_json(dict.fromkeys(adapting(plan), fresh))}))
    return tuple(found)


def test_only_results_of_queries_that_adapt_may_be_left_out(plan: SharedPlan) -> None:
    assert set(adapting(plan)) == {"adapts", "called"}


def test_only_stale_results_are_left_out_and_counted(plan: SharedPlan) -> None:
    found = Withholding(plan, told(plan, [NOW_US - 1, NOW_US, NOW_US + 1], [NOW_US - 2] * 2, [ALWAYS]))
    found.judge(["called", "defers", "counts"])
    assert [found.stale_rows(query) for query in ("called", "defers", "counts", "adapts")] == [3, 0, 0, 0]
    assert list(found.left_out().values()) == [3]
    released = {shard: one["arrived"] for shard, one in found.released()}
    assert [released[shard].get("called") for shard in range(3)] == [[(1, 1), (2, 1)], None, [(1, 1)]]
    assert [released[shard]["adapts"] for shard in range(3)] == [[[1, 3]], [[1, 2]], [[1, 1]]]


def test_a_query_is_judged_once(plan: SharedPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Withholding(plan, told(plan, [NOW_US + 1]))
    found.judge(["called"])
    monkeypatch.setattr(withholding, "now_us", lambda: NOW_US + 10)
    found.judge(["called"])
    assert found.released_us("called") == NOW_US
    assert found.left_out() == {}


def test_what_grew_old_while_it_was_released_is_told(plan: SharedPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    for done_us, late in ((NOW_US + 5, set()), (NOW_US + 6, set(adapting(plan).values()))):
        monkeypatch.setattr(withholding, "now_us", lambda: NOW_US)
        found = Withholding(plan, told(plan, [NOW_US - 1, NOW_US + 5]))
        found.judge(plan.queries)
        monkeypatch.setattr(withholding, "now_us", lambda now=done_us: now)
        found.done(plan.queries)
        assert found.late() == late


def emission(query: str, values: Sequence[int], until_us: Sequence[int] | None = None) -> EmitRows:
    batch = pa.RecordBatch.from_pydict({"x": list(values), "name": [str(one) for one in values]})
    fresh = None if until_us is None else Freshness(np.array(until_us), np.ones(len(values), dtype=np.int64))
    return EmitRows((QueryId(query),), batch, (), fresh=fresh)


def published(directory: Path) -> list[dict[str, Any]]:
    files = sorted(directory.rglob("*.parquet"))
    return [row for path in files for row in pq.ParquetFile(path).read().to_pylist()]


def test_a_part_is_published_without_its_stale_rows_in_order(plan: SharedPlan, tmp_path: Path) -> None:
    times = [NOW_US + (-1) ** number for number in range(6)]
    writer = StageWriter(tmp_path / "staging", 0, "zstd", {}, adapting(plan))
    writer.write(emission("called", range(4), times[:4]))
    writer.write(emission("called", range(4, 6), times[4:]))
    (part,) = writer.close()
    parts = Withholding(plan, told(plan, times)).parts([(0, part)])
    assert [one.rows for one in parts] == [3]
    publish(0, parts, {"called": tmp_path / "called"})
    assert [row["x"] for row in published(tmp_path / "called")] == [0, 2, 4]
    (kept,) = (pq.ParquetFile(one.path) for one in parts)
    before = pq.ParquetFile(part.path)
    assert kept.schema_arrow == before.schema_arrow
    assert kept.metadata.row_group(0).column(0).compression == before.metadata.row_group(0).column(0).compression


def test_what_grows_old_while_a_part_is_written_again_is_left_out_too(
    plan: SharedPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [NOW_US - 1, NOW_US + 1, NOW_US + 9]
    writer = StageWriter(tmp_path / "staging", 0, "zstd", {}, adapting(plan))
    writer.write(emission("called", range(3), times))
    staged = [(0, part) for part in writer.close()]
    clock = iter([NOW_US, NOW_US + 2, NOW_US + 2, NOW_US + 3])
    monkeypatch.setattr(withholding, "now_us", lambda: next(clock))
    found = Withholding(plan, told(plan, times))
    publish(0, found.parts(staged), {"called": tmp_path / "called"})
    assert [row["x"] for row in published(tmp_path / "called")] == [2]
    assert list(found.left_out().values()) == [2]


def test_a_micro_batch_that_is_run_again_leaves_what_was_published_as_it_is(plan: SharedPlan, tmp_path: Path) -> None:
    for times in ([NOW_US - 1, NOW_US], [NOW_US - 1, NOW_US - 1]):  # the second time, after a crash, all is stale
        writer = StageWriter(tmp_path / "staging", 0, "zstd", {}, adapting(plan))
        writer.write(emission("called", range(2), times))
        parts = Withholding(plan, told(plan, times)).parts([(0, part) for part in writer.close()])
        publish(0, parts, {"called": tmp_path / "called"})
        assert [row["x"] for row in published(tmp_path / "called")] == [1]


def test_in_a_shared_sink_the_rows_of_others_are_published(plan: SharedPlan, tmp_path: Path) -> None:
    shared = {"adapts": "alerts", "defers": "alerts"}
    staged: list[tuple[int, StagedPart]] = []
    until_us = [[NOW_US - 1, NOW_US + 1], [NOW_US - 1, NOW_US - 1]]
    for shard in (0, 1):
        writer = StageWriter(tmp_path / "staging", shard, "zstd", shared, adapting(plan))
        writer.write(emission("adapts", [10 + shard, 30 + shard], until_us[shard]))
        writer.write(emission("defers", [20 + shard]))
        staged += [(shard, part) for part in writer.close()]
    parts = Withholding(plan, told(plan, *until_us)).parts(staged)
    publish(0, parts, dict.fromkeys(shared, tmp_path / "alerts"))
    rows = published(tmp_path / "alerts")
    assert sorted((row["query"], row["x"]) for row in rows) == [("adapts", 30), ("defers", 20), ("defers", 21)]
