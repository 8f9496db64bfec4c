"""Continuous aggregates on Spark: groups that span shards, kills, and queries that come and go."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Command
from pyspark.sql import DataFrame, SparkSession
from streams import Feed, Row, cut, declare, output, readings

from headrace.errors import SqlError
from headrace.model import StreamId
from headrace.reference_aggregates import evaluation_times, grouped_answer
from headrace.spark.session import Engine, Run
from headrace.sql import read_script

pytestmark = pytest.mark.spark

QUERIES = """
CREATE QUERY q1 AS SELECT COUNT(DISTINCT A.location_id) FROM temperature A, humidity B
  WHERE A.location_id = B.location_id and A.value > 50 and B.value > 30 WINDOW 10 sec;
CREATE QUERY q2 AS SELECT A.location_id, MAX(A.value), MAX(B.value) FROM temperature A, humidity B
  WHERE A.location_id = B.location_id GROUP BY A.location_id WINDOW 30 SECONDS;
CREATE QUERY q2_small AS SELECT A.location_id, MAX(A.value), MAX(B.value) FROM temperature A, humidity B
  WHERE A.location_id = B.location_id GROUP BY A.location_id HAVING COUNT(*) <> 1 WINDOW 5 SECONDS;
CREATE QUERY parity AS SELECT a.location_id % 2 AS odd, COUNT(*) AS pairs, SUM(a.value) AS total, AVG(b.value) AS mean
  FROM temperature a, humidity b WHERE a.location_id = b.location_id GROUP BY a.location_id % 2 WINDOW 15 SECONDS;
CREATE QUERY alone AS SELECT MIN(value) AS low, COUNT(*) FILTER (WHERE value > 90) AS hot FROM temperature
  WINDOW 8 SECONDS;
