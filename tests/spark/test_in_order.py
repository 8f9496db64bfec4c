"""Streams that lag, stop and resume on real Spark: order, idle streams, lagging partitions, results on hold."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Command
from pyspark.sql import SparkSession
from streams import (
    Feed,
    Row,
    answers,
    assert_answers,
    assert_in_order,
    at,
    cut,
    dead_letters,
    declare,
    output,
    readings,
)

from headrace import Engine, Run

pytestmark = pytest.mark.spark

THREE = (
    "SELECT a.location_id, a.ts AS a_ts, b.ts AS b_ts, c.ts AS c_ts FROM a, b, c "
    "WHERE a.location_id = b.location_id AND b.location_id = c.location_id WINDOW 6 s"
)
KEYS = "a.location_id = b.location_id AND b.location_id = c.location_id"
SAME = THREE.replace(KEYS, "a.location_id + 1 = b.location_id + 1 AND b.location_id + 1 = c.location_id + 1")
"""The same answer by a join of its own."""
BOTH = "SET ordering = 'sync-filter, three = filter-order';"
"""Three's join goes ahead, the same one's and others' tuples wait: both forms in one run."""
TWO = "SELECT a.location_id, a.ts AS a_ts, b.ts AS b_ts FROM a, b WHERE a.location_id = b.location_id WINDOW 6 s"


