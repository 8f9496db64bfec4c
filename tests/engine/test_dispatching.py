"""Turns in a shard's budget: what they are charged with, and how much may wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count, product
from math import exp
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from local_host import Store

from headrace.engine.aggregating import FoldOperator
from headrace.engine.budget import ProbeBudget
from headrace.engine.cutting import BlockCut
from headrace.engine.dispatching import UNKNOWN, Pace, Scheduling
from headrace.engine.events import BlockArrived, Effect, EmitRows, Event, KeepSegment, StreamsEnded
from headrace.engine.levels import turn_cost
from headrace.engine.measuring import Meters, QueueSizes
from headrace.engine.output import Cut
from headrace.engine.packing import EVENTS, ORDER, ORDER_SHIFT, Packer
from headrace.engine.shard import Shard, ShardOptions
from headrace.engine.strategies import Mode
from headrace.model import QueryId
from headrace.plan.capacities import OperatorFacts, path_capacity
from headrace.plan.shard_graph import join_name, scheduled_graph
from headrace.plan.sharing import SharedPlan, share
from headrace.sql import read_script

STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, n BIGINT, ts TIMESTAMP) WITH (connector = 'generator');" for name in "ab"
)
BY_K = "CREATE QUERY by_k AS SELECT a.n FROM a, b WHERE a.k = b.k WINDOW 1 s;"
BY_N = "CREATE QUERY by_n AS SELECT a.k FROM a, b WHERE a.n = b.n WINDOW 1 s;"
FEW = "CREATE QUERY few AS SELECT k + 1 AS k FROM a WHERE n = 3;"
ROWS = 400


def plan_of(queries: str) -> SharedPlan:
    script = read_script(STREAMS + queries)
    return share(script.catalog, tuple(script.queries))


def events(
    plan: SharedPlan, number: int = 1, rows: int = ROWS, *, every_us: int = 1, shard: int = 0, shards: int = 1
) -> list[Event]:
    """A chunk of each stream, at a second's beginning; a shard's part of it."""
    ts = pa.array(number * 1_000_000 + np.arange(rows) * every_us).cast(pa.timestamp("us", tz="UTC"))
    keys = pa.array(np.arange(rows) % 100)
    order = pa.array(np.full(rows, number << ORDER_SHIFT))
    batch = pa.RecordBatch.from_arrays([keys, keys, ts, order], names=["k", "n", "ts", ORDER])
    packed = [one for stream in plan.catalog.streams for one in Packer(plan, stream, shards).pack(batch, 0)]
    return [one.event(plan) for one in packed if one.kind in EVENTS and one.shard == shard]


def shard_of(plan: SharedPlan, limit_bytes: int | None = None) -> Shard:
    return Shard(plan, ShardOptions(scheduling=Scheduling("fifo", "static", limit_bytes)))


def test_a_slow_joins_turn_is_charged_with_more_than_a_quick_ones() -> None:
    plan = plan_of(BY_K + BY_N)
    slow, quick = (join_name(group) for group in plan.groups)
    facts = {slow: OperatorFacts(9e-6, 1.0, 50, 50), quick: OperatorFacts(1e-6, 1.0, 50, 50)}
    shard, spent = shard_of(plan), {}
    for _ in range(2):
        budget = ProbeBudget(1)
        list(shard.step(events(plan) if not spent else [], budget, Pace(facts)))
        (name,) = (one for one in shard.dispatcher.turns if one in facts)
        spent[name] = budget.spent
    assert spent[slow] > 4 * spent[quick]


def test_a_scan_is_measured_by_its_rows_and_weighed_by_what_was_heard() -> None:
    plan = plan_of(FEW)
    shard = shard_of(plan)
    list(shard.step(events(plan), ProbeBudget(10**6), Pace()))
    (facts,) = shard.dispatcher.meters.facts().values()
    assert (facts.selectivity, facts.per_weight) == (1.0, 4 / ROWS)


BY_K_IN = "CREATE QUERY w{0} AS SELECT a.n FROM a, b WHERE a.k = b.k WINDOW {0} s;"


@pytest.mark.parametrize(
    ("queries", "given"),
    [
        (BY_K_IN.format(1), 2 * ROWS),
        ("".join(BY_K_IN.format(w) for w in range(1, 8)), 2 * ROWS),
        (
            "CREATE QUERY q AS SELECT a.n FROM a, b WHERE a.k = b.k AND a.n < 10 AND b.n < 10 WINDOW 1 s;",
            2 * ROWS // 10,
        ),
        (FEW, 4),
    ],
)
def test_what_an_operator_is_like_is_of_real_tuples_whatever_else_there_is(queries: str, given: int) -> None:
    """However many shards and windows, and whatever was filtered before."""
    plan, found = plan_of(queries), []
    for shards in (1, 2, 4):
        meters = Meters()
        for mine in range(shards):
            shard, ticks = shard_of(plan), count()
            told = events(plan, shard=mine, shards=shards)
            list(
                shard.step(told, ProbeBudget(10**6), Pace(clock=lambda ticks=ticks: float(next(ticks)), shards=shards))
            )
            meters.take(shard.dispatcher.meters)
        first = next(iter(meters.by_name.values()))
        facts = first.facts()
        assert first.tuples_in == pytest.approx(given, rel=0.01)
        assert facts.per_weight == first.tuples_in / first.heard
        found.append((facts.selectivity, facts.input_bytes, facts.output_bytes))
    assert found == [pytest.approx(found[0])] * 3


def test_what_waits_is_weighed_in_tuples_that_a_shard_has() -> None:
    """A tenth passes, and it is dealt out over four shards."""
    plan = plan_of(BY_K + BY_N)
    joins = [join_name(group) for group in plan.groups]
    shard = shard_of(plan)
    facts = dict.fromkeys(joins, OperatorFacts(1e-6, 1.0, 50, 50, per_weight=0.025))
    list(shard.step(events(plan, shards=4), ProbeBudget(1), Pace(facts, shards=4)))
    waiting = [tuples for name, tuples in shard.dispatcher.waiting_tuples().items() if name in joins]
    assert waiting == [pytest.approx(2 * ROWS * 0.025, rel=0.01)]


SOME = "CREATE QUERY some AS SELECT b.n FROM a, b WHERE a.k = b.k AND a.n = 3 AND a.n + b.n = 6 WINDOW 1 s;"
JOINED = (ROWS // 100) ** 2
"""Results of each key."""


def test_what_a_filter_over_one_side_takes_off_is_in_no_queue_after_the_join() -> None:
    """Section 4.1 of paper 003: as early as sharing allows. What both sides are asked for is left to the operator."""
    plan = plan_of(BY_K + SOME)
    shard = shard_of(plan)
    list(shard.step(events(plan), ProbeBudget(10**6), Pace()))
    (some,) = (one for one in scheduled_graph(plan).operators if "some" in one.delivers)
    assert shard.dispatcher.meters.by_name[some.name].bytes_in == JOINED * 3 * 8  # a.n, b.n and when they arrived
    assert some.text == "where ((a.n + b.n) = 6) -> b.n AS n"


def test_what_waits_for_a_class_is_weighed_by_what_it_gets_of_what_its_join_finds() -> None:
    plan = plan_of(BY_K + SOME)
    shard = shard_of(plan)
    (some,) = (one.name for one in scheduled_graph(plan).operators if "some" in one.delivers)
    list(shard.step(events(plan), ProbeBudget(10**6), Pace()))
    facts = shard.dispatcher.meters.facts()
    list(shard.step(events(plan, 2), ProbeBudget(1), Pace(facts)))  # one query's path, and the other one's results wait
    reckoned = shard.dispatcher.waiting_tuples()[some] * facts[some].input_bytes
    assert 0 < reckoned < 2 * JOINED * 3 * 8


def test_beyond_its_memory_a_step_goes_on_past_the_budget() -> None:
    plan = plan_of(BY_K + BY_N)
    waiting = {}
    for limit_bytes in (None, 20_000):
        shard = shard_of(plan, limit_bytes)
        for number in range(1, 6):
            list(shard.step(events(plan, number), ProbeBudget(1), Pace()))
        waiting[limit_bytes] = sum(shard.dispatcher.queues().values())
    assert waiting[None] > 20_000 >= waiting[20_000]


def test_what_has_just_arrived_is_no_reason_to_save_memory() -> None:
    """Nothing is ever carried over: neither how much comes nor that it is little the next time changes the mode."""
    plan = plan_of(BY_K + BY_N + FEW)
    shard = Shard(plan, ShardOptions(scheduling=Scheduling("threshold", "static", 10_000)))
    for number in range(1, 31):
        list(shard.step(events(plan, number, rows=(50, 200, 400)[number % 3]), ProbeBudget(10**9), Pace()))
        assert sum(shard.dispatcher.queues().values()) == 0
    assert (shard.memory.mode, shard.memory.mode_changes, shard.memory.mean_bytes) == (Mode.NORMAL, 0, 0.0)


def test_memory_is_saved_while_a_budget_leaves_much_and_not_once_nothing_is_left() -> None:
    plan = plan_of(BY_K + BY_N)
    shard = Shard(plan, ShardOptions(scheduling=Scheduling("threshold", "static", 200_000)))
    modes, carried = [], []
    for number in range(1, 13):
        told, budget = (events(plan, number), 1) if number <= 8 else ([], 10**9)
        list(shard.step(told, ProbeBudget(budget), Pace()))
        modes.append(shard.memory.mode)
        carried.append(sum(shard.dispatcher.waiting_tuples().values()) * UNKNOWN.input_bytes)
    assert modes == [Mode.SAVING] * 8 + [Mode.NORMAL] * 4
    assert shard.memory.mode_changes == 2
    mean = 0.0
    for size_bytes in carried:
        mean += (size_bytes - mean) * (1 - exp(-1 / 20))
    assert shard.memory.mean_bytes == pytest.approx(mean)


@pytest.mark.parametrize("strategy", ["fifo", "path", "chain", "threshold"])
def test_sources_wait_only_where_a_step_goes_on_past_the_budget(strategy: str) -> None:
    plan = plan_of(BY_K + BY_N)
    for limit_bytes, waits in ((None, False), (10**9, False), (2_000, True)):
        shard, over = Shard(plan, ShardOptions(scheduling=Scheduling(strategy, "static", limit_bytes))), 0
        for number in range(1, 5):
            budget = ProbeBudget(50)
            list(shard.step(events(plan, number), budget, Pace()))
            over += budget.over_limit
        assert (over > 0) == waits, limit_bytes


@pytest.mark.parametrize("fairness", ["oldest", "aging"])
def test_nobody_starves_in_a_step_of_one_turn(fairness: str) -> None:
    """A join with a hundredth of the priority is served all the same while more comes than can be done."""
    plan = plan_of(BY_K + BY_N)
    slow, quick = (join_name(group) for group in plan.groups)
    facts = {slow: OperatorFacts(100e-6, 1.0, 50, 50), quick: OperatorFacts(1e-6, 1.0, 50, 50)}
    shard = Shard(plan, ShardOptions(scheduling=Scheduling("path", fairness, None)))
    turns = dict.fromkeys((slow, quick), 0)
    for number in range(1, 41):
        list(shard.step(events(plan, number, rows=20), ProbeBudget(1), Pace(facts)))
        for name, more in shard.dispatcher.turns.items():
            turns[name] = turns.get(name, 0) + more
    assert turns[slow] >= 3
    assert turns[quick] >= 3


SLOW, QUICK = OperatorFacts(3e-6, 1.0, 24, 24), OperatorFacts(1e-6, 1.0, 24, 24)


@pytest.mark.parametrize("windows", ["4 s, 8 s", "10 ms, 8 s"])
@pytest.mark.parametrize("policy", ["swf", "mqt"])
@pytest.mark.parametrize(
    ("strategy", "fairness"),
    [
        *product(("fifo", "chain", "path", "threshold"), ("oldest", "aging")),
        ("fifo", "static"),
    ],
)
def test_no_window_waits_for_ever_behind_a_smaller_one(strategy: str, fairness: str, policy: str, windows: str) -> None:
    """A micro-batch's budget is for about one turn: the join's newest blocks through the smaller window are as much as
    can be done, and its oldest tuples are the oldest of all."""
    small, large = windows.split(", ")
    columns = "SELECT a.n, b.n AS m FROM a, b WHERE a.k = b.k WINDOW"
    plan = plan_of(f"CREATE QUERY small AS {columns} {small}; CREATE QUERY large AS {columns} {large};" + BY_N)
    quick, slow = (join_name(group) for group in plan.groups)
    shard = Shard(plan, ShardOptions(scheduling=Scheduling(strategy, fairness), policy=policy))
    rows, turns = dict.fromkeys(plan.queries, 0), dict.fromkeys((quick, slow), 0)
    for number in range(1, 61):
        given = shard.step(events(plan, number, rows=40), ProbeBudget(40), Pace({quick: QUICK, slow: SLOW}))
        for effect in (one for one in given if isinstance(one, EmitRows)):
            for query in effect.queries:
                rows[query] += effect.batch.num_rows
        if number > 20:
            turns = {name: count + shard.dispatcher.turns.get(name, 0) for name, count in turns.items()}
    assert min(turns.values()) >= 8
    assert rows[QueryId("large")] >= rows[QueryId("small")] / 2 > 100


@pytest.mark.parametrize(("probes", "turns"), [(100, 2), (200, 1)])
def test_the_oldest_tuples_go_through_all_windows_at_once_if_the_budget_does_for_it(probes: int, turns: int) -> None:
    """Eighty tuples through two windows."""
    columns = "SELECT a.n, b.n AS m FROM a, b WHERE a.k = b.k WINDOW"
    plan = plan_of(f"CREATE QUERY small AS {columns} 4 s; CREATE QUERY large AS {columns} 8 s;")
    shard = Shard(plan, ShardOptions(scheduling=Scheduling("path", "oldest"), policy="swf"))
    list(shard.step(events(plan, rows=40), ProbeBudget(probes), Pace()))
    assert shard.dispatcher.turns[join_name(plan.groups[0])] == turns
    assert not shard.is_behind


class Clock:
    """A clock that goes on when it is told to."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_an_aggregate_is_measured_with_what_its_evaluation_gives_and_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("CREATE QUERY per_k AS SELECT k, COUNT(*) AS n FROM a GROUP BY k WINDOW 10 s;")
    clock, evaluate = Clock(), FoldOperator.evaluate

    def slowly(self: FoldOperator, *args: Any, **named: Any) -> Iterator[Effect]:
        clock.now_s += 4.0
        yield from evaluate(self, *args, **named)

    monkeypatch.setattr(FoldOperator, "evaluate", slowly)
    shard = shard_of(plan)
    for effect in shard.step(events(plan), ProbeBudget(10**6), Pace(clock=clock)):
        clock.now_s += isinstance(effect, EmitRows)  # what is done with rows is not the aggregate's
    (facts,) = (one for name, one in shard.dispatcher.meters.facts().items() if name.startswith("aggregate"))
    assert facts.selectivity == 100 / ROWS
    assert facts.service_s == 4.0 / ROWS
    assert 16 <= facts.output_bytes <= 32


