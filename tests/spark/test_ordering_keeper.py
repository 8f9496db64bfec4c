"""What the driver decides between micro-batches: each join's approach, and which sources nobody waits for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.config import Settings
from headrace.engine.events import OrderingChosen
from headrace.engine.progressing import KnownSources
from headrace.errors import PlanError, SettingError, StateError
from headrace.model import StreamId
from headrace.plan.approaches import check_ordering
from headrace.plan.explain import explain
from headrace.plan.sharing import SharedPlan, share
from headrace.spark.checkpoint import open_checkpoint
from headrace.spark.metrics import BatchFacts
from headrace.spark.ordering import OrderingKeeper
from headrace.spark.orders import Orders
from headrace.sql import read_script

STREAMS = (
    "CREATE STREAM slow (k BIGINT, ts TIMESTAMP) WITH (connector = 'files', path = 'a', idle_timeout = '10 seconds');"
    "CREATE STREAM fast (k BIGINT, ts TIMESTAMP) WITH (connector = 'files', path = 'b');"
)
QUERY = "CREATE QUERY q AS SELECT a.k FROM slow a, fast b WHERE a.k = b.k WINDOW {};"


def plan_of(window: str = "60 SECONDS", streams: str = STREAMS) -> SharedPlan:
    script = read_script(streams + QUERY.format(window))
    return share(script.catalog, script.queries)


PARTED = plan_of(streams=STREAMS.replace("'b')", "'b', partition = 'k', partitions = 2)"))
"""The same with a fast stream of two partitions."""


def keeper(settings: Settings | None = None, window: str = "60 SECONDS") -> OrderingKeeper:
    plan = plan_of(window)
    kept = OrderingKeeper(settings or Settings(), plan.catalog, started_s=0.0)
    kept.adopt(plan)
    return kept


def facts(
    batch: int, spent_s: float, heard: tuple[str, ...] = ("slow", "fast"), at_s: float | None = None
) -> BatchFacts:
    """A micro-batch of 10 seconds: 10 slow tuples and 100 fast ones, joined in so much time."""
    (group,) = plan_of().groups
    begin, rows = batch * 10_000_000, {"slow": 10, "fast": 100}
    told: dict[str, Any] = {
        "heard": {name: [rows[name], begin, begin + 10_000_000] for name in heard},
        "heard_from": [(name, "", rows[name], begin, begin + 10_000_000) for name in heard],
        "sources": {name: {"": begin} for name in ("slow", "fast")},
        "reached": {"slow": (begin, False), "fast": (begin + 5_000_000, False)},
        "joins": {group.signature: (spent_s, 7, 700, False)},
        "arrived": {},
    }
    now_s = 10.0 * (batch + 1) if at_s is None else at_s
    return BatchFacts(batch, now_s, now_s, ((0, told),))


def test_a_join_begins_with_sync_filter_and_goes_over_when_the_condition_holds() -> None:
    """1/s and 10/s over 10 s are joined in 6 s: half of 0.6 is 0.3, which is alpha."""
    kept = keeper()
    (signature,) = kept._groups
    assert not kept.learn(facts(0, 5.9))
    assert kept.chosen == OrderingChosen()
    assert kept.learn(facts(1, 7.0))
    assert kept.chosen == OrderingChosen(frozenset({signature}))
    (said,) = kept.switches
    assert said.startswith(f"micro-batch 2: {signature}: Filter-Order from now on, c|w|l1 l2 = 0.32")
    assert "slow 1/s, fast 10/s" in said


def test_it_returns_when_the_condition_holds_no_more() -> None:
    kept = keeper()
    kept.learn(facts(0, 7.0))
    assert kept.chosen.filter_order
    for batch in range(1, 6):
        kept.learn(facts(batch, 1.0))
    assert not kept.chosen.filter_order
    assert "Sync-Filter from now on" in kept.switches[-1]


def test_a_stream_that_stops_leaves_less_and_less_to_join_and_in_the_end_nothing_to_judge_by() -> None:
    """What the other one brings finds partners for a window's time still; then its join has nothing to do."""
    kept = keeper()
    for batch in range(5):
        kept.learn(facts(batch, 7.0))
    assert kept.chosen.filter_order
    for batch in range(5, 30):
        kept.learn(facts(batch, 3.0 if batch < 11 else 0.1, heard=("fast",)))
    assert not kept.chosen.filter_order
    assert sum("Sync-Filter from now on" in one for one in kept.switches) == 1
    for batch in range(30, 200):
        kept.learn(facts(batch, 0.1 if batch < 170 else 9.0, heard=("fast",)))
    assert not kept.chosen.filter_order
    assert kept.learn(facts(200, 9.0))
    assert kept.chosen.filter_order


