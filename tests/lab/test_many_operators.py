"""The setting of paper 003 simulated: who has the best latency, who needs the least memory, who starves."""

from __future__ import annotations

from functools import cache

import pytest

from headrace.engine.choosing import FAIRNESS
from headrace.engine.strategies import STRATEGIES, StrategyOptions
from headrace.lab.many_operators import Setting, many_operators
from headrace.lab.simulation import Arrivals, Simulated, bursty_arrivals, simulate

TICK_S, SLICE_S = 0.5, 0.25
SECONDS = 60.0
LOAD = 0.85
"""In the long run; bursts take more time than there is."""


def simulated(strategy: str, limit_bytes: float | None = None, seed: int = 11) -> Simulated:
    return _simulated(strategy, limit_bytes, seed)


@cache
def _simulated(strategy: str, limit_bytes: float | None, seed: int) -> Simulated:
    setting = many_operators(LOAD)
    arrivals = bursty_arrivals(setting, SECONDS, TICK_S, seed)
    options = StrategyOptions(slice_s=SLICE_S, limit_bytes=limit_bytes)
    return simulate(setting, arrivals, TICK_S, strategy, options=options)


def test_the_setting_is_the_papers() -> None:
    setting = many_operators(LOAD)
    graph = setting.graph
    assert (len(graph.queries), len(graph.sources)) == (16, 5)
    assert len(graph.names) > 100
    assert any(graph.uses(name) > 1 for name in graph.names)
    selectivities = [one.selectivity for one in setting.facts.values()]
    assert min(selectivities) < 0.2
    assert 0 < sum(one > 1 for one in selectivities) < 10
    assert setting.load == pytest.approx(LOAD)


@pytest.mark.parametrize("seed", [7, 11])
def test_path_capacity_has_the_best_tuple_latency(seed: int) -> None:
    latencies = {name: simulated(name, seed=seed).record.mean_latency_s for name in STRATEGIES}
    assert all(latencies["path"] < latencies[name] for name in ("fifo", "chain", "segment", "simplified"))
    assert latencies["simplified"] < latencies["chain"]


@pytest.mark.parametrize("seed", [7, 11])
def test_chain_and_segment_need_the_least_memory_and_simplified_lies_between(seed: int) -> None:
    for peak in (True, False):
        used = {
            name: one.record.most_bytes if peak else one.record.mean_bytes
            for name in STRATEGIES
            for one in [simulated(name, seed=seed)]
        }
        assert max(used["chain"], used["segment"]) < used["simplified"] < used["path"] < used["fifo"]


def test_all_strategies_deliver_the_same() -> None:
    delivered = [simulated(name).record.delivered for name in STRATEGIES]
    assert delivered == pytest.approx([delivered[0]] * len(delivered))
    assert all(simulated(name).left_tuples == 0 for name in STRATEGIES)


@pytest.mark.parametrize("part", [0.3, 0.5, 0.8])
def test_threshold_is_never_above_its_memory_limit(part: float) -> None:
    limit_bytes = part * simulated("path").record.most_bytes
    run = simulated("threshold", limit_bytes)
    assert run.record.most_bytes <= limit_bytes
    assert run.memory.mode_changes > 0
    assert run.record.delivered == pytest.approx(simulated("path").record.delivered)


def test_threshold_is_as_fast_as_path_capacity_where_memory_is_plenty() -> None:
    run = simulated("threshold", 4 * simulated("path").record.most_bytes)
    assert run.record.mean_latency_s == pytest.approx(simulated("path").record.mean_latency_s, rel=0.01)
    assert run.memory.mode_changes == 0


def test_threshold_is_close_to_path_capacity_below_its_limit() -> None:
    path, chain = simulated("path"), simulated("chain")
    run = simulated("threshold", 0.8 * path.record.most_bytes)
    assert run.record.mean_latency_s - path.record.mean_latency_s < 0.5 * (
        chain.record.mean_latency_s - path.record.mean_latency_s
    )


def test_sources_wait_when_memory_is_short() -> None:
    assert simulated("threshold", 0.3 * simulated("path").record.most_bytes).throttled_ticks > 0
    assert simulated("path").throttled_ticks == 0


# --- an hour of overload


@cache
def overloaded() -> tuple[Setting, Arrivals]:
    setting = many_operators(load=1.4)
    return setting, bursty_arrivals(setting, 3_600.0, 10.0, seed=7)


LONGEST_S = 1_800.0
"""Of an hour; the first form has a turn for each of the hundred operators in a thousand seconds."""


def run_overloaded(strategy: str, fairness: str) -> tuple[list[str], float]:
    """The operators that never had a turn, and the longest that any had tuples and no turn."""
    setting, arrivals = overloaded()
    options = StrategyOptions(slice_s=4.0, oldest_every_s=10.0)
    run = simulate(setting, arrivals, 10.0, strategy, fairness=fairness, options=options, drain=False)
    assert run.left_tuples > 0
    return [name for name, one in run.record.operators.items() if not one.turns], run.longest_wait_s


@pytest.mark.parametrize("strategy", ["chain", "path", "segment", "simplified", "threshold"])
def test_operators_starve_under_priorities_that_never_change(strategy: str) -> None:
    never, longest_s = run_overloaded(strategy, "static")
    assert never
    assert longest_s > 1.5 * LONGEST_S


@pytest.mark.parametrize("fairness", [name for name in FAIRNESS if name != "static"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_operator_starves_under_the_starvation_free_forms(strategy: str, fairness: str) -> None:
    never, longest_s = run_overloaded(strategy, fairness)
    assert never == []
    assert longest_s < LONGEST_S