def test_what_the_host_does_with_results_is_no_operators_time() -> None:
    plan, clock = plan_of(BY_K + FEW), Clock()
    shard = shard_of(plan)
    for _ in shard.step(events(plan), ProbeBudget(10**6), Pace(clock=clock)):
        clock.now_s += 1.0
    spent_s = {name: one.spent_s for name, one in shard.dispatcher.meters.by_name.items()}
    assert clock.now_s > 2
    assert spent_s == dict.fromkeys(shard.dispatcher.turns, 0.0)


def test_operators_are_measured_by_the_processors_time_where_the_host_tells_it() -> None:
    ticks = count()
    plan = plan_of(BY_K + "CREATE QUERY per_k AS SELECT k, COUNT(*) AS n FROM a GROUP BY k WINDOW 10 s;")
    shard = shard_of(plan)
    list(shard.step(events(plan), ProbeBudget(10**6), Pace(clock=lambda: -1e6, processor=lambda: float(next(ticks)))))
    spent_s = [one.spent_s for one in shard.dispatcher.meters.by_name.values()]
    assert len(spent_s) >= 3
    assert all(1 <= one < next(ticks) for one in spent_s)


CHAINED = "FROM a, b, a c WHERE a.k = b.k AND b.n = c.n AND a.n + c.k > 20"


