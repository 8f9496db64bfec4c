"""Joins of many streams, and without a common key, on Spark: several shards, kills, and orders that change."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from commands import Command
from pyspark.sql import SparkSession
from streams import Feed, Row, answers, assert_answers, assert_in_order, at, cut, declare

from headrace.spark.session import Engine, Run

pytestmark = pytest.mark.spark

COLUMNS = "x BIGINT, y STRING, v DOUBLE, ts TIMESTAMP"
TIMES = "a.ts AS a_ts, b.ts AS b_ts, c.ts AS c_ts"


def rows(seed: int, count: int, seconds: float, keys: int = 6, begin: float = 0) -> list[Row]:
    """Rows in time order, some at one time, with two keys and a value."""
    chance = random.Random(seed)
    times = sorted(round(begin + chance.random() * seconds, 1) for _ in range(count))
    return [
        {
            "x": chance.randrange(keys),
            "y": f"k{chance.randrange(keys)}",
            "v": round(chance.random() * 50, 1),
            "ts": at(t),
        }
        for t in times
    ]


def streams(tmp_path: Path, counts: tuple[int, ...], seconds: float, files: int = 4) -> tuple[dict[str, Feed], str]:
    """Streams a, b, c ... and the statements that declare them."""
    feeds, text = {}, ""
    for number, count in enumerate(counts):
        name = "abcdef"[number]
        feeds[name] = Feed(tmp_path / name)
        text += declare(name, feeds[name], COLUMNS, max_files_per_batch="1")
        feeds[name].add_all(cut(rows(number + 1, count, seconds), files))
    return feeds, text


QUERIES = f"""
CREATE QUERY common AS SELECT a.x, a.v, b.v AS bv, c.v AS cv, {TIMES} FROM a, b, c
  WHERE a.x = b.x AND b.x = c.x WINDOW 8 SECONDS;
CREATE QUERY common_far AS SELECT a.x, {TIMES} FROM c, a, b WHERE c.x = a.x AND a.x = b.x WINDOW 20 SECONDS;
CREATE QUERY chain AS SELECT a.x, b.y, {TIMES} FROM a JOIN b ON a.x = b.x JOIN c ON b.y = c.y
  WHERE a.v < c.v WINDOW 15 SECONDS;
CREATE QUERY triangle AS SELECT a.x, {TIMES} FROM a [RANGE 20 SECONDS], b [RANGE 9 SECONDS], c [ROWS 12]
  WHERE a.x = b.x AND b.y = c.y AND c.v > a.v - 20 AND a.y = c.y;
CREATE QUERY near AS SELECT a.v, b.v AS bv, a.ts AS a_ts, b.ts AS b_ts FROM a, b
  WHERE b.v BETWEEN a.v - 1 AND a.v + 1 WINDOW 10 SECONDS;
CREATE QUERY apart AS SELECT a.v, b.v AS bv, c.v AS cv, {TIMES} FROM a, b, c
  WHERE ABS(a.v - b.v) <= 5 AND NOT (b.v - c.v < 10) AND b.ts - c.ts < INTERVAL '2' SECOND WINDOW 6 SECONDS;
