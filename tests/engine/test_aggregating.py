"""A class's aggregates in one shard or over several: windows and queries that come live, and what is stored while they
wait."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest
from local_host import LocalHost, Store

from headrace.engine.events import Effect, KeepSegment
from headrace.engine.shard import ShardOptions
from headrace.sql import read_script

SECOND_US = 1_000_000
STREAM = "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (connector = 'generator');"


def counting(name: str, window: str) -> str:
    return f"CREATE QUERY {name} AS SELECT COUNT(DISTINCT k) AS d, COUNT(*) AS n FROM a WINDOW {window};"


def rows(tuples: list[tuple[int, int]]) -> dict[str, pa.RecordBatch]:
    """Keys and times of stream a."""
    keys, times = zip(*tuples, strict=True)
    arrays = [pa.array(keys), pa.array(times).cast(pa.timestamp("us", "UTC"))]
    return {"a": pa.RecordBatch.from_arrays(arrays, names=["k", "ts"])}


def drawn(draw: random.Random, batches: int) -> list[list[tuple[int, int]]]:
    """Micro-batches of keys and rising times: few tuples or many, so that panes are merged now and then."""
    now_us, made = 0, []
    for _ in range(batches):
        batch = []
        for _ in range(draw.choice([1, 2, 3, 8, 20])):
            now_us += draw.choice([100_000, 300_000, 700_000])
            batch.append((draw.randrange(6), now_us))
        made.append(batch)
    return made


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("shards", "restoring"), [(1, False), (1, True), (3, False)])
def test_a_larger_window_that_comes_live_begins_with_all_that_the_others_have(
    seed: int, shards: int, restoring: bool
) -> None:
    alone = read_script(STREAM + counting("small", "2 s"))
    both = read_script(STREAM + counting("small", "2 s") + counting("large", "100 s"))
    host = LocalHost(alone.catalog, alone.queries, shards=shards, restoring=restoring)
    batches = drawn(random.Random(seed), 14)
    held_us = 0
    for number, batch in enumerate(batches):
        if number == 11:
            held_us = host.evaluated["small"][-1] - 2 * SECOND_US
            host.change(both.catalog, both.queries)
        host.arrive(rows(batch))
    tuples = [one for batch in batches for one in batch]
    given = host.rows("large")
    assert given
    for row in given:
        now_us = round(row["ts"].timestamp() * SECOND_US)  # type: ignore[attr-defined]
        keys = [key for key, ts_us in tuples if held_us <= ts_us <= now_us]
        assert (row["d"], row["n"]) == (len(set(keys)), len(keys))


@pytest.mark.parametrize("shards", [1, 3])
def test_a_window_that_comes_live_counts_no_tuple_that_it_does_not_reach(shards: int) -> None:
    """Panes of the others are as exact as their evaluation needs it: 5 s; the new window's end lies within one."""
    alone = read_script(STREAM + counting("even", "10 s"))
    both = read_script(STREAM + counting("even", "10 s") + counting("odd", "7 s"))
    options = ShardOptions(reevaluate_us=5 * SECOND_US)
    host = LocalHost(alone.catalog, alone.queries, shards=shards, options=options)
    tuples = [(second, second * SECOND_US) for second in range(1, 31)]
    for number in range(0, 30, 3):
        if number == 12:
            host.change(both.catalog, both.queries)
        host.arrive(rows(tuples[number : number + 3]))
    counts = [(row["ts"].second, row["n"]) for row in host.rows("odd")]  # type: ignore[attr-defined]
    assert counts == [(10, 6), (20, 8)]  # from 5 on instead of 3, from 10 on instead of 8; then from 13 on, as it stays
    assert [row["n"] for row in host.rows("even")] == [5, 10, 11]


# --- queries that come live, beside one that runs: with a tuple a second, the values of both stay as they are


OLD = "old AS SELECT COUNT(*) AS n, COUNT(DISTINCT k) AS d FROM a WINDOW 5 s"
TENFOLD = OLD.replace("old AS SELECT COUNT(*)", "new AS SELECT COUNT(*) * 10")
SAME = OLD.replace("old", "new")
SHORT = SAME.replace("5 s", "3 s")
OFTEN, NEVER = (SAME.replace("WINDOW", f"HAVING COUNT(*) > {more} WINDOW") for more in (3, 6))
EVERY = ShardOptions(reevaluate_us=SECOND_US)
SHARDS = [(1, False), (1, True), (3, False), (3, True)]


