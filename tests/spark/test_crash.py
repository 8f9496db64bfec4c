"""Killed in the middle, and started again: every row once, and never half a micro-batch to be seen."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from commands import Command
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from streams import Feed, answers, assert_answers, assert_in_order, cut, dead_letters, declare, output, readings

from headrace.config import Settings
from headrace.model import Catalog
from headrace.plan.sharing import share
from headrace.spark.allocation_keeper import AllocationKeeper
from headrace.spark.changes import Changes
from headrace.spark.checkpoint import open_checkpoint
from headrace.spark.envelopes import REPORT_DDL
from headrace.spark.graph_keeper import GraphKeeper
from headrace.spark.joins import JoinKeeper
from headrace.spark.metrics import RunMetrics
from headrace.spark.ordering import OrderingKeeper
from headrace.spark.orders import Work
from headrace.spark.pacing import Pacer
from headrace.spark.pipeline import Router, Sinks
from headrace.spark.query_set import QuerySet

pytestmark = pytest.mark.spark

FILES = 10
COLUMNS = "a.location_id, a.value, b.value AS h, a.ts AS a_ts, b.ts AS b_ts"


class Watcher:
    """Reads all that is published while a run goes on; what it saw must stay as it was."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.seen: dict[str, frozenset[tuple[str, int]]] = {}
        self.faults: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - told by the test
                self.faults.append(repr(error))

    def _look(self) -> None:
        for batch in sorted(self.out.glob("[a-z]*/micro_batch=*")):
            files = frozenset((file.name, pq.ParquetFile(file).read().num_rows) for file in batch.iterdir())
            if self.seen.setdefault(str(batch), files) != files:
                self.faults.append(f"{batch} changed")


def batches(out: Path) -> int:
    """Micro-batches of which any query's rows were published: under a budget a query may have its rows long before the
    others."""
    return len({path.name for path in out.glob("[a-z]*/micro_batch=*")})


def commits(out: Path) -> int:
    return len(list((out / "_checkpoint" / "spark" / "commits").glob("[0-9]*")))


@pytest.mark.parametrize("settings", ["", "SET budget = '150 probes'; SET block = '10 s';"], ids=["all", "backlog"])
def test_killed_and_started_again_until_it_ends(tmp_path: Path, settings: str) -> None:
    """Also in the middle of a backlog: what waits for its turn is kept, and the order too."""
    chance = random.Random(settings)
    a, b = Feed(tmp_path / "a"), Feed(tmp_path / "b")
    text = (
        f"SET shards = 3;{settings}"
        + declare("temperature", a, max_files_per_batch="1", max_delay="1 second")
        + declare("humidity", b, max_files_per_batch="1")
        + "".join(
            f"CREATE QUERY {name} AS SELECT {COLUMNS} FROM temperature a, humidity b "
            f"WHERE a.location_id = b.location_id {condition} WINDOW {window} s;"
            for name, window, condition in (("near", 5, ""), ("far", 120, ""), ("hot", 60, "AND a.value > 70"))
        )
    )
    a.add_all([*part, {**part[0], "ts": None}] for part in cut(readings(1, 400, 400), FILES))
    b.add_all(cut(readings(2, 400, 400), FILES))
    program = tmp_path / "program.sql"
    program.write_text(text)
    out = tmp_path / "out"
    with Watcher(out) as watcher:
        # Right after publishing, before the commit; some time after a commit; and some time after publishing.
        for moment in ("published", "committed", "random"):
            published, committed = batches(out), commits(out)
            with Command(program, out, "--once") as command:
                if moment == "committed":
                    command.wait_for(lambda done=committed: commits(out) >= done + 2)
                else:
                    command.wait_for(lambda done=published: batches(out) >= done + 2)
                if moment != "published":
                    time.sleep(chance.random())
                assert command.is_running, command.finish()
        with Command(program, out, "--once") as command:
            code, _, said = command.finish()
    assert (code, said) == (0, "")
    assert watcher.faults == []
    expected = answers(text, {"temperature": a.rows, "humidity": b.rows})
    assert all(expected.values())
    assert_answers(out, expected)
    for query in expected:
        assert_in_order(out / query, slice(3, 5))
    assert len(dead_letters(out)) == FILES
    assert not (out / "_staging").exists()
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


def test_micro_batch_routed_twice_is_published_once(spark: SparkSession, tmp_path: Path) -> None:
    """What Spark does when it dies between publishing and committing."""
    out = tmp_path / "out"

    def reports(attempt: int) -> DataFrame:
        part = out / "_staging" / "000000004" / f"attempt-{attempt}.parquet"
        part.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(spark.range(3).toArrow(), part)
        return spark.createDataFrame(
            [("staged", 0, ["q", "r"], 3, str(part), b""), ("told", 0, [], 0, TOLD, b"")], REPORT_DDL
        )

    sinks = Sinks(out, {"q": out / "q", "r": out / "r"}, {}, {}, 10)
    checkpoint = open_checkpoint(tmp_path / "checkpoint", (), (0,))
    metrics = RunMetrics(("q", "r"), (), {}, 1, 0.0)
    plan = share(Catalog(), ())
    work, joins = Work(plan, frozenset(), frozenset()), JoinKeeper(Settings(), checkpoint.grids)
    graph = GraphKeeper(Settings())
    keepers = (joins, graph, OrderingKeeper(Settings(), Catalog(), 0.0), AllocationKeeper(Settings(), joins))
    changes = Changes(QuerySet(()))
    router = Router(sinks, checkpoint, metrics, Console(), Pacer(None), changes, work, *keepers, "snappy")
    router(reports(1), 4)
    before = {path: path.stat().st_ino for path in out.rglob("*.parquet")}
    assert len(before) == 2
    router(reports(2), 4)
    assert {path: path.stat().st_ino for path in out.rglob("*.parquet")} == before
    assert output(out / "q") == [(0,), (1,), (2,)]


TOLD = json.dumps(
    {
        "arrived": {},
        "read": [],
        "late": {},
        "held": [0] * 7,
        "stage_ms": {},
        "backlog": {},
        "spent": 0,
        "over_limit": 0,
        "behind": False,
        "graph": None,
        "trees": {},
        "fresh": {},
        "heard": {},
        "measured": {},
        "seen": [],
        "heard_from": [],
        "sources": {},
        "reached": {},
        "joins": {},
    }
)