CREATE QUERY every AS SELECT {TIMES} FROM a, b, c WINDOW 1 SECOND;
"""


def run_once(spark: SparkSession, program: str, out: Path) -> Run:
    engine = Engine(spark)
    engine.sql(program)
    run = engine.start(out, once=True)
    assert run.wait(400)
    return run


@pytest.mark.parametrize("shards", [3, 4])
def test_joins_of_all_kinds_give_the_oracles_rows_in_order(spark: SparkSession, tmp_path: Path, shards: int) -> None:
    feeds, declared = streams(tmp_path, (120, 110, 100), 90)
    program = f"SET shards = {shards};{declared}{QUERIES}"
    out = tmp_path / "out"
    run = run_once(spark, program, out)
    expected = answers(program, {name: feed.rows for name, feed in feeds.items()})
    assert all(expected.values())
    assert_answers(out, expected)
    for query, columns in (("common", 3), ("chain", 3), ("apart", 3), ("every", 3), ("near", 2)):
        assert_in_order(out / query, slice(-columns, None))
    stats = run.stats()
    assert {one.query: one.results for one in stats.queries} == {query: len(rows) for query, rows in expected.items()}
    assert {one.stream for one in stats.orders if one.order[0] == one.stream} == {"a", "b", "c"}
    assert "hypercube of" in run.explain()
    assert "searched    b by (ts), (v)" in run.explain()


def test_a_join_without_an_equality_is_shared_out_over_four_cells(spark: SparkSession, tmp_path: Path) -> None:
    """Each cell holds half of either stream, and every pair is found in one of them."""
    feeds, declared = streams(tmp_path, (200, 200), 60)
    query = "CREATE QUERY q AS SELECT a.v, b.v AS w FROM a, b WHERE a.v < b.v WINDOW 5 MINUTES;"
    program = f"SET shards = 4;{declared}{query}"
    run = run_once(spark, program, tmp_path / "out")
    assert_answers(tmp_path / "out", answers(program, {name: feed.rows for name, feed in feeds.items()}))
    assert [one.held_tuples for one in run.stats().shards] == [200, 200, 200, 200]
    assert "hypercube of 2 x 2 cells: a dealt out over 2; b dealt out over 2" in run.explain()


def test_multi_way_joins_killed_and_started_again(tmp_path: Path) -> None:
    feeds, declared = streams(tmp_path, (120, 120, 120), 100, files=8)
    text = f"SET shards = 4; SET budget = '1500 probes'; SET block = '5 s';{declared}{QUERIES}"
    program, out = tmp_path / "program.sql", tmp_path / "out"
    program.write_text(text)
    for _ in range(2):
        done = len(list(out.glob("common/micro_batch=*")))
        with Command(program, out, "--once") as command:
            command.wait_for(lambda done=done: len(list(out.glob("common/micro_batch=*"))) >= done + 2)
            assert command.is_running, command.finish()
    with Command(program, out, "--once") as command:
        code, _, said = command.finish()
    assert (code, said) == (0, "")
    assert_answers(out, answers(text, {name: feed.rows for name, feed in feeds.items()}))


def swapping(seed: int, rates: tuple[int, int], keys: int) -> list[list[Row]]:
    """Rows of two halves of a minute each, with other rates, in files of ten seconds."""
    halves = [rows(seed + half, rate, 60, keys, begin=60 * half) for half, rate in enumerate(rates)]
    return [part for half in halves for part in cut(half, 6)]


def test_an_order_follows_rates_that_change_places(spark: SparkSession, tmp_path: Path) -> None:
    """New tuples of the hub b go to the slow stream first, whichever that is; the answers stay what they are."""
    feeds = {name: Feed(tmp_path / name) for name in "abc"}
    declared = "".join(declare(name, feeds[name], COLUMNS, max_files_per_batch="1") for name in "abc")
    for name, rates in (("a", (900, 30)), ("b", (240, 240)), ("c", (30, 900))):
        feeds[name].add_all(swapping(ord(name), rates, keys=10))
    query = "CREATE QUERY q AS SELECT a.x, b.y, c.v FROM a, b, c WHERE a.x = b.x AND b.y = c.y WINDOW 10 SECONDS;"
    program = f"SET shards = 2;{declared}{query}"
    run = run_once(spark, program, tmp_path / "out")
    assert_answers(tmp_path / "out", answers(program, {name: feed.rows for name, feed in feeds.items()}))
    switches = [one for one in run.stats().switches if "new tuples of b" in one]
    assert any("b, c, a instead of b, a, c" in one for one in switches)
    assert "b, a, c instead of b, c, a" in switches[-1]
    assert next(one.order for one in run.stats().orders if one.stream == "b") == ("b", "a", "c")


def test_a_heavy_key_is_split_over_the_cells_also_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """Nine tuples of ten have one key: without splitting one of four shards would hold them all."""
    chance = random.Random(4)
    feeds = {name: Feed(tmp_path / name) for name in "ab"}
    declared = "".join(declare(name, feeds[name], COLUMNS, max_files_per_batch="1") for name in "ab")
    query = "CREATE QUERY q AS SELECT a.x, a.ts AS a_ts, b.ts AS b_ts FROM a, b WHERE a.x = b.x WINDOW 2 SECONDS;"
    program = f"SET shards = 4;{declared}{query}"
    said = []
    for half in range(2):
        for name, feed in feeds.items():
            some = rows(ord(name) + half, 2400, 2400, 50, begin=2400 * half)
            feed.add_all(cut([{**row, "x": 5} if chance.random() < 0.9 else row for row in some], 2))
        run = run_once(spark, program, tmp_path / "out")
        said += run.stats().switches
    assert_answers(tmp_path / "out", answers(program, {name: feed.rows for name, feed in feeds.items()}))
    assert [one for one in said if "of its tuples is split over 4 cells" in one]
    assert "heavy key: " in run.explain()


@pytest.mark.parametrize("method", ["eager", "lazy", "general", "naive"])
def test_every_method_gives_the_same_rows(spark: SparkSession, tmp_path: Path, method: str) -> None:
    feeds, declared = streams(tmp_path, (60, 60, 60), 60, files=2)
    lazily = "SET reevaluate = '7 seconds'; SET expire = '5 seconds';" if method in ("lazy", "general") else ""
    program = f"SET shards = 2; SET join_method = '{method}';{lazily}{declared}{QUERIES}"
    run_once(spark, program, tmp_path / "out")
    assert_answers(tmp_path / "out", answers(program, {name: feed.rows for name, feed in feeds.items()}))