@pytest.mark.parametrize(
    ("queries", "readers"),
    [
        (["SELECT a.k, SUM(b.n) AS n FROM a, b WHERE a.k = b.k GROUP BY a.k WINDOW 1 s"], 1),
        ([f"SELECT a.k, SUM(b.n) AS n {CHAINED} GROUP BY a.k WINDOW 1 ms"], 1),
        ([f"SELECT a.k, c.n {CHAINED} WINDOW {window} ms" for window in (1, 2)], 1),
        ([f"SELECT {columns} {CHAINED} WINDOW 1 ms" for columns in ("a.k", "a.n, b.n AS m", "c.k")], 3),
    ],
)
def test_a_join_is_measured_to_give_what_waits_before_the_next_operators(queries: list[str], readers: int) -> None:
    """However many searches found it, and in however many windows."""
    plan = plan_of("".join(f"CREATE QUERY q{number} AS {text};" for number, text in enumerate(queries)))
    shard = shard_of(plan)
    list(shard.step(events(plan), ProbeBudget(10**6), Pace()))
    meters = shard.dispatcher.meters.by_name
    (join,) = (one for name, one in meters.items() if name.startswith("join"))
    after = [one for name, one in meters.items() if not name.startswith("join")]
    assert len(after) == readers
    assert [one.tuples_in for one in after] == [join.tuples_out] * readers
    assert join.tuples_out > 100
    assert sum(one.bytes_in for one in after) == join.bytes_out >= 8 * readers * join.tuples_out


