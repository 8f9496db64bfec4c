"""A run without Spark: real SQL, plans and sets of queries; made-up numbers; rows that are published when told to."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.config import Settings
from headrace.errors import HeadraceError, PlanError
from headrace.plan.capacities import OperatorFacts
from headrace.plan.explain import explain
from headrace.plan.explain_joins import side_names
from headrace.plan.graph_drawing import draw_graph
from headrace.plan.joinplans import plan_joins
from headrace.plan.shard_graph import running_graph, scheduled_graph
from headrace.plan.sharing import SharedPlan, share
from headrace.plan.tree_drawing import draw_tree
from headrace.plan.tree_plans import plan_trees
from headrace.spark.pipeline import windows_of
from headrace.spark.query_set import QuerySet, Record
from headrace.spark.staging import BATCH_COLUMN, batch_name
from headrace.sql import read_script
from headrace.stats import (
    GraphStats,
    HalfWayStats,
    OperatorStats,
    OrderingStats,
    QueryStats,
    RunStats,
    ShardStats,
    SparkStats,
    StreamStats,
    TreeStats,
    WindowStats,
)

PROGRAM = """
CREATE STREAM temperature (location_id BIGINT, value DOUBLE, ts TIMESTAMP) WITH (connector = 'generator', time = 'ts');
CREATE STREAM humidity (location_id BIGINT, value DOUBLE, ts TIMESTAMP) WITH (connector = 'generator', time = 'ts');
CREATE QUERY near AS SELECT a.location_id, a.value AS celsius FROM temperature a, humidity b
  WHERE a.location_id = b.location_id AND b.value > 70 WINDOW 1 SECOND;
CREATE QUERY wide AS SELECT a.location_id, a.value AS celsius FROM temperature a, humidity b
  WHERE a.location_id = b.location_id AND b.value > 80 WINDOW 10 MINUTES;
