"""The operator graph on real Spark: queues under a budget, every strategy's answers, statistics, kills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import Command
from pyspark.sql import SparkSession
from streams import Feed, answers, assert_in_order, cut, declare, output, readings

from headrace.model import StreamId
from headrace.reference_aggregates import evaluation_times, grouped_answer
from headrace.spark.session import Engine
from headrace.sql import read_script
from headrace.stats import RunStats

pytestmark = pytest.mark.spark

PAIRS = "FROM temperature a, humidity b WHERE a.location_id = b.location_id"
PLAIN = f"""
CREATE QUERY small AS SELECT a.location_id, a.value, b.value AS h, a.ts AS a_ts, b.ts AS b_ts {PAIRS} WINDOW 3 s;
CREATE QUERY large AS SELECT a.location_id, a.value, b.value AS h, a.ts AS a_ts, b.ts AS b_ts {PAIRS} WINDOW 30 s;
CREATE QUERY hot AS SELECT a.location_id, a.value + b.value AS sum {PAIRS} AND a.value + b.value > 100 WINDOW 10 s;
CREATE QUERY high AS SELECT location_id, value * 2 AS twice FROM temperature WHERE value > 60;
"""
GROUPED = f"""
CREATE QUERY most AS SELECT a.location_id, MAX(a.value) AS most, COUNT(*) AS pairs {PAIRS}
  GROUP BY a.location_id WINDOW 10 s;
CREATE QUERY alone AS SELECT MIN(value) AS low, COUNT(*) AS n FROM temperature WINDOW 8 s;
"""


def feeds_of(tmp_path: Path, files: int) -> tuple[dict[str, Feed], str]:
    feeds, declared = {}, ""
    for number, name in enumerate(("temperature", "humidity")):
        feeds[name] = Feed(tmp_path / name)
        declared += declare(name, feeds[name], max_files_per_batch="1")
        feeds[name].add_all(cut(readings(number + 3, 120, 80), files))
    return feeds, declared


def assert_all_answers(out: Path, declared: str, feeds: dict[str, Feed]) -> None:
    """Rows of plain queries in any order, those of aggregates row by row."""
    arrived: dict[str, list[Any]] = {name: feed.rows for name, feed in feeds.items()}
    for query, rows in answers(declared + PLAIN, arrived).items():
        assert rows
        assert sorted(output(out / query)) == sorted(rows), query
    for query in ("small", "large"):
        assert_in_order(out / query, slice(3, 5))
    script = read_script(declared + GROUPED)
    by_stream = {StreamId(name): rows for name, rows in arrived.items()}
    for query in script.queries:
        newest = max(row["ts"] for source in query.sources for row in by_stream[source.stream])
        times = evaluation_times(query, script.catalog, by_stream, round(newest.timestamp() * 1_000_000), None)
        assert output(out / query.name) == grouped_answer(query, script.catalog, by_stream, times), query.name


def graph_of(stats: RunStats) -> dict[str, int]:
    """By operator, its turns."""
    assert stats.graph is not None
    return {one.operator: one.turns for one in stats.graph.operators}


@pytest.mark.parametrize(
    ("strategy", "fairness", "shards"), [("threshold", "oldest", 3), ("chain", "aging", 3), ("fifo", "static", 1)]
)
def test_answers_are_the_same_whoever_is_next(
    spark: SparkSession, tmp_path: Path, strategy: str, fairness: str, shards: int
) -> None:
    feeds, declared = feeds_of(tmp_path, files=3)
    program = (
        f"SET shards = {shards}; SET evaluate = eager; SET budget = '150 probes'; SET block = '10 s';"
        f"SET strategy = '{strategy}'; SET fairness = '{fairness}'; {declared}{PLAIN}{GROUPED}"
    )
    engine = Engine(spark)
    engine.sql(program)
    run = engine.start(tmp_path / "out", once=True)
    assert run.wait(400)
    assert_all_answers(tmp_path / "out", declared, feeds)
    stats, text = run.stats(), run.explain()
    turns = graph_of(stats)
    assert {name.split()[0] for name in turns} == {"project", "join", "select-project", "aggregate"}
    # What runs where rows are packed is measured there, without a queue and turns.
    assert {name for name, count in turns.items() if not count} == {one for one in turns if one.startswith("project")}
    assert stats.graph is not None
    assert stats.graph.strategy == strategy
    assert all(one.service_us and one.selectivity is not None for one in stats.graph.operators)
    assert next(one.uses for one in stats.graph.operators if one.operator.startswith("join")) == 4
    assert max(entry["queue_bytes"] for entry in run.history()) > 0
    assert run.history()[-1]["queue_bytes"] == stats.graph.queue_bytes == 0
    assert stats.throttled_batches == 0, "queue_memory and backlog_limit are far away"
    assert f"operator graph: {strategy}" in text
    assert "selectivity" in text
    assert "selectivity" in run.draw()


def test_beyond_the_queue_memory_sources_wait(spark: SparkSession, tmp_path: Path) -> None:
    feeds, declared = feeds_of(tmp_path, files=2)
    limits = "SET budget = '1 probes'; SET queue_memory = '2 KB'; SET block = '5 s';"
    engine = Engine(spark)
    engine.sql(f"SET shards = 2; SET evaluate = eager; {limits} {declared}{PLAIN}{GROUPED}")
    run = engine.start(tmp_path / "out", once=True)
    assert run.wait(400)
    assert_all_answers(tmp_path / "out", declared, feeds)
    stats = run.stats()
    assert stats.throttled_batches > 0
    assert stats.graph is not None
    assert stats.graph.mode_changes > 0


def test_killed_and_started_again_with_queues_and_facts(tmp_path: Path) -> None:
    feeds, declared = feeds_of(tmp_path, files=4)
    settings = "SET shards = 3; SET evaluate = eager; SET budget = '150 probes'; SET block = '10 s';"
    program, out = tmp_path / "program.sql", tmp_path / "out"
    checkpoint = out / "_checkpoint"
    for strategy in ("threshold", "simplified"):
        program.write_text(f"{settings} SET strategy = '{strategy}'; {declared}{PLAIN}{GROUPED}")
        done = committed(checkpoint)
        with Command(program, out, "--once") as command:
            command.wait_for(lambda done=done: committed(checkpoint) > done + 2)
            assert command.is_running, command.finish()
    facts = json.loads(max((checkpoint / "orders").glob("*.facts")).read_text())
    assert any(name.startswith("join") for name in facts)
    with Command(program, out, "--once") as command:
        code, _, said = command.finish()
    assert (code, said) == (0, "")
    assert_all_answers(out, declared, feeds)
    assert len(list((checkpoint / "orders").glob("*.facts"))) <= 2, "old ones are forgotten"


def committed(checkpoint: Path) -> int:
    """The last micro-batch that is done; -1 before the first."""
    done = (checkpoint / "spark" / "commits").glob("*")
    return max((int(path.name) for path in done if path.name.isdigit()), default=-1)