ASKED = "FROM a, b WHERE a.k = b.k AND a.n + b.n > 9"


def test_a_projection_is_measured_to_give_what_waits_before_all_its_readers() -> None:
    plan = plan_of(
        f"CREATE QUERY small AS SELECT a.k, AVG(b.n) AS s {ASKED} GROUP BY a.k WINDOW 1 s;"
        f"CREATE QUERY large AS SELECT a.k, SUM(b.n) AS s {ASKED} GROUP BY a.k WINDOW 5 s;"
    )
    shard = shard_of(plan)
    list(shard.step(events(plan), ProbeBudget(10**6), Pace()))
    meters = shard.dispatcher.meters.by_name
    (given,) = (one.bytes_out for name, one in meters.items() if name.startswith("select-project"))
    taken = [one.bytes_in for name, one in meters.items() if name.startswith("aggregate")]
    assert len(taken) == 2
    assert sum(taken) == given > 0


def test_what_is_remembered_of_operators_that_are_gone_is_let_go() -> None:
    plan, later = plan_of(BY_K + BY_N), plan_of(BY_N)
    options = ShardOptions(scheduling=Scheduling("path", "aging", None))
    shard, store = Shard(plan, options), Store()
    for number in range(1, 5):
        for effect in shard.step(events(plan, number, rows=5), ProbeBudget(1), Pace()):
            if isinstance(effect, KeepSegment):
                store.blobs[effect.name] = effect.blob
    assert len(shard.memory.served_s) == 2
    restored = Shard.restore(later, options, shard.manifest(), store)
    list(restored.step(events(later, 6, rows=5), ProbeBudget(1), Pace()))
    (ends,) = restored.memory.served_s
    assert ends.startswith(join_name(later.groups[0]))


