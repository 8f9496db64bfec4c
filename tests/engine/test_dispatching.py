"""Turns in a shard's budget: what they are charged with, and how much may wait."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from math import exp
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from local_host import Store

from headrace.engine.aggregating import FoldOperator
from headrace.engine.budget import ProbeBudget
from headrace.engine.dispatching import UNKNOWN, Pace, Scheduling
from headrace.engine.events import Effect, EmitRows, Event, KeepSegment
from headrace.engine.levels import turn_cost
from headrace.engine.packing import EVENTS, ORDER, ORDER_SHIFT, Packer
from headrace.engine.shard import Shard, ShardOptions
from headrace.engine.strategies import Mode
from headrace.plan.capacities import OperatorFacts
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


def events(plan: SharedPlan, number: int = 1, rows: int = ROWS) -> list[Event]:
    """A chunk of each stream."""
    ts = pa.array(number * 1_000_000 + np.arange(rows)).cast(pa.timestamp("us", tz="UTC"))
    keys = pa.array(np.arange(rows) % 100)
    order = pa.array(np.full(rows, number << ORDER_SHIFT))
    batch = pa.RecordBatch.from_arrays([keys, keys, ts, order], names=["k", "n", "ts", ORDER])
    packed = [one for stream in plan.catalog.streams for one in Packer(plan, stream, 1).pack(batch, 0)]
    return [one.event(plan) for one in packed if one.kind in EVENTS]


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


def test_a_scan_is_measured_by_what_it_is_weighed_by() -> None:
    plan = plan_of(FEW)
    shard = shard_of(plan)
    list(shard.step(events(plan), ProbeBudget(10**6), Pace()))
    (facts,) = shard.dispatcher.meters.facts().values()
    assert facts.selectivity == 4 / ROWS


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
    monkeypatch.setattr("headrace.engine.operators.turn_cost", counted)
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
