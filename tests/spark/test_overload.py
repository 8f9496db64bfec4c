"""Joins that leave probes out, on Spark: with every probe the oracle's rows, with few a part of them, once."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from commands import Command
from pyspark.sql import SparkSession
from streams import answers, assert_answers, assert_in_order, output
from test_multiway import TIMES, run_once, streams

from headrace.errors import SqlError
from headrace.spark import withholding
from headrace.spark.session import Engine

pytestmark = pytest.mark.spark

ADAPT = "ON OVERLOAD ADAPT"


def fresh(name: str) -> str:
    return f"{name} FRESHNESS 1 HOUR"


THREE = ", ".join(map(fresh, "abc"))
QUERIES = f"""
CREATE QUERY common AS SELECT a.x, a.v, b.v AS bv, c.v AS cv, {TIMES} FROM {THREE}
  WHERE a.x = b.x AND b.x = c.x WINDOW 8 SECONDS {ADAPT};
CREATE QUERY chain AS SELECT a.x, b.y, {TIMES} FROM {fresh("a")} JOIN {fresh("b")} ON a.x = b.x
  JOIN {fresh("c")} ON b.y = c.y WHERE a.v < c.v WINDOW 15 SECONDS {ADAPT};
CREATE QUERY four AS SELECT {TIMES}, d.ts AS d_ts FROM {THREE}, {fresh("d")}
  WHERE a.x = b.x AND c.x = d.x AND b.y = c.y WINDOW 12 SECONDS {ADAPT};
CREATE QUERY pairs AS SELECT a.v, b.v AS w, a.ts AS a_ts, b.ts AS b_ts FROM {fresh("a")}, {fresh("b")}
  WHERE a.x = b.x WINDOW 6 SECONDS {ADAPT};
"""

WHOLE = f"""CREATE QUERY whole AS SELECT {TIMES}, d.ts AS d_ts FROM a, b, c, d
  WHERE a.x = b.x AND c.x = d.x AND b.y = c.y WINDOW 12 SECONDS;"""
"""Defers, and runs by a tree where one is set."""


def test_with_every_probe_trees_give_the_oracles_rows_in_order(spark: SparkSession, tmp_path: Path) -> None:
    feeds, declared = streams(tmp_path, (120, 110, 100, 90), 90)
    program = f"SET shards = 3;SET plan = '((a b) (c d))';{declared}{QUERIES}{WHOLE}"
    out = tmp_path / "out"
    run = run_once(spark, program, out)
    expected = answers(program, {name: feed.rows for name, feed in feeds.items()})
    assert all(expected.values())
    assert_answers(out, expected)
    assert_in_order(out / "common", slice(-3, None))
    assert_in_order(out / "four", slice(-4, None))
    assert_in_order(out / "whole", slice(-4, None))
    trees = [one for one in run.stats().trees if one.plan == "((a b) (c d))"]
    assert [one.left_out for one in trees] == [0, 0]
    assert any("as the tree" in one.group for one in trees)
    assert "((a b) (c d)), bushy" in run.explain()
    with pytest.raises(SqlError, match=r"ran by .*before: what the checkpoint keeps for it cannot be used"):
        run_once(spark, program.replace("((a b) (c d))", "(((a b) c) d)"), out)


def test_few_probes_on_two_shards_killed_and_started_again(tmp_path: Path) -> None:
    """What comes out is of the answer, no row twice, and not all of it; of a query that defers, all of it."""
    feeds, declared = streams(tmp_path, (120, 120, 120, 120), 100, files=12)
    settings = "SET shards = 2; SET budget = '30 probes'; SET trigger = '100 ms'; SET plan = '((a b) (c d))';"
    text = f"{settings}{declared}{QUERIES}{WHOLE}"
    program, out = tmp_path / "program.sql", tmp_path / "out"
    program.write_text(text)
    committed = out / "_checkpoint" / "spark" / "commits"
    with Command(program, out, "--once") as command:
        command.wait_for(lambda: len(list(committed.glob("[0-9]*"))) >= 3)
        assert command.is_running
    with Command(program, out, "--once") as command:
        code, _, said = command.finish()
    assert (code, said) == (0, "")
    expected = answers(text, {name: feed.rows for name, feed in feeds.items()})
    assert Counter(output(out / "whole")) == Counter(expected.pop("whole"))
    for query, rows in expected.items():
        got = Counter(output(out / query))
        assert got
        assert not got - Counter(rows)
    assert sum(len(output(out / query)) for query in expected) < sum(map(len, expected.values()))


def test_with_more_than_is_needed_nothing_is_left_out_however_unevenly_tuples_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Files of a hundred tuples in micro-batches that are taken to have a few each."""
    feeds, declared = streams(tmp_path, (400, 300, 200, 100), 300, files=3)
    program = f"SET shards = 2; SET service_rate = 10000000; SET trigger = '5 ms';{declared}{QUERIES}"
    run = run_once(spark, program, tmp_path / "out")
    assert_answers(tmp_path / "out", answers(program, {name: feed.rows for name, feed in feeds.items()}))
    assert [one.left_out for one in run.stats().trees] == [0] * 4