def test_what_waits_is_added_up_once_a_step_and_not_with_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def counted(*args: Any) -> int:
        nonlocal looks
        looks += 1
        return turn_cost(*args)

    plan = plan_of(BY_K + BY_N)
    shard = shard_of(plan)
    for number in range(1, 31):
        list(shard.step(events(plan, number, rows=5), ProbeBudget(1), Pace()))
    monkeypatch.setattr("headrace.engine.block_queue.turn_cost", counted)
    list(shard.step(events(plan, 31, rows=5), ProbeBudget(100), Pace()))
    turns = sum(shard.dispatcher.turns.values())
    assert turns >= 10
    assert looks <= 32 + 4 * turns


def test_the_most_that_waits_within_a_step_is_told() -> None:
    """What came in the step counts, though nothing of it is carried over."""
    plan = plan_of(BY_K)
    shard = shard_of(plan)
    list(shard.step(events(plan), ProbeBudget(10**9), Pace()))
    assert sum(shard.dispatcher.queues().values()) == 0
    assert shard.dispatcher.most_bytes > 2 * ROWS * 16


LONG = "CREATE QUERY long AS SELECT a.k, a.n, b.n AS m FROM a, b WHERE a.k = b.k WINDOW 10 s;"


def backlogged(block: BlockCut, steps: int = 6) -> tuple[Shard, list[dict[str, Any]]]:
    """A shard with the tuples of so many steps before it, and the rows that came out."""
    plan = plan_of(LONG)
    shard = Shard(plan, ShardOptions(Cut.WINDOWS, scheduling=Scheduling(), block=block))
    rows = []
    for number in range(1, steps + 1):
        rows += rows_of(shard.step(events(plan, number, every_us=2_500), ProbeBudget(1), Pace()))
    return shard, rows


