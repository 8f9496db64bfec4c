"""Paper 003's setting as SQL in the engine: the queries, and that every strategy gives the same rows in the end."""

from __future__ import annotations

from collections import Counter
from functools import cache

from headrace.lab.queue_strategies import Calibrated, EngineRun, calibrate, run_together
from headrace.lab.sixteen_queries import QUERIES, Sixteen, counted
from headrace.plan.graph_building import operator_graph
from headrace.plan.shard_graph import grouping_of, scheduled_graph
from headrace.plan.sharing import share
from headrace.spark.generator import pace_of, spec_of
from headrace.sql import read_script

OVERLOAD = 4.0
"""So much that it is one whatever else the machine does meanwhile."""
ROWS = ("q01", "q03", "q04", "q06", "q13")
"""The queries without aggregates: those are evaluated as often as there are micro-batches."""


def test_the_setting_is_the_papers() -> None:
    script = read_script(Sixteen().program())
    graph = operator_graph(share(script.catalog, tuple(script.queries)), grouping_of)
    assert (len(graph.queries), len(graph.sources)) == (16, 5)
    assert len(graph.names) > 100
    found = counted(share(script.catalog, tuple(script.queries)))
    assert (found.operators, found.scheduled, found.packing) == (len(graph.names), 34, 67)
    scheduled = scheduled_graph(share(script.catalog, tuple(script.queries)))
    assert Counter(one.kind.value for one in scheduled.operators) == {"join": 15, "select-project": 8, "aggregate": 11}
    assert {len(query.sources) for query in script.queries} == {1, 2, 5}
    assert [name for name in QUERIES if "GROUP BY" not in QUERIES[name]] == list(ROWS)


def test_four_of_each_query_are_more_than_a_hundred_operators_that_take_turns() -> None:
    script = read_script(Sixteen(variants=4).program())
    scheduled = scheduled_graph(share(script.catalog, tuple(script.queries)))
    kinds = Counter(one.kind.value for one in scheduled.operators)
    assert kinds == {"join": 51, "select-project": 32, "aggregate": 44}


def test_in_steps_every_micro_batch_brings_what_a_second_of_the_clock_would() -> None:
    stepped = read_script(Sixteen(is_stepped=True).program())
    paces = [pace_of(one) for one in stepped.catalog.streams]
    assert [(one.speed, one.step_us) for one in paces] == [(0.0, 20_000)] * 5
    paced = read_script(Sixteen().program())
    assert stepped.queries == paced.queries
    assert [spec_of(one, 0) for one in stepped.catalog.streams] == [spec_of(one, 0) for one in paced.catalog.streams]


@cache
def known() -> Calibrated:
    setting = Sixteen(seconds=0.08, scale=0.1)
    calibrate(setting)  # what is done for the first time takes longer, and is not what operators are like
    return calibrate(setting)


@cache
def runs() -> dict[str, EngineRun]:
    plain = run_together({name: (name, None) for name in ("fifo", "chain", "path")}, known(), OVERLOAD)
    limit_bytes = round(0.5 * plain["path"].peak_bytes)
    return plain | run_together({"threshold": ("threshold", limit_bytes)}, known(), OVERLOAD)


def test_all_strategies_deliver_the_same_rows() -> None:
    delivered = [[one.by_query.get(query, 0) for query in ROWS] for one in runs().values()]
    assert delivered == [delivered[0]] * len(delivered)
    assert sum(delivered[0]) > 0


def test_work_waits_in_an_overload_and_is_done_after_it() -> None:
    for one in runs().values():
        assert one.peak_bytes > 0
        assert one.moments[-1].queue_bytes == 0
        assert sum(moment.intervals for moment in one.moments) == known().setting.intervals
