"""What each strategy chooses, the threshold's modes, and what is remembered."""

from __future__ import annotations

import json

import pytest

from headrace.engine.choosing import FAIRNESS, Scheduler
from headrace.engine.measuring import Meters, OperatorMeter, WorkReport
from headrace.engine.strategies import (
    STRATEGIES,
    Mode,
    QueueState,
    StrategyMemory,
    StrategyOptions,
    Threshold,
    Waiting,
)
from headrace.model import QueryId
from headrace.plan.capacities import OperatorFacts
from headrace.plan.opgraph import OperatorGraph, OperatorKind, OperatorName, OperatorNode

SELECT, FAST, SLOW, LEAF = (OperatorName(name) for name in ("select", "fast", "slow", "leaf"))
GRAPH = OperatorGraph(
    (
        OperatorNode(SELECT, OperatorKind.SELECT, "", ("a",)),
        OperatorNode(FAST, OperatorKind.PROJECT, "", (SELECT,), (QueryId("q"),)),
        OperatorNode(SLOW, OperatorKind.PROJECT, "", (SELECT,), (QueryId("r"),)),
        OperatorNode(LEAF, OperatorKind.SELECT, "", ("b",), (QueryId("s"),)),
    )
)
FACTS = {
    SELECT: OperatorFacts(1, 0.5),
    FAST: OperatorFacts(2, 1),
    SLOW: OperatorFacts(10, 1),
    LEAF: OperatorFacts(4, 1),
}


def waiting(at_s: float = 100.0, **states: tuple[float, float]) -> Waiting:
    """(tuples, oldest) before each operator."""
    told = {OperatorName(name): QueueState(tuples, tuples, oldest_s) for name, (tuples, oldest_s) in states.items()}
    return Waiting(at_s, told, sum(one.size_bytes for one in told.values()))


def chosen(strategy: str, state: Waiting, fairness: str = "static", memory: StrategyMemory | None = None) -> list[str]:
    options = StrategyOptions(oldest_every_s=10)
    scheduler = Scheduler.of(strategy, fairness, GRAPH, FACTS, options, memory or StrategyMemory())
    unit = scheduler.next_unit(state)
    return [] if unit is None else list(unit.operators)


@pytest.mark.parametrize("fairness", FAIRNESS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_is_chosen_when_nothing_waits(strategy: str, fairness: str) -> None:
    assert chosen(strategy, waiting(), fairness) == []


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("fifo", ["leaf"]),
        ("chain", ["select"]),
        ("path", ["select", "fast"]),
        ("segment", ["select", "fast"]),
        ("threshold", ["select", "fast"]),
    ],
)
def test_among_leaves_it_is_the_oldest_the_steepest_the_fastest(strategy: str, expected: list[str]) -> None:
    assert chosen(strategy, waiting(select=(5, 2.0), leaf=(5, 1.0))) == expected


def test_the_end_of_a_path_comes_before_a_slower_path() -> None:
    assert chosen("path", waiting(slow=(1, 5.0), leaf=(1, 1.0))) == ["leaf"]
    assert chosen("path", waiting(slow=(1, 5.0))) == ["slow"]
    assert chosen("path", waiting(fast=(1, 5.0), leaf=(1, 1.0), slow=(1, 0.0))) == ["fast"]


def test_of_operators_under_one_line_the_one_nearest_the_root_is_next() -> None:
    """A filter frees less than the projection after it, so both are under one line: of tuples that came at one time
    those that the filter has let pass go on before it takes others."""
    below, above = OperatorName("below"), OperatorName("above")
    graph = OperatorGraph(
        (
            OperatorNode(below, OperatorKind.SELECT, "", ("a",)),
            OperatorNode(above, OperatorKind.PROJECT, "", (below,), (QueryId("q"),)),
        )
    )
    facts = {below: OperatorFacts(1, 0.9), above: OperatorFacts(1, 1)}
    scheduler = Scheduler.of("chain", "static", graph, facts, StrategyOptions(), StrategyMemory())
    units = scheduler.units(waiting())
    assert units[0].priority == units[1].priority
    chosen = [scheduler.next_unit(waiting(below=(5, below_s), above=(2, 3.0))) for below_s in (3.0, 2.0)]
    assert [one.operators for one in chosen if one is not None] == [(above,), (below,)]


def test_a_turn_is_what_a_unit_can_process_in_a_slice() -> None:
    scheduler = Scheduler.of("path", "static", GRAPH, FACTS, StrategyOptions(slice_s=8), StrategyMemory())
    unit = scheduler.next_unit(waiting(select=(99, 0.0)))
    assert unit is not None
    assert unit.limits == (4, 4)


def test_once_in_a_while_it_is_the_oldest_tuples_turn() -> None:
    memory = StrategyMemory(oldest_served_s=95.0)
    state = waiting(select=(5, 2.0), slow=(1, 0.5))
    assert chosen("path", state, "oldest", memory) == ["select", "fast"]
    memory.oldest_served_s = 90.0
    assert chosen("path", state, "oldest", memory) == ["slow"]
    assert memory.oldest_served_s == 100.0