def rows_of(effects: Iterable[Effect]) -> list[dict[str, Any]]:
    return [row for one in effects if isinstance(one, EmitRows) for row in one.batch.to_pylist()]


@pytest.mark.parametrize("ending", [[], [StreamsEnded()]])
def test_what_is_worked_off_goes_to_the_top_before_a_join_takes_more(ending: list[Event]) -> None:
    """Without a budget, or at the end of the input: no more is held than waited before, and what one block gives."""
    shard, rows = backlogged(BlockCut(span_us=20_000))
    waited_bytes = sum(shard.dispatcher.queues().values())
    rows += rows_of(shard.step(ending, ProbeBudget(), Pace()))
    assert sum(shard.dispatcher.queues().values()) == 0
    assert shard.dispatcher.most_bytes < 1.2 * waited_bytes < 24 * len(rows)
    by_another, others = backlogged(BlockCut())
    others += rows_of(by_another.step(ending, ProbeBudget(), Pace()))
    assert rows == others


def test_what_comes_with_the_end_of_the_input_is_cut_into_blocks_too() -> None:
    """Of another stream all was there already, and waited for this one."""
    plan = plan_of(LONG)
    most_bytes, rows = [], []
    for block in (BlockCut(), BlockCut(span_us=20_000)):
        shard = Shard(plan, ShardOptions(Cut.WINDOWS, scheduling=Scheduling(), block=block))
        list(shard.step(events(plan, 1, rows=10), ProbeBudget(10**9), Pace()))
        arrived = [*events(plan, 2, every_us=2_500), *events(plan, 3, every_us=2_500), StreamsEnded()]
        rows.append(rows_of(shard.step(arrived, ProbeBudget(), Pace())))
        most_bytes.append(shard.dispatcher.most_bytes)
    assert rows[0] == rows[1]
    assert len(rows[0]) > 5_000
    assert most_bytes[1] < most_bytes[0] / 3


WINDOWED = "".join(
    f"CREATE QUERY w{w} AS SELECT a.n, b.ts AS t FROM a, b WHERE a.k = b.k WINDOW {w} s;" for w in (1, 2, 4, 8)
)


@pytest.mark.parametrize("policy", ["swf", "mqt"])
def test_results_held_for_larger_windows_are_queue_memory(policy: str) -> None:
    """The micro-batch goes on past its budget for what they weigh, too."""
    plan, limit_bytes = plan_of(WINDOWED), 500_000
    held_bytes = {}
    for limit in (None, limit_bytes):
        shard = Shard(plan, ShardOptions(scheduling=Scheduling("threshold", "static", limit), policy=policy))
        meters, sizes, over = Meters(), QueueSizes(), 0
        for number in range(1, 11):
            facts = sizes.in_facts(meters.facts())
            budget = ProbeBudget(10**9 if number == 1 else 2_000)
            list(shard.step(events(plan, number), budget, Pace(facts)))
            told = shard.dispatcher
            meters.take(told.meters)
            sizes.take(told.waiting_tuples(), told.queues(), [told.held()])
            over += budget.over_limit
        held_bytes[limit] = shard.holdings().output_bytes
        assert sum(told.queues().values()) >= held_bytes[limit]
        assert (over > 0) == (limit is not None)
    assert held_bytes[None] > 2 * limit_bytes
    assert held_bytes[limit_bytes] < limit_bytes


