"""Going on from a checkpoint: with more input, with other queries, without the cache; and when it must be refused."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from streams import Feed, answers, assert_answers, cut, declare, output, published, readings

from headrace.errors import HeadraceError, SinkError, StateError
from headrace.spark.session import Engine, Run

pytestmark = pytest.mark.spark


def query(name: str, window_s: int, condition: str = "a.value > 20", columns: str = "a.value, b.value AS h") -> str:
    return (
        f"CREATE QUERY {name} AS SELECT {columns} FROM temperature a, humidity b "
        f"WHERE a.location_id = b.location_id AND {condition} WINDOW {window_s} s;"
    )


class Place:
    """Two feeds, a checkpoint and an output directory."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.a = Feed(directory / "a")
        self.b = Feed(directory / "b")
        self.out = directory / "out"
        self.cache = directory / "cache"
        self.streams = declare("temperature", self.a, max_files_per_batch="1") + declare(
            "humidity", self.b, max_files_per_batch="1"
        )
        self.left = cut(readings(1, 240, 240), 6)
        self.right = cut(readings(2, 240, 240), 6)

    def engine(self, queries: str, settings: str = "") -> Engine:
        engine = Engine(self.spark)
        engine.sql(f"SET cache_dir = '{self.cache}';{settings}{self.streams}{queries}")
        return engine

    def once(self, queries: str, settings: str = "") -> Run:
        run = self.engine(queries, settings).start(self.out, once=True)
        assert run.wait(400)
        assert not list(self.cache.glob("*/*"))
        assert not (self.out / "_staging").exists()
        return run

    def feed(self, files: slice) -> None:
        self.a.add_all(self.left[files])
        self.b.add_all(self.right[files])

    def answers(self, queries: str) -> dict[str, list[tuple[object, ...]]]:
        return answers(self.streams + queries, {"temperature": self.a.rows, "humidity": self.b.rows})


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(spark, tmp_path)


@pytest.mark.parametrize("settings", ["", "SET cache_memory = '1 b';"], ids=["cache", "tiny_cache"])
def test_later_files_join_with_what_the_windows_hold(place: Place, settings: str) -> None:
    queries = query("near", 3) + query("far", 90) + query("hot", 30, "a.value > 60")
    for files in (slice(0, 2), slice(2, 5), slice(5, 6)):
        place.feed(files)
        place.once(queries, settings)
        assert_answers(place.out, place.answers(queries))
    assert place.once(queries, settings).stats().queries[0].results == 0
    assert_answers(place.out, place.answers(queries))


def test_following_run_stopped_and_gone_on_with(place: Place) -> None:
    queries = query("far", 90)
    place.feed(slice(0, 2))
    run = place.engine(queries).start(place.out)
    while run.stats().batches < 2:
        assert not run.wait(0.2)
    with pytest.raises(StateError, match="another run is using the checkpoint"):
        place.engine(queries).start(place.out)
    place.feed(slice(2, 4))
    while run.stats().batches < 4:
        assert not run.wait(0.2)
    run.stop()
    assert not run.is_active
    assert not list(place.cache.glob("*/*"))
    place.feed(slice(4, 6))
    place.once(queries)
    assert_answers(place.out, place.answers(queries))


def test_queries_added_dropped_and_changed(place: Place) -> None:
    place.feed(slice(0, 3))
    place.once(query("stays", 60) + query("goes", 30) + query("changes", 30, "a.value > 70"))
    before = {name: output(place.out / name) for name in ("stays", "goes", "changes")}
    place.feed(slice(3, 6))
    later = query("stays", 60) + query("changes", 30, "a.value > 40") + query("comes", 40, columns="a.value, b.ts")
    place.once(later)
    expected = place.answers(later)
    assert_answers(place.out, {"stays": expected["stays"]})
    assert output(place.out / "goes") == before["goes"]
    # What was released stays; what comes now is of the new queries: all of it where every tuple is new, and nothing
    # that the oracle does not have.
    begin = place.left[3][0]["ts"]
    for name in ("changes", "comes"):
        came = output(place.out / name)[len(before.get(name, [])) :]
        whole = answers(
            place.streams + later,
            {
                "temperature": [row for row in place.a.rows if row["ts"] >= begin],
                "humidity": [row for row in place.b.rows if row["ts"] >= begin],
            },
        )[name]
        assert came
        assert Counter(whole) <= Counter(came) <= Counter(expected[name])