def until(run: Run, is_so: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert not run.wait(0.1), "the run has ended"
        assert time.monotonic() < deadline, run.stats()


HELD_BYTES = 200_000
"""For the results that wait in these tests: some 500 of about 170 bytes."""
FILE_ROWS = 30
HELD_TUPLES = 5 * FILE_ROWS * 3 // 2
"""Where nobody waits: about the last file of each input that goes on, in two joins of a, b, c and one of a, c: a file
is longer than the window, and tuples that came or waited together leave together."""


def held_tuples(run: Run) -> int:
    return sum(one.held_tuples + one.waiting_tuples for one in run.stats().shards)


def taken(run: Run) -> int:
    return sum(one.tuples for one in run.stats().streams)


def came(inputs: dict[str, Feed]) -> int:
    return sum(len(feed.rows) for feed in inputs.values())


def steady(seed: int, begin: int, seconds: int) -> list[Row]:
    """Three rows a second, of few keys."""
    return readings(seed, 3 * seconds, seconds, keys=4, begin=begin)


def feeds(directory: Path, *names: str) -> dict[str, Feed]:
    return {name: Feed(directory / name) for name in names}


def started(spark: SparkSession, out: Path, program: str) -> Run:
    engine = Engine(spark)
    engine.sql(program)
    return engine.start(out)


def known(rows: list[tuple[Any, ...]], until_s: float) -> list[tuple[Any, ...]]:
    """The results whose newest tuple is before a time."""
    return [row for row in rows if max(row[1:]) < at(until_s)]


def test_output_waits_for_a_stream_that_stops_and_comes_when_it_resumes(spark: SparkSession, tmp_path: Path) -> None:
    """One of three stops: nothing is released that may be wrong, the statistics say for whom, and nothing is lost."""
    inputs, out = feeds(tmp_path, "a", "b", "c"), tmp_path / "out"
    program = f"SET shards = 2; {BOTH} SET hold_memory = '1 kB';" + "".join(
        declare(name, feed) for name, feed in inputs.items()
    )
    program += f"CREATE QUERY three AS {THREE}; CREATE QUERY same AS {SAME}; CREATE QUERY two AS {TWO};"
    for seed, feed in enumerate(inputs.values()):
        feed.add(steady(seed, 0, 10))
    run = started(spark, out, program)
    try:
        until(run, lambda: bool(output(out / "three")))
        for begin in (10, 20, 30):
            for seed, name in enumerate("ab"):
                inputs[name].add(steady(seed + begin, begin, 10))
        until(run, lambda: max(row[1] for row in output(out / "two")) > at(38))
        told = [one for one in run.stats().ordering if one.group.startswith("a x b x c")]
        assert {one.waits_for for one in told} == {("c",)}
        assert {one.approach: one.held_results > 0 for one in told} == {"sync-filter": False, "filter-order": True}
        assert max(max(one.held_bytes, one.open_bytes) for one in told) <= HELD_BYTES
        (lagging,) = [one for one in run.stats().streams if one.stream == "c"]
        assert lagging.behind_ms is not None
        assert 25_000 < lagging.behind_ms < 40_000
        assert "output waits for c" in run.explain()
        for query in ("three", "same"):
            assert max(max(row[1:]) for row in output(out / query)) <= max(row["ts"] for row in inputs["c"].rows)
        inputs["c"].add(steady(9, 10, 30))
        for seed, feed in enumerate(inputs.values()):
            feed.add(steady(seed + 60, 100, 1))
        expected = answers(program, {name: feed.rows for name, feed in inputs.items()})
        until(run, lambda: all(len(known(output(out / one), 60)) >= len(known(expected[one], 60)) for one in expected))
    finally:
        run.stop()
    assert known(expected["three"], 60)
    for query, rows in expected.items():
        assert Counter(known(output(out / query), 60)) == Counter(known(rows, 60))
        assert_in_order(out / query, slice(1, None))
    assert dead_letters(out) == []


def test_a_stream_is_passed_over_after_its_idle_timeout(spark: SparkSession, tmp_path: Path) -> None:
    """One stops for 30 s: the others' results go on in order, also when nothing comes at all, and what is held does not
    grow; what comes later from before is late."""
    inputs, out = feeds(tmp_path, "a", "b", "c"), tmp_path / "out"
    program = f"SET shards = 2; {BOTH}" + "".join(
        declare(name, feed, max_files_per_batch="1", **({"idle_timeout": "1 second"} if name == "c" else {}))
        for name, feed in inputs.items()
    )
    program += f"CREATE QUERY three AS {THREE}; CREATE QUERY same AS {SAME};"
    program += f"CREATE QUERY two AS {TWO.replace('FROM a, b', 'FROM a, c b')};"
    for seed, feed in enumerate(inputs.values()):
        feed.add(steady(seed, 0, 10))
    run = started(spark, out, program)
    try:
        until(run, lambda: bool(output(out / "three")))
        for begin in (10, 20, 30):
            for seed, name in enumerate("ab"):
                inputs[name].add(steady(seed + begin, begin, 10))
        expected = answers(program, {name: feed.rows for name, feed in inputs.items()})
        least = min(max(row["ts"] for row in inputs[name].rows) for name in "ab")
        whole = [row for row in expected["three"] if max(row[1:]) < least]
        assert any(max(row[1:]) > max(one["ts"] for one in inputs["c"].rows) for row in whole)
        until(run, lambda: all(len(output(out / one)) >= len(whole) for one in ("three", "same")))
        until(run, lambda: any(one.is_idle for one in run.stats().streams if one.stream == "c"))
        for begin in (40, 50):
            for seed, name in enumerate("ab"):
                inputs[name].add(steady(seed + begin, begin, 10))
            until(run, lambda: taken(run) == came(inputs))
        until(run, lambda: held_tuples(run) <= HELD_TUPLES)
        assert sum(one.held_bytes for one in run.stats().ordering) <= HELD_BYTES
        assert any("c is idle" in one for one in run.stats().switches)
        late = inputs["c"].add(steady(33, 5, 6)) and inputs["c"].rows[-18:]
        until(run, lambda: sum(one.late for one in run.stats().streams) == len(late))
    finally:
        run.stop()
    for query in ("three", "same"):
        assert Counter(row for row in output(out / query) if max(row[1:]) < least) == Counter(whole)
        assert_in_order(out / query, slice(1, None))
    assert {one["reason"] for one in dead_letters(out)} == {"late"}
    assert len(dead_letters(out)) == len(late)
    assert Counter(one["row"]["value"] for one in dead_letters(out)) == Counter(row["value"] for row in late)


def test_partitions_of_a_stream_that_lag_by_twenty_seconds_stay_in_order(spark: SparkSession, tmp_path: Path) -> None:
    inputs, out = feeds(tmp_path, "a", "b"), tmp_path / "out"
    parted = "location_id BIGINT, value DOUBLE, gateway STRING, ts TIMESTAMP"
    program = (
        "SET shards = 2;"
        + declare("a", inputs["a"], parted, partition="gateway", partitions="2", max_files_per_batch="1")
        + declare("b", inputs["b"], max_files_per_batch="1")
        + f"CREATE QUERY two AS {TWO}; CREATE QUERY one AS SELECT a.gateway, a.ts FROM a;"
    )
    east = [{**row, "gateway": "east"} for row in steady(1, 20, 40)]
    west = [{**row, "gateway": "west"} for row in steady(2, 0, 40)]
    for fast, slow in zip(cut(east, 3), cut(west, 3), strict=True):
        both = [*fast, *slow]
        inputs["a"].add([{name: row[name] for name in ("location_id", "value", "gateway", "ts")} for row in both])
    inputs["b"].add_all(cut(steady(3, 0, 60), 3))
    engine = Engine(spark)
    engine.sql(program)
    assert "2 partitions by gateway" in engine.explain()
    assert engine.start(out, once=True).wait(400)
    assert dead_letters(out) == []
    expected = answers(program, {name: feed.rows for name, feed in inputs.items()})
    assert len(expected["one"]) == len(east) + len(west)
    assert_answers(out, expected)
    assert_in_order(out / "two", slice(1, None))
    assert_in_order(out / "one", 1)


def test_rows_of_emit_early_come_at_once_and_are_marked(spark: SparkSession, tmp_path: Path) -> None:
    inputs, out = feeds(tmp_path, "a", "b", "c"), tmp_path / "out"
    program = "SET shards = 2;" + "".join(declare(name, feed) for name, feed in inputs.items())
    program += f"CREATE QUERY ordered AS {THREE}; CREATE QUERY soon AS {THREE} EMIT EARLY;"
    for seed, feed in enumerate(inputs.values()):
        feed.add(steady(seed, 0, 10))
    inputs["a"].add(steady(5, 10, 4))
    inputs["b"].add(steady(6, 10, 4))
    expected = answers(program, {name: feed.rows for name, feed in inputs.items()})
    run = started(spark, out, program)
    try:
        until(run, lambda: len(output(out / "soon")) == len(expected["soon"]))
        assert len(output(out / "ordered")) < len(expected["ordered"])
    finally:
        run.stop()
    marks = Counter(row[-1] for row in output(out / "soon"))
    assert marks[True] > 0
    assert Counter(row[:-1] for row in output(out / "soon")) == Counter(row[:-1] for row in expected["soon"])


def test_killed_with_results_on_hold_and_started_again(tmp_path: Path) -> None:
    """What was held is held still, each row comes once, and in order."""
    inputs, out = feeds(tmp_path, "a", "b"), tmp_path / "out"
    text = "SET shards = 2; SET ordering = 'filter-order';" + "".join(
        declare(name, feed, max_files_per_batch="1") for name, feed in inputs.items()
    )
    program = tmp_path / "program.sql"
    program.write_text(f"{text} CREATE QUERY two AS {TWO};")
    inputs["a"].add_all(cut(steady(1, 0, 60), 6))
    inputs["b"].add_all(cut(steady(2, 0, 12), 2))
    commits = out / "_checkpoint" / "spark" / "commits"
    with Command(program, out) as command:
        assert command.wait_for(lambda: len(list(commits.glob("[0-9]*"))) >= 6)
    before = output(out / "two")
    assert before
    inputs["b"].add_all(cut(steady(3, 12, 48), 4))
    with Command(program, out, "--once") as command:
        code, _, said = command.finish()
    assert (code, said) == (0, "")
    expected = answers(program.read_text(), {name: feed.rows for name, feed in inputs.items()})
    assert output(out / "two")[: len(before)] == before
    assert_answers(out, expected)
    assert_in_order(out / "two", slice(1, None))
