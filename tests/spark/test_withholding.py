"""Results that are too old when they would be released: left out of every sink, only where that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.engine.events import EmitRows
from headrace.engine.relations import ALWAYS
from headrace.model import QueryId
from headrace.plan.sharing import SharedPlan, share
from headrace.spark import withholding
from headrace.spark.staging import StagedPart, StageWriter, publish
from headrace.spark.tree_told import TreeTold
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


def told(plan: SharedPlan, *until_us: int) -> tuple[tuple[int, dict[str, Any]], ...]:
    """Each shard made three results for every query, fresh until a time."""
    arrived = {query: [[1, 2], [2, 1]] for query in plan.queries}
    (group,) = (one.signature for one in plan.groups if one.adapts)
    trees = [{group: TreeTold((), (), 0, 0.0, 0, one).to_json()} for one in until_us]
    return tuple((shard, {"arrived": arrived, "trees": one}) for shard, one in enumerate(trees))


def test_only_results_of_queries_that_adapt_may_be_left_out(plan: SharedPlan) -> None:
    assert set(adapting(plan)) == {"adapts", "called"}


def test_shards_whose_results_are_too_old_are_left_out_and_counted(plan: SharedPlan) -> None:
    found = Withholding(plan, told(plan, NOW_US - 1, NOW_US, ALWAYS))
    found.judge(["called", "defers", "counts"])
    assert found.shards("called") == {0}
    assert found.shards("defers") == found.shards("counts") == found.shards("adapts") == frozenset()
    assert list(found.left_out().values()) == [3]
    released = {shard: set(one["arrived"]) for shard, one in found.released()}
    assert released == {0: {"adapts", "defers", "counts"}, 1: set(plan.queries), 2: set(plan.queries)}


def test_what_grew_old_while_it_was_published_is_told(plan: SharedPlan) -> None:
    found = Withholding(plan, told(plan, NOW_US - 1, NOW_US + 1_000_000))
    found.judge(plan.queries)
    assert found.late((NOW_US + 1_000_000) / 1e6) == frozenset()
    assert found.late((NOW_US + 2_000_000) / 1e6) == set(adapting(plan).values())


def emission(query: str, *values: int) -> EmitRows:
    return EmitRows((QueryId(query),), pa.RecordBatch.from_pydict({"x": list(values)}), ())


def test_in_a_shared_sink_the_rows_of_others_are_published(plan: SharedPlan, tmp_path: Path) -> None:
    shared = {"adapts": "alerts", "defers": "alerts"}
    staged: list[tuple[int, StagedPart]] = []
    for shard in (0, 1):
        writer = StageWriter(tmp_path / "staging", shard, "zstd", shared, adapting(plan))
        writer.write(emission("adapts", 10 + shard))
        writer.write(emission("defers", 20 + shard))
        staged += [(shard, part) for part in writer.close()]
    parts = Withholding(plan, told(plan, NOW_US - 1, NOW_US + 1)).parts(staged)
    publish(0, parts, dict.fromkeys(shared, tmp_path / "alerts"))
    rows = [row for path in (tmp_path / "alerts").rglob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert sorted((row["query"], row["x"]) for row in rows) == [("adapts", 11), ("defers", 20), ("defers", 21)]