def test_the_oldest_tuple_goes_to_the_end_of_its_path_whatever_the_strategys_units() -> None:
    """It would be next to its operator otherwise, until it is the oldest one's turn again."""
    state = waiting(select=(5, 1.0), leaf=(5, 2.0), slow=(1, 3.0))
    for strategy in STRATEGIES:
        assert chosen(strategy, state, "oldest") == chosen("fifo", state)
        assert len(chosen(strategy, state, "oldest")) == 2


def test_a_priority_grows_until_the_slow_path_is_served() -> None:
    memory, units = StrategyMemory(), []
    for at_s in range(100, 160):
        units.append(chosen("path", waiting(float(at_s), select=(5, at_s - 1.0), leaf=(5, 0.0)), "aging", memory))
    assert ["leaf"] in units
    assert units.count(["leaf"]) < len(units)


def test_a_unit_that_is_chosen_for_its_oldest_tuple_is_marked() -> None:
    """Under the first form once a period; under the second as often as what is chosen has waited; fifo's always."""

    def marks(strategy: str, fairness: str) -> list[bool]:
        scheduler = Scheduler.of(strategy, fairness, GRAPH, FACTS, StrategyOptions(), StrategyMemory())
        units = [scheduler.next_unit(waiting(at_s, leaf=(5, came_s))) for at_s, came_s in ((5, 5), (5, 5), (20, 5))]
        return [one.is_oldest for one in units if one is not None]

    assert marks("path", "static") == [False, False, False]
    assert marks("path", "oldest") == [True, False, True]
    assert marks("path", "aging") == [False, False, True]
    assert all(marks("fifo", fairness) == [True, True, True] for fairness in FAIRNESS)


def test_modes_change_at_the_thresholds_and_not_between() -> None:
    memory = StrategyMemory(mean_bytes=20.0)
    options = StrategyOptions(limit_bytes=100, mean_over_s=1e12)
    threshold = Threshold(GRAPH, FACTS, options, memory)
    modes = []
    for size in (59, 60, 40, 21, 20, 59, 99):
        threshold.units(Waiting(0.0, {}, size))
        modes.append(memory.mode)
    normal, saving = Mode.NORMAL, Mode.SAVING
    assert modes == [normal, saving, saving, saving, normal, normal, saving]
    assert memory.mode_changes == 3


def test_without_any_memory_it_saves_from_the_first_tuple_on() -> None:
    """What a shard gets of a very small limit may be nothing."""
    memory = StrategyMemory()
    threshold = Threshold(GRAPH, FACTS, StrategyOptions(limit_bytes=0), memory)
    for at_s, size in enumerate((0, 1, 1)):
        threshold.units(Waiting(float(at_s), {}, size))
    assert memory.mode is Mode.SAVING


def test_the_mean_of_the_memory_in_use_follows_it() -> None:
    memory = StrategyMemory()
    for at_s in range(1000):
        memory.observe(50.0, float(at_s), over_s=60.0)
    assert memory.mean_bytes == pytest.approx(50.0, rel=1e-3)


def test_what_a_strategy_remembers_survives_json() -> None:
    memory = StrategyMemory(Mode.SAVING, 3, 7.5, 1.0, None, {"a > b": 2.0})
    assert StrategyMemory.from_json(json.loads(json.dumps(memory.to_json()))) == memory


# --- measuring


def test_facts_follow_what_is_reported_and_old_reports_fade() -> None:
    meter = OperatorMeter()
    meter.add(WorkReport(100, 100, 1000, 1000, 1.0), at_s=0)
    meter.add(WorkReport(100, 0, 1000, 0, 3.0), at_s=60, half_life_s=60)
    facts = meter.facts()
    assert facts is not None
    assert facts.selectivity == pytest.approx(50 / 150)
    assert facts.service_s == pytest.approx(3.5 / 150)
    assert (facts.input_bytes, facts.output_bytes) == (pytest.approx(10), pytest.approx(10))


def test_an_operator_that_did_nothing_is_like_nothing() -> None:
    assert OperatorMeter().facts() is None
    meters = Meters()
    meters.report(SELECT, WorkReport(0, 0, 0, 0, 0.1), at_s=1)
    assert meters.facts() == {}


def test_meters_survive_json_and_forget_operators_that_are_gone() -> None:
    meters = Meters()
    meters.report(SELECT, WorkReport(10, 5, 100, 40, 0.1), at_s=1)
    meters.report(FAST, WorkReport(5, 5, 40, 40, 0.1), at_s=2)
    restored = Meters.from_json(json.loads(json.dumps(meters.to_json())))
    assert restored.facts() == meters.facts()
    restored.keep_only([FAST])
    assert list(restored.facts()) == [FAST]


def test_meters_of_two_shards_add_up() -> None:
    one, other = OperatorMeter(), OperatorMeter()
    one.add(WorkReport(10, 10, 100, 100, 1.0), at_s=1)
    other.add(WorkReport(30, 0, 300, 0, 1.0), at_s=2)
    facts = one.plus(other).facts()
    assert facts is not None
    assert (facts.selectivity, facts.service_s) == (0.25, 0.05)