"""


def feeds_of(tmp_path: Path, files: int = 5) -> tuple[dict[str, Feed], str]:
    feeds, declared = {}, ""
    for number, name in enumerate(("temperature", "humidity")):
        feeds[name] = Feed(tmp_path / name)
        declared += declare(name, feeds[name], max_files_per_batch="1")
        feeds[name].add_all(cut(readings(number + 1, 150, 100), files))
    return feeds, declared


def expected(program: str, feeds: dict[str, Feed], every_us: int | None = None) -> dict[str, list[tuple[Any, ...]]]:
    """What the reference says, at all times at which anything changes or at every so many microseconds."""
    script = read_script(program)
    arrived: dict[StreamId, list[Row]] = {StreamId(name): feed.rows for name, feed in feeds.items()}
    found = {}
    for query in script.queries:
        newest = max(row["ts"] for source in query.sources for row in arrived[source.stream])
        last_us = round(newest.timestamp() * 1_000_000)
        times = evaluation_times(query, script.catalog, arrived, last_us, every_us)
        found[str(query.name)] = grouped_answer(query, script.catalog, arrived, times)
    return found


def run_once(spark: SparkSession, program: str, out: Path) -> Run:
    engine = Engine(spark)
    engine.sql(program)
    run = engine.start(out, once=True)
    assert run.wait(400)
    return run


def test_the_papers_queries_and_others_on_three_shards(spark: SparkSession, tmp_path: Path) -> None:
    """Row for row, in order: every time at which a value changed."""
    feeds, declared = feeds_of(tmp_path)
    program = f"SET shards = 3; SET evaluate = eager; SET budget = '300 probes'; {declared}{QUERIES}"
    run = run_once(spark, program, tmp_path / "out")
    wanted = expected(program, feeds)
    assert all(wanted.values())
    for query, rows in wanted.items():
        assert output(tmp_path / "out" / query) == rows, query
    assert {one.query: one.results for one in run.stats().queries} == {
        query: len(rows) for query, rows in wanted.items()
    }
    assert "one set of panes for 5 seconds, 30 seconds" not in run.explain()  # HAVING reads one more aggregate
    assert "where the panes of 3 shards meet" in run.explain()


def test_aggregates_every_so_often_on_one_shard(spark: SparkSession, tmp_path: Path) -> None:
    feeds, declared = feeds_of(tmp_path)
    program = f"SET shards = 1; SET reevaluate = '5 seconds'; {declared}{QUERIES}"
    run_once(spark, program, tmp_path / "out")
    for query, rows in expected(program, feeds, 5_000_000).items():
        assert output(tmp_path / "out" / query) == rows, query
    finer = Engine(spark)
    finer.sql(program.replace("'5 seconds'", "'2 seconds'"))
    with pytest.raises(SqlError, match="put together for evaluation every 5 seconds"):
        finer.start(tmp_path / "out", once=True)


def test_aggregates_killed_and_started_again(tmp_path: Path) -> None:
    feeds, declared = feeds_of(tmp_path, files=8)
    text = f"SET shards = 3; SET evaluate = eager; SET budget = '300 probes'; SET block = '5 s'; {declared}{QUERIES}"
    program, out = tmp_path / "program.sql", tmp_path / "out"
    program.write_text(text)
    for _ in range(2):
        done = len(list(out.glob("parity/micro_batch=*")))
        with Command(program, out, "--once") as command:
            command.wait_for(lambda done=done: len(list(out.glob("parity/micro_batch=*"))) >= done + 2)
            assert command.is_running, command.finish()
    with Command(program, out, "--once") as command:
        code, _, said = command.finish()
    assert (code, said) == (0, "")
    for query, rows in expected(text, feeds).items():
        assert output(out / query) == rows, query


def until(condition: Callable[[], bool], timeout_s: float = 400) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.1)


def results_of(run: Run, query: str) -> int:
    return next(one.results for one in run.stats().queries if one.query == query)


@pytest.mark.parametrize("budget", ["none", "'200 probes'"])
def test_an_aggregate_that_comes_live_has_whole_windows_from_its_first_rows_on(
    spark: SparkSession, tmp_path: Path, budget: str
) -> None:
    """Its groups are its own; what is held of both streams is joined once more for it, on both shards."""
    feeds, declared = feeds_of(tmp_path, files=1)
    joined = "FROM temperature a, humidity b WHERE a.location_id = b.location_id"
    keep = f"CREATE QUERY keep AS SELECT a.location_id, a.value, b.value AS other {joined} WINDOW 60 SECONDS;"
    late = f"""CREATE QUERY late AS SELECT a.location_id % 3 AS third, COUNT(*) AS n, COUNT(DISTINCT b.value) AS d,
        MAX(a.value) AS top {joined} GROUP BY a.location_id % 3 WINDOW 40 SECONDS;"""
    engine = Engine(spark)
    setting = f"SET shards = 2; SET reevaluate = '5 seconds'; SET trigger = '0 seconds'; SET budget = {budget};"
    engine.sql(f"{setting}{declared}{keep}")
    run = engine.start(tmp_path / "out")
    try:
        until(lambda: results_of(run, "keep") > 0)
        run.add(late)
        for number, name in enumerate(("temperature", "humidity")):
            feeds[name].add(readings(number + 11, 100, 60, begin=110))
        until(lambda: results_of(run, "late") > 20)
    finally:
        run.stop()
    rows = output(tmp_path / "out" / "late")
    first_us, last_us = (round(row[-1].timestamp() * 1_000_000) for row in (rows[0], rows[-1]))
    script = read_script(f"{declared}{late}")
    arrived = {StreamId(name): feed.rows for name, feed in feeds.items()}
    assert (
        first_us < min(row["ts"].timestamp() * 1_000_000 for row in arrived[StreamId("humidity")][-100:]) + 40_000_000
    )
    assert rows == grouped_answer(script.queries[0], script.catalog, arrived, range(first_us, last_us + 1, 5_000_000))


def test_a_query_with_aggregates_comes_to_a_run_that_had_none_and_goes(spark: SparkSession, tmp_path: Path) -> None:
    """What it gives once its window has passed since it came is what it would have given alone."""
    feeds, declared = feeds_of(tmp_path, files=1)
    plain = """CREATE QUERY pairs AS SELECT a.value, b.value AS other FROM temperature a, humidity b
        WHERE a.location_id = b.location_id WINDOW 10 SECONDS;"""
    added = """CREATE QUERY counts AS SELECT COUNT(*) AS n FROM temperature a, humidity b
        WHERE a.location_id = b.location_id WINDOW 3 SECONDS;"""
    setting = "SET shards = 2; SET evaluate = eager; SET trigger = '0 seconds';"
    engine = Engine(spark)
    engine.sql(f"{setting}{declared}{plain}")
    run = engine.start(tmp_path / "out")
    try:
        run.add(added)
        for number, name in enumerate(("temperature", "humidity")):
            feeds[name].add(readings(number + 11, 100, 60, begin=110))
        until(lambda: results_of(run, "counts") > 20)
        assert "COUNT(*) AS n" in run.explain()
        run.drop("counts")
    finally:
        run.stop()
    rows = output(tmp_path / "out" / "counts")
    wanted = expected(f"{declared}{added}", feeds)["counts"]
    late = [row for row in rows if row[-1] > feeds["temperature"].rows[150]["ts"]]
    assert late
    assert set(late) <= set(wanted)


def test_a_callback_gets_the_rows_of_groups_that_span_shards(spark: SparkSession, tmp_path: Path) -> None:
    feeds, declared = feeds_of(tmp_path, files=2)
    query = "CREATE QUERY n AS SELECT COUNT(*) AS n FROM temperature WINDOW 5 SECONDS;"
    program = f"SET shards = 2; SET evaluate = eager; {declared}{query}"
    got: list[tuple[Any, ...]] = []

    def take(_query: str, rows: DataFrame, _batch: int) -> None:
        got.extend(tuple(row) for row in rows.collect())

    engine = Engine(spark)
    engine.sql(program)
    engine.sink("n", take)
    run = engine.start(tmp_path / "out", once=True)
    assert run.wait(400)
    assert [row[0] for row in got] == [row[0] for row in expected(program, feeds)["n"]]