class Seconds:
    """A host that one tuple a second comes to, some in each micro-batch."""

    def __init__(self, options: ShardOptions, shards: int, *, restoring: bool, at_once: int = 2) -> None:
        script = read_script(f"{STREAM}CREATE QUERY {OLD};")
        self.host = LocalHost(script.catalog, script.queries, shards=shards, options=options, restoring=restoring)
        self._at_once, self._now = at_once, 0

    def change(self, *texts: str) -> None:
        script = read_script(STREAM + "".join(f"CREATE QUERY {text};" for text in texts))
        self.host.change(script.catalog, script.queries)

    def pass_by(self, batches: int) -> None:
        for _ in range(batches):
            seconds = range(self._now, self._now + self._at_once)
            self.host.arrive(rows([(7, second * SECOND_US) for second in seconds]))
            self._now += self._at_once

    def got(self, name: str) -> list[tuple[int, int, int]]:
        """Second, count and distinct count of each row."""
        found = self.host.rows(name)
        return [(row["ts"].second, row["n"], row["d"]) for row in found]  # type: ignore[attr-defined,misc]


@pytest.mark.parametrize(("text", "count"), [(TENFOLD, 60), (SAME, 6), (SHORT, 4), (OFTEN, 6), (NEVER, None)])
@pytest.mark.parametrize(("shards", "restoring"), SHARDS)
def test_a_query_that_comes_live_begins_with_rows_of_groups_that_do_not_change(
    shards: int, restoring: bool, text: str, count: int | None
) -> None:
    seconds = Seconds(EVERY, shards, restoring=restoring)
    seconds.pass_by(6)
    before = seconds.got("old")
    seconds.change(OLD, text)
    seconds.pass_by(4)
    assert seconds.got("new") == ([] if count is None else [(11, count, 1)])
    assert seconds.got("old") == before
    assert before[-1] == (5, 6, 1)


@pytest.mark.parametrize(("text", "count"), [(TENFOLD, 50), (SAME, 5), (SHORT, 3), (OFTEN, 5), (NEVER, None)])
@pytest.mark.parametrize(("shards", "restoring"), SHARDS)
def test_a_query_that_comes_live_begins_when_the_next_micro_batch_is_evaluated(
    shards: int, restoring: bool, text: str, count: int | None
) -> None:
    """That is just before its newest tuple, when one tuple less is there than at a full second."""
    seconds = Seconds(ShardOptions(), shards, restoring=restoring)
    seconds.pass_by(6)
    before = seconds.got("old")
    seconds.change(OLD, text)
    seconds.pass_by(4)
    assert seconds.got("new") == ([] if count is None else [(12, count, 1)])
    assert seconds.got("old") == before


@pytest.mark.parametrize(("text", "counts"), [(TENFOLD, (60, 50)), (SAME, (6, 5)), (SHORT, (4, 3)), (OFTEN, (6, 5))])
@pytest.mark.parametrize(("shards", "restoring"), SHARDS)
def test_a_query_that_comes_live_has_no_values_of_a_part_of_what_is_there(
    shards: int, restoring: bool, text: str, counts: tuple[int, int]
) -> None:
    """Evaluated at all changes: a tuple comes at each full second, and another leaves just after it."""
    seconds = Seconds(ShardOptions(is_eager=True), shards, restoring=restoring)
    seconds.pass_by(6)
    seconds.change(OLD, text)
    seconds.pass_by(4)
    assert seconds.got("new") == [(second, count, 1) for second in range(11, 19) for count in counts]


@pytest.mark.parametrize(("shards", "restoring"), SHARDS)
def test_a_query_that_is_dropped_and_comes_again_is_new(shards: int, restoring: bool) -> None:
    seconds = Seconds(EVERY, shards, restoring=restoring, at_once=1)
    for _ in range(2):
        seconds.pass_by(10)
        seconds.change(OLD, TENFOLD)
        seconds.pass_by(10)
        seconds.change(OLD)
    assert seconds.got("new") == [(9, 60, 1), (29, 60, 1)]