def test_what_does_not_fit_the_checkpoint_is_refused(place: Place, tmp_path: Path) -> None:
    place.feed(slice(0, 1))
    queries = query("q", 10)
    place.once(queries)
    before = output(place.out / "q")
    with pytest.raises(StateError, match=r"made with 2 shards, not 3: write SET shards = 2"):
        place.engine(queries, "SET shards = 3;").start(place.out)
    more = declare("wind", Feed(tmp_path / "wind"))
    with pytest.raises(
        StateError, match=r"reads the streams temperature \(.*; humidity \(.*This program declares wind \("
    ):
        place.engine(queries, more).start(place.out)
    other_type = Engine(place.spark)
    other_type.sql(f"{place.streams.replace('value DOUBLE', 'value DECIMAL(10, 2)')}{queries}")
    with pytest.raises(HeadraceError, match=r"DECIMAL\(10, 2\)"):
        other_type.start(place.out)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(StateError, match="not a checkpoint of Headrace: give --checkpoint another directory"):
        place.engine(queries).start(tmp_path / "out2", checkpoint=tmp_path / "other")
    (tmp_path / "other" / "headrace.json").write_text('{"program": "other"}')
    with pytest.raises(StateError, match="was not written by Headrace"):
        place.engine(queries).start(tmp_path / "out2", checkpoint=tmp_path / "other")
    (tmp_path / "other" / "headrace.json").write_text("{")
    with pytest.raises(StateError, match="cannot be read"):
        place.engine(queries).start(tmp_path / "out2", checkpoint=tmp_path / "other")
    with pytest.raises(SinkError, match="has results of another run in it"):
        place.engine(queries).start(place.out, checkpoint=tmp_path / "fresh")
    assert output(place.out / "q") == before


def test_checkpoint_that_was_only_begun_is_gone_on_with(place: Place) -> None:
    place.feed(slice(0, 1))
    queries = query("q", 10)
    place.once(queries)
    for name in ("spark", "control"):
        shutil.rmtree(place.out / "_checkpoint" / name)
    shutil.rmtree(place.out / "q")
    place.once(queries)
    assert_answers(place.out, place.answers(queries))


def test_failure_after_publishing_doubles_nothing(place: Place) -> None:
    place.feed(slice(0, 4))
    queries = query("kept", 60) + query("called", 60)
    failing = [True]

    def callback(_query: str, _rows: DataFrame, batch: int) -> None:
        if batch == 2 and failing.pop():
            raise RuntimeError("the sink is down")

    engine = place.engine(queries)
    engine.sink("called", callback)
    run = engine.start(place.out, once=True)
    with pytest.raises(HeadraceError, match="the sink is down"):
        run.wait(400)
    assert not run.is_active
    at_failure = published(place.out / "kept")
    names = [path.name for path in sorted((place.out / "kept").glob("micro_batch=*"))]
    assert names[-1] == "micro_batch=000000002"
    files = {file: file.stat().st_ino for file in (place.out / "kept").rglob("*.parquet")}
    failing.append(False)
    again = place.engine(queries)
    again.sink("called", callback)
    assert again.start(place.out, once=True).wait(400)
    assert published(place.out / "kept")[: len(at_failure)] == at_failure
    assert all(file.stat().st_ino == number for file, number in files.items())
    assert_answers(place.out, {"kept": place.answers(queries)["kept"]})
