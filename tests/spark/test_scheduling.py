"""Budgets, policies and count windows on real Spark: what waits goes on, and the answers stay the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from streams import Feed, answers, assert_answers, assert_in_order, cut, declare, readings

from headrace import Engine, Run

pytestmark = pytest.mark.spark

SELECTED = "SELECT a.location_id, a.value, b.value AS h, a.ts AS a_ts, b.ts AS b_ts FROM"
SAME = "a.location_id = b.location_id"


def feeds(directory: Path, files: int = 4) -> dict[str, Feed]:
    both = {"temperature": Feed(directory / "a"), "humidity": Feed(directory / "b")}
    for seed, feed in enumerate(both.values()):
        feed.add_all(cut(readings(seed, 200, 100), files))
    return both


def streams(both: dict[str, Feed]) -> str:
    return "".join(declare(name, feed, max_files_per_batch="1") for name, feed in both.items())


def windows(*seconds: int) -> str:
    return "".join(
        f"CREATE QUERY q{window} AS {SELECTED} temperature a, humidity b WHERE {SAME} WINDOW {window} s;"
        for window in seconds
    )


def until(run: Run, is_so: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert not run.wait(0.2), "the run has ended"
        assert time.monotonic() < deadline, run.stats()


@pytest.mark.parametrize(("policy", "method"), [("lwo", "index"), ("swf", "eager"), ("mqt", "index")])
def test_a_budget_delays_and_changes_nothing(spark: SparkSession, tmp_path: Path, policy: str, method: str) -> None:
    both = feeds(tmp_path)
    program = (
        f"SET shards = 2; SET policy = '{policy}'; SET join_method = '{method}'; SET block = '5 s';"
        f"SET budget = '80 probes'; {streams(both)} {windows(1, 20, 60)}"
    )
    engine = Engine(spark)
    engine.sql(program)
    assert f"({policy.upper()}), 80 probes a micro-batch" in engine.explain()
    run = engine.start(tmp_path / "out", once=True)
    assert run.wait(400)
    assert_answers(tmp_path / "out", answers(program, {name: feed.rows for name, feed in both.items()}))
    for window in (1, 20, 60):
        assert_in_order(tmp_path / "out" / f"q{window}", slice(3, 5))
    history = run.history()
    assert max(entry["backlog_rows"] for entry in history) > 0
    assert history[-1]["backlog_rows"] == 0


def test_work_goes_on_without_input(spark: SparkSession, tmp_path: Path) -> None:
    both = feeds(tmp_path, files=2)
    settings = "SET shards = 2; SET policy = 'swf'; SET block = '4 s'; SET budget = '100 probes';"
    program = f"{settings} {streams(both)} {windows(1, 30)}"
    engine = Engine(spark)
    engine.sql(program)
    run = engine.start(tmp_path / "out")
    until(run, lambda: run.stats().batches > 1)
    until(run, lambda: sum(one.backlog_tuples for one in run.stats().windows) == 0)
    stats = run.stats()
    run.stop()
    assert stats.batches > 3
    assert stats.probes_allowed == 100
    assert sum(one.tuples for one in stats.streams) == 400
    assert {one.query: one.response_max_ms for one in stats.queries}["q1"] is not None
    assert all(shard.held_bytes > 0 for shard in stats.shards)
    assert sum(shard.output_bytes for shard in stats.shards) == 0, "nothing waits for a window any more"


def test_a_budget_of_time_is_turned_into_probes_that_are_written_down(spark: SparkSession, tmp_path: Path) -> None:
    both = feeds(tmp_path)
    program = f"SET shards = 2; SET block = '5 s'; SET budget = '300 us'; {streams(both)} {windows(1, 20, 60)}"
    engine = Engine(spark)
    engine.sql(program)
    run = engine.start(tmp_path / "out", once=True)
    assert run.wait(400)
    assert_answers(tmp_path / "out", answers(program, {name: feed.rows for name, feed in both.items()}))
    allowed = run.stats().probes_allowed
    assert allowed is not None
    assert allowed != 150, "what was measured replaces what was assumed"
    assert list((tmp_path / "out" / "_checkpoint" / "orders").glob("*.probes"))


def test_beyond_the_backlog_limit_sources_wait(spark: SparkSession, tmp_path: Path) -> None:
    both = feeds(tmp_path)
    program = (
        "SET shards = 2; SET policy = 'lwo'; SET block = '2 s'; SET budget = '1 probes'; SET backlog_limit = 30;"
        f"{streams(both)} {windows(1, 60)}"
    )
    engine = Engine(spark)
    engine.sql(program)
    run = engine.start(tmp_path / "out", once=True)
    assert run.wait(400)
    assert run.stats().throttled_batches > 0
    assert_answers(tmp_path / "out", answers(program, {name: feed.rows for name, feed in both.items()}))


def test_count_and_stream_windows_look_at_whole_streams(spark: SparkSession, tmp_path: Path) -> None:
    both = feeds(tmp_path)
    program = (
        f"SET shards = 3; SET budget = '150 probes'; {streams(both)}"
        f"CREATE QUERY last AS {SELECTED} temperature a, humidity b WHERE {SAME} WINDOW 20 ROWS;"
        f"CREATE QUERY more AS {SELECTED} temperature a, humidity b WHERE {SAME} WINDOW 90 ROWS;"
        f"CREATE QUERY mixed AS {SELECTED} temperature a [RANGE 5 s], humidity b [ROWS 30] WHERE {SAME};"
        f"CREATE QUERY ranges AS {SELECTED} temperature a [RANGE 5 s], humidity b [RANGE 50 s] WHERE {SAME};"
        f"CREATE QUERY theta AS {SELECTED} temperature a, humidity b WHERE a.value > b.value + 90 WINDOW 5 s;"
    )
    engine = Engine(spark)
    engine.sql(program)
    run = engine.start(tmp_path / "out", once=True)
    assert run.wait(400)
    expected = answers(program, {name: feed.rows for name, feed in both.items()})
    assert all(expected.values())
    assert_answers(tmp_path / "out", expected)