def test_results_that_grew_too_old_on_the_way_are_left_out_of_every_sink(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's clock says that publication took two hours; queries that defer have all their rows all the same."""
    monkeypatch.setattr(withholding, "now_us", lambda: time.time_ns() // 1000 + 2 * 3600 * 1_000_000)
    feeds, declared = streams(tmp_path, (60, 60, 60), 60)
    joined = "WHERE a.x = b.x AND b.x = c.x WINDOW 8 SECONDS"
    shared = "INTO (connector = 'parquet', shared = 'together')"
    queries = f"""
    CREATE QUERY filed AS SELECT {TIMES} FROM {THREE} {joined} {ADAPT};
    CREATE QUERY called AS SELECT a.x, {TIMES} FROM {THREE} {joined} {ADAPT};
    CREATE QUERY counted AS SELECT b.x, {TIMES} FROM {THREE} {joined} {ADAPT} INTO (connector = 'count');
    CREATE QUERY part AS SELECT {TIMES} FROM {THREE} {joined} {ADAPT} {shared};
    CREATE QUERY whole AS SELECT {TIMES} FROM a, b, c {joined} {shared};"""
    engine, seen = Engine(spark), []
    engine.sql(f"SET shards = 2;{declared}{queries}")
    engine.sink("called", lambda _query, rows, _batch: seen.extend(rows.collect()))
    run = engine.start(tmp_path / "out", once=True)
    assert run.wait(400)
    expected = answers(declared + queries, {name: feed.rows for name, feed in feeds.items()})
    assert expected["part"]
    assert seen == []
    assert not (tmp_path / "out" / "filed").exists() or not output(tmp_path / "out" / "filed")
    together = Counter(output(tmp_path / "out" / "together"))
    assert together == Counter(("whole", *row) for row in expected["whole"])
    (tree,) = run.stats().trees
    assert tree.stale == sum(len(expected[query]) for query in ("filed", "called", "counted", "part"))
    assert tree.released_late == 0
    assert {one.query: one.results for one in run.stats().queries}["counted"] == 0


def test_a_freshness_that_is_too_short_is_reported_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing stale comes out; the statistics say which stream cannot be kept fresh."""
    _, declared = streams(tmp_path, (60, 60, 60), 60)
    query = f"""CREATE QUERY q AS SELECT a.x, {TIMES} FROM a FRESHNESS 1 MS, b FRESHNESS 1 HOUR, c FRESHNESS 1 HOUR
      WHERE a.x = b.x AND b.x = c.x WINDOW 30 SECONDS {ADAPT};"""
    run = run_once(spark, f"SET shards = 2;{declared}{query}", tmp_path / "out")
    (tree,) = run.stats().trees
    assert tree.stale > 0
    assert any(" a may be old (0.001 s)" in one for one in tree.infeasible)
    assert not (tmp_path / "out" / "q").exists() or not output(tmp_path / "out" / "q")
