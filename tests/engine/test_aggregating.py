"""A class's aggregates in one shard or over several: windows that come live, and what is stored while they wait."""

from __future__ import annotations

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