CREATE QUERY counted AS SELECT location_id FROM humidity WHERE value > 50 INTO (connector = 'count');
"""

FACTS = OperatorFacts(3.2e-6, 0.5, 64, 48)
OPERATOR = OperatorStats(
    "join 1a2b", "a.location_id = b.location_id", 2, 1024, 9, 0.5, 3.2, 64.0, 48.0, 312_500.0, 12_500_000.0
)
ORDERING = OrderingStats(
    "temperature(location_id) = humidity(location_id)",
    "filter-order",
    120,
    4096,
    0.31,
    42.0,
    31.5,
    0.25,
    240.0,
    ("humidity",),
)
TREES = (
    TreeStats(
        "a(k) = b(k) = c(k)",
        "((a b) c)",
        "jaqpot",
        (HalfWayStats("a into b", 1200, 300, 250, 4, 310.5), HalfWayStats("a b into c", 250, 250, 90, 0, 260.0)),
        results_per_s=50.0,
        saturation_per_s=200.0,
        mu=300.0,
        freshness_share=0.1,
        left_out=4000,
        stale=7,
        purged=5,
        released_late=2,
        infeasible=("state a b: tuples of a stay for 40 s, fresh for 30 s",),
        allocations=3,
        allocation_ms=1.5,
    ),
    TreeStats(
        "d(k) = e(k)", "(d e)", "pruned", (HalfWayStats("d into e", 80, 80, 9, 0, 80.0),), 9.0, 9.0, math.inf, 1.0
    ),
)
"""One tree that has too much to do, and one without a limit."""


class FakeRun:
    """Everything that the service asks of a run, at once."""

    def __init__(self, out: Path, program: str = PROGRAM) -> None:
        script = read_script(program)
        self._catalog = script.catalog
        self.queries = QuerySet(script.queries)
        self.settings = Settings()
        self.out = out
        self.checkpoint = out / "_checkpoint"
        self.is_active = True
        self.last_batch: int | None = None
        self.batches = 0
        self.rates: dict[str, float] = {}
        """Results a second of queries that are to have others than made-up ones."""

    def _make(self, record: Record) -> None:
        if not self.is_active:
            raise HeadraceError("the run has ended: start it again to change its queries")
        self.queries = self.queries.after(record, self._catalog)

    def add(self, sql: str) -> None:
        self._make({"add": sql})

    def drop(self, name: str) -> None:
        self._make({"drop": name})

    def pause(self, name: str) -> None:
        self._make({"pause": name})

    def resume(self, name: str) -> None:
        self._make({"resume": name})

    def check(self, sql: str) -> tuple[str, ...]:
        after = self.queries.after({"add": sql}, self._catalog)
        return tuple(query.name for query in after.running if query not in self.queries.running)

    def plan(self) -> SharedPlan:
        return share(self._catalog, self.queries.running)

    def explain(self, sql: str | None = None) -> str:
        if sql is None:
            return explain(self.plan(), self.settings)
        after = self.queries.after({"add": sql}, self._catalog)
        return explain(share(self._catalog, after.running), self.settings)

    def draw(self, query: str | None = None) -> str:
        plan = self.plan()
        if query is None:
            graph = running_graph(plan)
            return draw_graph(graph, dict.fromkeys(graph.names, FACTS), scheduled_graph(plan))
        trees = plan_trees(plan, self.settings, plan_joins(plan, self.settings))
        for group in plan.groups:
            if group.signature in trees and any(one.query == query for cls in group.classes for one in cls.members):
                return draw_tree(trees[group.signature].allocation, side_names(group))
        raise PlanError(f"query {query} runs by no tree")

    def directories(self) -> dict[str, Path]:
        everything = (*self.queries.running, *self.queries.paused)
        return {query.name: self.out / query.name for query in everything if not query.into}

    def publish(self, rows: dict[str, list[tuple[int, float]]]) -> None:
        """A micro-batch with these rows."""
        batch = 0 if self.last_batch is None else self.last_batch + 1
        for name, some in rows.items():
            directory = self.out / name / f"{BATCH_COLUMN}={batch_name(batch)}"
            directory.mkdir(parents=True)
            columns = {"location_id": [one for one, _ in some], "celsius": [one for _, one in some]}
            pq.write_table(pa.table(columns), directory / "part-0000.parquet")
        self.last_batch = batch
        self.batches += 1

    def stats(self) -> RunStats:
        wave = 1 + 0.3 * math.sin(self.batches / 7)
        queries = [
            QueryStats(query.name, 1000 * (place + 1) + 50 * self.batches,
                       self.rates.get(query.name, 150 * wave / (place + 1)), 80.0 * (place + 1),
                       210.0 * (place + 1), 95.0 * (place + 1), 260.0 * (place + 1))
            for place, query in enumerate(self.queries.running)
        ]  # fmt: skip
        windows = [
            WindowStats(group, window, 40 * place)
            for group, some in windows_of(self.plan()).items()
            for place, window in enumerate(some)
        ]
        return RunStats(
            batches=self.batches,
            elapsed_s=75.0,
            queries=tuple(queries),
            streams=tuple(
                StreamStats(one.name, 90_000, 1000 * wave, 3, 0, 420.0 * wave, 1500.0 * place, is_idle=place == 1)
                for place, one in enumerate(self._catalog.streams)
            ),
            shards=(
                ShardStats(0, 60_000, 10, 2_000_000, 4, 900, 80, busy_ms=310.0),
                ShardStats(1, 58_000, 12, 1_900_000),
            ),
            batch_ms=412.0 * wave,
            stage_ms=(("pack", 12.0), ("join", 200.0), ("emit", 31.0)),
            windows=tuple(windows),
            probes=4000,
            probes_allowed=5000,
            graph=GraphStats("threshold", "oldest", 2**28, 2**20, "normal", 2, False, (OPERATOR,)),
            batch=self.last_batch,
            spark=SparkStats(self.last_batch or 0, 2000, 1900.0, 4100.0, 24, 2**22, (("addBatch", 380.0),)),
            trees=TREES,
            ordering=(ORDERING,),
            switches=("micro-batch 7: Filter-Order from now on",),
            switched=1,
        )
