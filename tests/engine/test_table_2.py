"""Table 2 of paper 003, row by row: FIFO and Chain on the operators of Table 1.

A time is an instant. What its row tells of queues is after the tuples of that instant have come; latency and throughput
are of what reached the root since the row before. A select takes a tuple in one unit; a fifth of it comes out, which
the join, at a fifth of a tuple a unit, takes in another.

      time   1         2         3         4         5
      FIFO   | select  |  join   | select  |  join   |          input 1's first tuple is out at 3, after 2 units
      Chain  | select  | select  | select  | select  | join     all selects come first: they free more
"""

from __future__ import annotations

import pytest

from headrace.engine.choosing import Scheduler
from headrace.engine.graphrun import GraphRun
from headrace.engine.queues import Batch
from headrace.engine.simulated import SimulatedClock, simulated_work
from headrace.engine.strategies import StrategyMemory, StrategyOptions
from headrace.model import QueryId
from headrace.plan.capacities import OperatorFacts
from headrace.plan.opgraph import OperatorGraph, OperatorKind, OperatorName, OperatorNode

ONE, TWO, THREE = (OperatorName(name) for name in ("select 1", "select 2", "join 3"))
FIGURE_1 = OperatorGraph(
    (
        OperatorNode(ONE, OperatorKind.SELECT, "", ("1",)),
        OperatorNode(TWO, OperatorKind.SELECT, "", ("2",)),
        OperatorNode(THREE, OperatorKind.JOIN, "", (ONE, TWO), (QueryId("q"),)),
    )
)
TABLE_1 = {ONE: OperatorFacts(1, 0.2), TWO: OperatorFacts(1, 0.2), THREE: OperatorFacts(1 / 0.2, 0.8)}

#  time, input 1, input 2, then FIFO and Chain: queue size, tuple latency, throughput
TABLE_2 = (
    (1,  1, 0,  1.0, 1.0,  None, None,  0.0,  0.0),
    (2,  0, 1,  1.2, 1.2,  None, None,  0.0,  0.0),
    (3,  1, 1,  3.0, 2.4,  2,    None,  0.16, 0.0),
    (4,  0, 0,  2.2, 1.6,  None, None,  0.0,  0.0),
    (5,  0, 0,  2.0, 0.8,  3,    None,  0.16, 0.0),
    (6,  0, 0,  1.2, 0.6,  None, 5,     0.0,  0.16),
    (7,  0, 0,  1.0, 0.4,  4,    5,     0.16, 0.16),
    (8,  0, 0,  0.2, 0.2,  None, 5,     0.0,  0.16),
    (9,  0, 0,  0.0, 0.0,  6,    6,     0.16, 0.16),
    (10, 1, 0,  1.0, 1.0,  None, None,  0.0,  0.0),
)  # fmt: skip


def run_of(strategy: str) -> GraphRun:
    options, memory = StrategyOptions(slice_s=1), StrategyMemory()
    scheduler = Scheduler.of(strategy, "static", FIGURE_1, TABLE_1, options, memory)
    return GraphRun(FIGURE_1, scheduler, TABLE_1, simulated_work(TABLE_1), SimulatedClock(TABLE_1))


def measured_rows(strategy: str) -> list[tuple[float, float | None, float]]:
    """Queue size, tuple latency and throughput at each time."""
    run, rows = run_of(strategy), []
    for time, first, second, *_ in TABLE_2:
        before = len(run.record.deliveries)
        run.work(until_s=time)
        for source, tuples in (("1", first), ("2", second)):
            if tuples:
                run.offer(source, Batch(tuples, tuples, arrived_s=time))
        run.validate()
        out = run.record.deliveries[before:]
        rows.append((run.tuples, out[0].latency_s if out else None, sum(one.tuples for one in out)))
    return rows


@pytest.mark.parametrize(("strategy", "column"), [("fifo", 0), ("chain", 1)])
def test_every_row_is_as_printed(strategy: str, column: int) -> None:
    for row, measured in zip(TABLE_2, measured_rows(strategy), strict=True):
        printed = (row[3 + column], row[5 + column], row[7 + column])
        assert measured == pytest.approx(printed), f"time {row[0]}"


def test_the_lower_envelope_puts_the_selects_before_the_join() -> None:
    scheduler = Scheduler.of("chain", "static", FIGURE_1, TABLE_1, StrategyOptions(), StrategyMemory())
    assert [(one.operators, pytest.approx(one.priority)) for one in scheduler.units(run_of("chain").waiting())] == [
        ((ONE,), 0.8),
        ((TWO,), 0.8),
        ((THREE,), 0.2),
    ]
