"""What waits before the operators after a join: aggregates that share what they read, and other queries that come or go
in the middle of a backlog."""

from __future__ import annotations

import engine_cases as cases
import pytest
from engine_cases import Case, Row, Way

from headrace.engine.cutting import BlockCut
from headrace.engine.dispatching import Scheduling
from headrace.engine.shard import ShardOptions
from headrace.model import Catalog, Stream, StreamId
from headrace.plan.queries import Query
from headrace.reference_aggregates import evaluation_times, grouped_answer
from headrace.sql import read_script

A, B = StreamId("a"), StreamId("b")
CATALOG = Catalog(tuple(Stream(name, cases.WIDE, "ts") for name in (A, B)))
STREAMS = "".join(
    f"CREATE STREAM {name} ({', '.join(f'{one.name} {one.type}' for one in cases.WIDE)})"
    " WITH (connector = 'generator', time = 'ts');"
    for name in (A, B)
)
ROWS: list[Row] = [cases.row(number / 2, number, k=1, n=number % 5) for number in range(24)]
CASE = Case(CATALOG, {A: ROWS, B: ROWS}, ())


def queries_of(*texts: str) -> tuple[Query, ...]:
    """Queries over a and b, joined by k: what is selected, and all else from WHERE's further conditions on."""
    joined = "FROM a, b WHERE a.k = b.k"
    parts = [text.partition(" | ") for text in texts]
    told = [f"CREATE QUERY {selected.replace(': ', ' AS SELECT ', 1)} {joined} {more};" for selected, _, more in parts]
    return tuple(read_script(STREAMS + "".join(told)).queries)


def way_of(strategy: str, shards: int, *, restoring: bool, ahead: bool = False) -> Way:
    """Micro-batches of four tuples, of which the budget does a part."""
    options = ShardOptions(
        block=BlockCut(span_us=cases.SECOND_US),
        scheduling=Scheduling(strategy, "static"),
        reevaluate_us=cases.SECOND_US,
    )
    return Way((4,), shards=shards, options=options, probes=8, restoring=restoring, filter_order=(ahead,))


@pytest.mark.parametrize("shards", [1, 2])
def test_aggregates_that_read_the_same_get_it_as_far_as_each_ones_window_reaches(shards: int) -> None:
    case = Case(
        CATALOG,
        CASE.arrivals,
        queries_of(
            "small: a.k, AVG(b.n) AS v | GROUP BY a.k WINDOW 1 SECOND",
            "large: a.k, SUM(b.n) AS v | GROUP BY a.k WINDOW 5 SECONDS",
        ),
    )
    host = cases.run(case, way_of("chain", shards, restoring=False))
    for query in case.queries:
        times = evaluation_times(query, CATALOG, case.arrivals, host.evaluated[query.name][-1], cases.SECOND_US)
        assert cases.got(host, query) == cases.shown(grouped_answer(query, CATALOG, case.arrivals, times))