def test_each_reader_of_a_join_is_measured_by_what_comes_to_it() -> None:
    """A small window's quick path takes more tuples in a unit of time than a large one's."""
    narrow = "CREATE QUERY narrow AS SELECT a.n FROM a, b WHERE a.k = b.k WINDOW 1 ms;"
    wide = "CREATE QUERY wide AS SELECT a.n, b.n AS m FROM a, b WHERE a.k = b.k AND a.n + b.n >= 0 WINDOW 5 s;"
    plan, meters = plan_of(narrow + wide), Meters()
    shard = shard_of(plan)
    for number in range(1, 5):
        list(shard.step(events(plan, number), ProbeBudget(10**6), Pace()))
        meters.take(shard.dispatcher.meters)
    facts = meters.facts()
    (join,) = (join_name(group) for group in plan.groups)
    few, many = sorted((one for one in facts if one != join), key=lambda one: facts[one].taken)
    rows = {name: meters.by_name[name].tuples_in for name in facts}
    assert rows[many] > 2 * rows[few] > 0
    assert {name: facts[name].taken for name in (few, many)} == {
        name: pytest.approx(rows[name] / rows[join]) for name in (few, many)
    }
    given = facts[join].selectivity * facts[join].copies
    assert given == pytest.approx(facts[few].taken + facts[many].taken)
    assert min(facts[few].input_bytes, facts[many].input_bytes) < facts[join].output_bytes < 33
    even = {name: replace(one, service_s=1e-6) for name, one in facts.items()}
    assert path_capacity([even[join], even[few]]) > path_capacity([even[join], even[many]])


@pytest.mark.parametrize("policy", ["swf", "mqt"])
def test_a_turn_puts_nothing_before_operators_whose_windows_it_has_not_scanned(policy: str) -> None:
    """Also where a shard has found nothing: it takes the others' turns."""
    small = "CREATE QUERY small AS SELECT a.n FROM a, b WHERE a.k = b.k WINDOW 1 ms;"
    large = "CREATE QUERY large AS SELECT a.n, b.n AS m FROM a, b WHERE a.k = b.k WINDOW 5 s;"
    fold = "CREATE QUERY fold AS SELECT a.k, COUNT(*) AS n FROM a, b WHERE a.k = b.k GROUP BY a.k WINDOW 5 s;"
    plan = plan_of(small + large + fold)
    graph = scheduled_graph(plan)
    turns = []
    for shard_rows in (ROWS, 0):
        shard = Shard(plan, ShardOptions(scheduling=Scheduling("path", "static", None), policy=policy))
        told = events(plan)
        if not shard_rows:
            told = [one for one in told if not isinstance(one, BlockArrived)]
        taken: list[dict[str, int]] = []
        for number in range(8):
            list(shard.step(told if number == 0 else [], ProbeBudget(1), Pace()))
            taken.append(dict(shard.dispatcher.turns))
        assert not shard.is_behind
        turns.append(taken)
    assert turns[0] == turns[1]
    by_query = {query: path[1] for path in graph.paths for query in graph.by_name[path[-1]].delivers}
    total = {query: sum(one.get(name, 0) for one in turns[0]) for query, name in by_query.items()}
    assert total == {"small": 1, "large": 1, "fold": 2}


def test_a_step_that_goes_on_past_its_budget_is_no_end_of_saving_memory() -> None:
    """Each brings more than may wait, and leaves nothing."""
    plan = plan_of(BY_K + BY_N)
    shard, modes = Shard(plan, ShardOptions(scheduling=Scheduling("threshold", "static", 10_000))), []
    for number in range(1, 13):
        told = events(plan, number) if number <= 8 else []
        budget = ProbeBudget(100)
        list(shard.step(told, budget, Pace()))
        assert sum(shard.dispatcher.queues().values()) == 0
        assert (budget.over_limit > 0) == (number <= 8)
        modes.append(shard.memory.mode)
    assert modes == [Mode.SAVING] * 8 + [Mode.NORMAL] * 4
    assert shard.memory.mode_changes == 2


def test_tuples_take_memory_until_their_last_window_is_scanned() -> None:
    """What is left to do for them tells nothing of their size."""
    plan, sizes, meters = plan_of(WINDOWED), QueueSizes(), Meters()
    (join,) = (join_name(group) for group in plan.groups)
    shard = Shard(plan, ShardOptions(scheduling=Scheduling("path", "static", None), policy="swf"))
    for number in range(1, 41):
        list(shard.step(events(plan, number), ProbeBudget(2_400), Pace(meters.facts())))
        told = shard.dispatcher
        meters.take(told.meters)
        sizes.take(told.waiting_tuples(), told.queues(), [told.held()])
    tuples = sum(shard.backlog()[next(iter(shard.backlog()))])
    assert tuples > 2_000
    assert told.waiting_tuples()[join] == pytest.approx(tuples, rel=0.1)
    waiting = sizes.waiting.by_name[join]
    assert waiting < 2 * meters.facts()[join].input_bytes
