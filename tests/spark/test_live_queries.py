"""Queries that come and go while the pipeline runs; the others do not notice."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from streams import answers, assert_answers, output, readings
from test_scheduling import SAME, SELECTED, feeds, streams, until, windows

from headrace import Engine, HeadraceError

pytestmark = pytest.mark.spark


def query(name: str, window: str, condition: str = "TRUE") -> str:
    return f"CREATE QUERY {name} AS {SELECTED} temperature a, humidity b WHERE {SAME} AND {condition} WINDOW {window};"


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "headrace", *arguments], capture_output=True, text=True, timeout=300)


def test_added_and_dropped_queries_leave_the_others_alone(spark: SparkSession, tmp_path: Path) -> None:
    both, out = feeds(tmp_path, files=2), tmp_path / "out"
    program = f"SET shards = 2; SET budget = '200 probes'; SET block = '10 s'; {streams(both)} {windows(5, 40)}"
    engine = Engine(spark)
    engine.sql(program)
    run = engine.start(out)
    until(run, lambda: sum(one.tuples for one in run.stats().streams) == 400)
    run.add(query("wide", "80 s", "a.value > 10"))
    assert "wide (80 seconds)" in run.explain()
    for seed, feed in enumerate(both.values()):
        feed.add(readings(seed + 10, 100, 40, begin=100))
    until(run, lambda: any(one.query == "wide" and one.results for one in run.stats().queries))
    run.drop("wide")
    file = tmp_path / "more.sql"
    file.write_text(query("small", "2 s"))
    assert command("add", str(file), "--out", str(out)).returncode == 0
    assert command("drop", "small", "--out", str(out)).returncode == 0
    refused = command("drop", "nobody", "--out", str(out))
    assert (refused.returncode, "there is no query nobody" in refused.stderr) == (2, True)
    for seed, feed in enumerate(both.values()):
        feed.add(readings(seed + 20, 100, 40, begin=140))
    until(run, lambda: sum(one.tuples for one in run.stats().streams) == 800)
    assert [one.query for one in run.stats().queries] == ["q5", "q40"]
    run.stop()
    again = Engine(spark)
    again.sql(program)
    assert again.start(out, once=True).wait(400)
    arrivals = {name: feed.rows for name, feed in both.items()}
    assert_answers(out, answers(program, arrivals))
    everything = answers(f"{streams(both)} {query('wide', '80 s', 'a.value > 10')}", arrivals)
    got = Counter(output(out / "wide"))
    assert got
    assert got <= Counter(everything["wide"])


def test_a_query_added_live_is_there_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    both, out = feeds(tmp_path, files=1), tmp_path / "out"
    program = f"SET shards = 2; {streams(both)} {windows(5)}"
    engine = Engine(spark)
    engine.sql(program)
    run = engine.start(out)
    run.add(query("later", "9 s"))
    with pytest.raises(HeadraceError, match="there is a query later already"):
        run.add(query("later", "9 s"))
    run.stop()
    for seed, feed in enumerate(both.values()):
        feed.add(readings(seed + 10, 100, 40, begin=100))
    again = Engine(spark)
    again.sql(program)
    rerun = again.start(out, once=True)
    assert rerun.wait(400)
    assert "later" in rerun.explain()
    assert output(out / "later")
    once_more = Engine(spark)
    once_more.sql(program)
    forgetful = once_more.start(out, once=True, forget_changes=True)
    assert "later" not in forgetful.explain()
    assert forgetful.wait(400)


def test_a_paused_query_stays_paused_after_a_restart_and_goes_on_when_it_is_resumed(
    spark: SparkSession, tmp_path: Path
) -> None:
    both, out = feeds(tmp_path, files=1), tmp_path / "out"
    program = f"SET shards = 2; {streams(both)} {windows(5, 40)}"
    engine = Engine(spark)
    engine.sql(program)
    run = engine.start(out)
    until(run, lambda: any(one.query == "q40" and one.results for one in run.stats().queries))
    run.pause("Q40")
    assert "q40" not in run.explain()
    run.stop()
    before = output(out / "q40")
    for seed, feed in enumerate(both.values()):
        feed.add(readings(seed + 10, 100, 40, begin=100))
    again = Engine(spark)
    again.sql(program)
    rerun = again.start(out)
    assert [one.name for one in rerun.queries.paused] == ["q40"]
    until(rerun, lambda: sum(one.tuples for one in rerun.stats().streams) == 200)
    assert output(out / "q40") == before
    rerun.resume("q40")
    assert rerun.queries.paused == ()
    for seed, feed in enumerate(both.values()):
        feed.add(readings(seed + 20, 100, 40, begin=140))
    until(rerun, lambda: any(one.query == "q40" and one.results for one in rerun.stats().queries))
    told = rerun.stats()
    assert told.spark is not None
    assert told.spark.input_rows > 0
    assert all(one.lag_ms for one in told.streams)
    rerun.stop()
    assert not (out / "_checkpoint" / "changes.jsonl").read_text().strip()
    everything = answers(program, {name: feed.rows for name, feed in both.items()})
    assert Counter(output(out / "q40")) <= Counter(everything["q40"])


def test_changes_that_many_ask_for_at_once_are_made_together(spark: SparkSession, tmp_path: Path) -> None:
    both, out = feeds(tmp_path, files=1), tmp_path / "out"
    engine = Engine(spark)
    engine.sql(f"SET shards = 2; {streams(both)} {windows(5)}")
    run = engine.start(out)
    until(run, lambda: run.stats().batches > 0)
    before = run.stats().batches
    with ThreadPoolExecutor(20) as askers:
        list(askers.map(lambda number: run.add(query(f"guest{number}", f"{20 + number} s")), range(20)))
        assert len(run.queries.running) == 21
        outcomes = list(askers.map(lambda _: _refused(lambda: run.drop("guest0")), range(5)))
    assert sorted(outcomes) == ["", *["there is no query guest0"] * 4]
    assert run.stats().batches - before < 20
    run.stop()


def _refused(work: Callable[[], None]) -> str:
    try:
        work()
    except HeadraceError as error:
        return str(error).partition(":")[0]
    return ""


def test_many_changes_leave_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    both, out = feeds(tmp_path, files=1), tmp_path / "out"
    engine = Engine(spark)
    engine.sql(f"SET shards = 2; {streams(both)} {windows(5)}")
    run = engine.start(out)
    until(run, lambda: run.stats().batches > 0)
    began = time.monotonic()
    for number in range(20):
        run.add(query(f"guest{number}", f"{20 + number} s"))
        run.drop(f"guest{number}")
    spent_s = time.monotonic() - began
    checkpoint = out / "_checkpoint"
    until(run, lambda: len(list((checkpoint / "control").iterdir())) <= 4)
    # At rest there is one of each kind; where a micro-batch is about to begin, also that of the next.
    until(run, lambda: max(Counter(path.suffix for path in (checkpoint / "orders").iterdir()).values()) <= 2)
    assert [one.query for one in run.stats().queries] == ["q5"]
    assert sum(shard.held_tuples for shard in run.stats().shards) <= 400
    assert run.is_active
    run.stop()
    print(f"40 changes in {spent_s:.1f} s")