def test_switches_are_handed_over_once_and_not_kept() -> None:
    kept = keeper()
    for batch, spent_s in enumerate((7.0, *(1.0,) * 5)):
        kept.learn(facts(batch, spent_s))
        said = kept.take_switches()
        assert [f"micro-batch {batch + 1}: " in one for one in said] == [True] * len(said)
        assert len(said) == (batch < 2)
        assert (kept.switches, kept.take_switches()) == ([], ())


def told(batch: int, spent_s: float, *sources: tuple[str, str, int, float, float]) -> BatchFacts:
    """A micro-batch that brought so many tuples of these sources, from one second to another."""
    (group,) = PARTED.groups
    came = [(stream, name, rows, int(since * 1e6), int(until * 1e6)) for stream, name, rows, since, until in sources]
    newest: dict[str, dict[str, int]] = {}
    for stream, name, _, _, newest_us in came:
        newest.setdefault(stream, {})[name] = newest_us
    joins = {group.signature: (spent_s, 0, 0, False)}
    shard: dict[str, Any] = {"heard_from": came, "sources": newest, "reached": {}, "joins": joins, "arrived": {}}
    return BatchFacts(batch, 10.0 * batch, 10.0 * (batch + 1), ((0, shard),))


def parted() -> OrderingKeeper:
    kept = OrderingKeeper(Settings(), PARTED.catalog, started_s=0.0)
    kept.adopt(PARTED)
    return kept


def test_partitions_that_lag_each_other_have_the_rate_that_they_have_together() -> None:
    """East is 20 s ahead of west: in 10 s both bring 5 tuples a second."""
    kept = parted()
    kept.learn(told(0, 6.0, ("slow", "", 10, 0, 10), ("fast", "east", 50, 20, 30), ("fast", "west", 50, 0, 10)))
    (load,) = kept._loads.values()
    assert load.rates == {"slow": pytest.approx(1), "fast": pytest.approx(10)}
    assert kept.chosen.filter_order


def test_a_stream_that_brings_a_tuple_now_and_then_has_a_rate() -> None:
    """One in 20 s, where micro-batches are of a second: the last five have one at most."""
    kept = parted()
    for second in range(90):
        slow = [("slow", "", 1, second, second)] if second % 20 == 0 else []
        kept.learn(told(second, 0.6, *slow, ("fast", "east", 10, second, second + 1)))
    (load,) = kept._loads.values()
    assert load.rates == {"slow": pytest.approx(0.05, rel=0.3), "fast": pytest.approx(10, rel=0.1)}
    assert load.busy == pytest.approx(0.3, rel=0.15)


def test_the_times_of_late_tuples_have_nothing_to_do_with_a_rate() -> None:
    kept = parted()
    kept.learn(told(0, 6.0, ("slow", "", 10, 990, 1000), ("fast", "east", 100, 990, 1000)))
    kept.learn(told(1, 6.0, ("slow", "", 10, 0, 1010), ("fast", "east", 100, 1000, 1010)))
    (load,) = kept._loads.values()
    assert load.rates == {"slow": pytest.approx(1), "fast": pytest.approx(10)}
    kept.learn(told(2, 0.0, ("slow", "", 1, 5, 5)))
    assert load == next(iter(kept._loads.values()))


