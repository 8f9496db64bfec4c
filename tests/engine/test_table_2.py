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
from headrace.engine.strategies import StrategyMemory, StrategyOptions
from headrace.lab.operator_strategies import FIGURE_1, ONE, TABLE_1, TABLE_2, THREE, TWO, measured_rows, run_of


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