@pytest.mark.parametrize("shards", [1, 3])
def test_another_query_of_the_same_name_is_new(shards: int) -> None:
    seconds = Seconds(EVERY, shards, restoring=False, at_once=1)
    seconds.pass_by(10)
    seconds.change(OLD.replace("COUNT(*) AS n", "COUNT(*) + 1 AS n"))
    seconds.pass_by(10)
    assert seconds.got("old")[-2:] == [(5, 6, 1), (9, 7, 1)]


@pytest.mark.parametrize("shards", [1, 3])
def test_a_state_that_does_not_say_which_queries_have_begun_goes_on_with_all(shards: int) -> None:
    removed: list[object] = []

    class Older(LocalHost):
        def _told(self) -> tuple[list[bytes], bytes]:
            manifests, combined = super()._told()
            return [without_begun(one) for one in manifests], without_begun(combined)

    def without_begun(manifest: bytes) -> bytes:
        told = json.loads(manifest)
        folds = [one for group in told.get("groups", {}).values() for one in group["folds"].values()]
        for fold in [*folds, *(one for *_, one in told.get("folds", ()))]:
            removed.append(fold.pop("begun"))
        return json.dumps(told).encode()

    script = read_script(f"{STREAM}CREATE QUERY {OLD};")
    host = Older(script.catalog, script.queries, shards=shards, restoring=True)
    for second in range(20):
        host.arrive(rows([(7, second * SECOND_US)]))
    assert [row["n"] for row in host.rows("old")] == [1, 2, 3, 4, 5]
    assert any(removed)


# --- what is stored


def test_what_waits_for_its_evaluation_is_stored_once() -> None:
    """An hour between evaluations: micro-batches store what they bring, and those that bring nothing store nothing."""
    script = read_script(STREAM + counting("lazy", "1 hour"))
    host = Writes(script.catalog, script.queries, options=ShardOptions(reevaluate_us=3600 * SECOND_US))
    batch = [(number, number) for number in range(500)]
    host.arrive(rows(batch))
    once = host.taken()
    total = 0
    for number in range(1, 32):
        host.arrive(rows([(500 * number + key, number * SECOND_US + ts_us) for key, ts_us in batch]))
        total += host.taken()
        host.go_on()
        assert host.taken() == 0
    assert total <= 31 * 4 * once
    assert len(host.stores[0].blobs) <= 2 * 7


class Writes(LocalHost):
    """A host that adds up what is stored."""

    written = 0

    def taken(self) -> int:
        """The bytes stored since it was last asked for."""
        written, self.written = self.written, 0
        return written

    def _apply(self, effect: Effect, store: Store, emitted: dict[str, list[dict[str, object]]]) -> None:
        if isinstance(effect, KeepSegment):
            self.written += effect.blob.size
        super()._apply(effect, store, emitted)


def test_a_step_that_moves_no_evaluation_time_looks_at_nothing_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    script = read_script(STREAM + counting("lazy", "1 hour"))
    host = LocalHost(script.catalog, script.queries, options=ShardOptions(reevaluate_us=3600 * SECOND_US))
    host.arrive(rows([(1, 0), (2, 1)]))

    def looked(*_: object) -> None:
        raise AssertionError("what waits is looked at though no time moves")

    monkeypatch.setattr("headrace.engine.aggregating.raises", looked)
    monkeypatch.setattr("headrace.engine.aggregating.joined", looked)
    host.arrive(rows([(1, 2), (3, 3)]))
    host.go_on()


def test_what_waited_in_pieces_counts_when_its_time_comes() -> None:
    script = read_script(STREAM + counting("lazy", "1 hour"))
    options = ShardOptions(reevaluate_us=60 * SECOND_US)
    for shards, restoring in ((1, False), (1, True), (3, True)):
        host = LocalHost(script.catalog, script.queries, shards=shards, restoring=restoring, options=options)
        for number in range(13):
            host.arrive(rows([(number % 5, (number + 1) * SECOND_US), (number % 7, (number + 1) * SECOND_US + 1)]))
        host.arrive(rows([(9, 61 * SECOND_US)]))
        (row,) = host.rows("lazy")
        assert (row["d"], row["n"]) == (7, 26)