def test_work_that_was_put_off_to_a_micro_batch_without_input_is_a_cost_too() -> None:
    kept = parted()
    kept.learn(told(0, 3.0, ("slow", "", 10, 0, 10), ("fast", "east", 100, 0, 10)))
    assert not kept.chosen.filter_order
    kept.learn(told(1, 4.0))
    assert kept.chosen.filter_order


def test_a_micro_batch_of_empty_files_makes_no_source_idle() -> None:
    """No shard hears anything then; who is idle is told from what was heard before."""
    kept = keeper()
    kept.learn(facts(0, 0.1, at_s=15.0))
    assert not kept.learn(BatchFacts(1, 16.0, 16.0, ()))
    assert (kept.chosen.idle, kept.switches) == (frozenset(), [])
    assert kept.learn(BatchFacts(2, 26.0, 26.0, ()))
    assert kept.chosen.idle == {(StreamId("slow"), "")}
    assert [one.waits_for for one in kept.stats()] == [("slow",)]


def test_what_is_held_is_of_all_shards_also_when_one_alone_was_told_something() -> None:
    kept = keeper()
    first = facts(0, 0.1)
    kept.learn(replace(first, told=(*first.told, (1, first.told[0][1]))))
    kept.learn(facts(1, 0.1, heard=()))
    assert [one.held_results for one in kept.stats()] == [14]


def test_expected_responses_are_those_of_the_paper_and_who_is_waited_for_is_told() -> None:
    kept = keeper()
    kept.learn(facts(0, 6.0))
    (told,) = kept.stats()
    assert told.approach == "filter-order"
    assert told.busy == pytest.approx(0.3)
    assert told.filter_order_ms == pytest.approx(550)
    assert told.sync_filter_ms == pytest.approx(715)
    assert told.gain == pytest.approx(0.3 / 1.3)
    assert (told.waits_for, told.held_results) == (("slow",), 7)


@pytest.mark.parametrize("ordering", ["sync-filter", "filter-order"])
def test_an_approach_that_was_asked_for_stays(ordering: str) -> None:
    kept = keeper(Settings(ordering=ordering))
    for batch, spent_s in enumerate((0.1, 9.0)):
        kept.learn(facts(batch, spent_s))
    assert bool(kept.chosen.filter_order) == (ordering == "filter-order")
    assert kept.switches == []


def test_a_query_s_join_can_have_an_approach_of_its_own() -> None:
    two = QUERY + QUERY.replace("QUERY q", "QUERY other").replace("a.k = b.k", "a.k < b.k")
    script = read_script(STREAMS + two.replace("{}", "60 SECONDS"))
    plan = share(script.catalog, script.queries)
    settings = Settings().with_text("ordering", "Sync-Filter, OTHER = filter-order")
    check_ordering(plan.queries, settings)
    kept = OrderingKeeper(settings, plan.catalog, started_s=0.0)
    kept.adopt(plan)
    assert {one.group: one.approach for one in kept.stats()} == {
        group.signature: "filter-order" if "other" in group.queries else "sync-filter" for group in plan.groups
    }
    assert kept.chosen.filter_order == {one.signature for one in plan.groups if "other" in one.queries}
    assert explain(plan, settings).count("ordering      Filter-Order") == 1
    with pytest.raises(PlanError, match="there is no query others"):
        check_ordering(plan.queries, settings.with_text("ordering", "adaptive, others = filter-order"))


@pytest.mark.parametrize("text", ["fast", "q = ", "= adaptive", "adaptive, q: filter-order", ""])
def test_an_approach_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="write one of adaptive, sync-filter, filter-order"):
        Settings().with_text("ordering", text)


def test_a_window_of_rows_stays_with_sync_filter() -> None:
    kept = keeper(Settings(ordering="filter-order"), window="5 ROWS")
    assert not kept.chosen.filter_order


def test_a_silent_source_is_idle_after_its_timeout_and_wakes_the_run_once() -> None:
    kept = keeper()
    kept.learn(facts(0, 0.1, at_s=10.0))
    assert not kept.wakes(15.0)
    assert kept.wakes(21.0)
    assert not kept.wakes(22.0)
    assert kept.learn(facts(1, 0.1, heard=("fast",), at_s=22.0))
    assert kept.chosen.idle == {(StreamId("slow"), "")}
    assert "slow is idle: nothing came for 10 s" in kept.switches[-1]
    assert kept.learn(facts(2, 0.1, at_s=23.0))
    assert kept.chosen.idle == frozenset()


def test_a_timeout_of_nothing_passes_a_source_with_each_micro_batch_that_it_brings_nothing_in() -> None:
    """It is told to be idle before each; a shard waits for it again in those that it is heard in."""
    plan = plan_of(streams=STREAMS.replace("10 seconds", "0 seconds"))
    kept = OrderingKeeper(Settings(), plan.catalog, started_s=0.0)
    kept.adopt(plan)
    for batch in range(3):
        assert kept.learn(facts(batch, 0.1)) == (batch == 0)
        assert kept.chosen.idle == {(StreamId("slow"), "")}
    assert not kept.wakes(100.0)
    (said,) = kept.switches
    assert "slow is idle: nothing came for 0 s" in said


def test_a_partition_that_was_never_heard_of_is_told_as_idle_not_its_stream() -> None:
    options = "partition = 'k', partitions = 2, idle_timeout = '10 seconds')"
    catalog = plan_of(streams=STREAMS.replace("'b')", f"'b', {options}")).catalog
    kept = OrderingKeeper(Settings(), catalog, started_s=0.0)
    kept.learn(facts(0, 0.1, at_s=11.0))
    assert kept.chosen.idle == {(StreamId("fast"), None)}
    assert "fast, a partition that was not heard of yet, is idle: nothing came for 10 s" in kept.switches[-1]


def test_what_was_decided_is_the_same_for_a_micro_batch_that_is_run_again(tmp_path: Path) -> None:
    orders = Orders(str(tmp_path))
    chosen = OrderingChosen(frozenset({"x"}), frozenset({(StreamId("slow"), ""), (StreamId("slow"), None)}))
    orders.give_ordering(3, chosen)
    orders.give_ordering(7, OrderingChosen())
    assert orders.ordering(2) == OrderingChosen()
    assert [orders.ordering(batch) for batch in (3, 6, 7)] == [chosen, chosen, OrderingChosen()]
    orders.forget_before(5)
    assert orders.ordering(5) == chosen


def test_how_far_sources_have_come_is_told_for_the_next_micro_batch(tmp_path: Path) -> None:
    """One that is run again is told what it was told before."""
    orders = Orders(str(tmp_path))
    orders.give_sources(1, facts(0, 1.0).known())
    orders.give_sources(2, facts(1, 1.0).known())
    assert orders.sources(0) == {}
    assert orders.sources(1)[StreamId("fast")] == KnownSources({"": 0}, 5_000_000)
    known = orders.sources(3)[StreamId("slow")]
    assert known == KnownSources({"": 10_000_000}, 10_000_000)
    assert known.floors_us(["", "new"], max_delay_us=1_000_000).tolist() == [10_000_000, 10_000_000]
    assert orders.sources(3)[StreamId("fast")].floor_us("", max_delay_us=1_000_000) == 15_000_000
    orders.forget_before(2)
    assert orders.sources(1) == {}
    assert orders.sources(2)


def test_a_checkpoint_goes_with_the_column_that_tells_sources_apart(tmp_path: Path) -> None:
    """How far a stream has come is kept by source: those that no tuple is of any more would be waited for for ever."""
    plain, parted = plan_of().catalog.streams, PARTED.catalog.streams
    open_checkpoint(tmp_path, plain, (0,))
    with pytest.raises(StateError, match=r"declares .*; fast \(.*\) by ts, partitions by k\."):
        open_checkpoint(tmp_path, parted, (0,))
    assert open_checkpoint(tmp_path, [replace(one, idle_timeout_us=1, max_delay_us=5) for one in plain], (0,)).id
