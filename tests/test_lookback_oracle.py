"""Aggregates that come live begin with the results of all tuples that are held, as if they had been there before.

A query that keeps every tuple for ever runs from the beginning; another one, over the same join, comes later. From its
first evaluation on its rows are the reference's, over all tuples there have been, whatever waits when it comes.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace

import aggregate_cases
import engine_cases as cases
import outcomes
import pytest
from aggregate_cases import EPOCH_US
from engine_cases import Case, Way, examples
from hypothesis import given
from hypothesis import strategies as st
from local_host import LocalHost
from strategies import EPOCH, SECOND_US
from test_aggregates_oracle import grouped_ways

from headrace.engine.cutting import BlockCut
from headrace.engine.dispatching import Scheduling
from headrace.engine.shard import ShardOptions
from headrace.engine.strategies import STRATEGIES
from headrace.model import Catalog, QueryId, Stream, StreamId
from headrace.plan.queries import Extent, Measure, Output, Query
from headrace.reference_aggregates import evaluation_times, grouped_answer
from headrace.sql import read_script

FOR_EVER = 10_000 * SECOND_US


def keeping(query: Query) -> Query:
    """A query over the same join that reads every column and keeps every tuple."""
    outputs = [
        Output(f"{one.name}{number}", cases.column(number, one.name))
        for number in range(len(query.sources))
        for one in cases.WIDE.columns
    ]
    windows = tuple(Extent(Measure.TIME, FOR_EVER) for _ in query.sources)
    return replace(query, name=QueryId("keep"), outputs=tuple(outputs), grouping=None, windows=windows)


def first_us(host: LocalHost, query: Query) -> int:
    """The time of a query's first row."""
    first = host.rows(query.name)[0]["ts"]
    return EPOCH_US + round((first - EPOCH).total_seconds() * SECOND_US)  # type: ignore[operator]


def progress_us(host: LocalHost) -> int | None:
    """Until when all had been taken in."""
    (group,) = json.loads(host.shards[0].manifest())["groups"].values()
    return group["progress"] and group["progress"][0] - 1  # type: ignore[no-any-return]


def expected(case: Case, way: Way, query: Query, host: LocalHost) -> list[tuple[object, ...]]:
    """The reference's rows at the query's evaluation times, from its first row's on."""
    rows, times = host.rows(query.name), host.evaluated.get(query.name, [])
    if times and rows and (way.options.is_eager or way.options.reevaluate_us):
        begun_us, every_us = first_us(host, query), way.options.reevaluate_us or None
        later = evaluation_times(query, case.catalog, case.arrivals, times[-1], every_us)
        times = sorted({begun_us, *(time for time in later if time > begun_us)})
    return outcomes.shown(grouped_answer(query, case.catalog, case.arrivals, times))


@given(
    case=st.sampled_from((2, 2, 2, 3)).flatmap(lambda sources: aggregate_cases.grouped_cases(1, sources)),
    way=st.one_of(grouped_ways(), cases.busy_ways()),
    at=st.integers(1, 6),
    smaller=st.booleans(),
)
@examples(200)
def test_an_aggregate_that_comes_live_begins_with_all_results_of_held_tuples(
    case: Case, way: Way, at: int, smaller: bool
) -> None:
    """``smaller``: one over the same groups in a smaller window has been there, too."""
    (late,) = case.queries
    half = tuple(replace(one, size=one.size // 2) for one in late.windows)
    there = (keeping(late), *([replace(late, name=QueryId("small"), windows=half)] if smaller else []))
    host = cases.host_for(replace(case, queries=there), way)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if number == at:
            host.change(case.catalog, (*there, late))
        cases.arrive(host, chunks)
    host.end()
    if late.name not in host.results:
        return
    for query in (late, *there[1:]):
        assert outcomes.got(host, query) == expected(case, way, query, host)


A, B = StreamId("a"), StreamId("b")
CATALOG = Catalog(tuple(Stream(name, cases.WIDE, "ts") for name in (A, B)))
STREAMS = "".join(
    f"CREATE STREAM {name} ({', '.join(f'{one.name} {one.type}' for one in cases.WIDE)})"
    " WITH (connector = 'generator', time = 'ts');"
    for name in (A, B)
)
ROWS = [cases.row(number / 2, number, k=number % 2, n=number % 5) for number in range(40)]
"""Two a second; half of them meet."""
JOINED = "FROM a, b WHERE a.k = b.k"
ALL = "a.ts AS ta, b.ts AS tb, a.id AS ia, b.id AS ib, a.n AS na, b.n AS nb, a.k AS ka, b.k AS kb"
KEEP, NEAR = (
    f"keep AS SELECT {ALL} {JOINED} WINDOW 1 HOUR",
    f"near AS SELECT a.id, b.id AS ib {JOINED} WINDOW 2 SECONDS",
)
SUMS = "a.k, COUNT(*) AS c, COUNT(DISTINCT b.n) AS d, SUM(b.id) AS s, MIN(a.id) AS least"
SAME = f"same AS SELECT {SUMS} {JOINED} GROUP BY a.k WINDOW 3 SECONDS"
ALIKE = (
    f"alike AS SELECT a.k, COUNT(DISTINCT b.n) AS d, AVG(b.id) AS s, MAX(a.id) AS m {JOINED} GROUP BY a.k WINDOW 4 S"
)
"""Of what the late one reads, other values: they are given the same rows."""
LATE = f"late AS SELECT {SUMS} {JOINED} GROUP BY a.k HAVING COUNT(*) > 1 WINDOW 7 SECONDS"


def read(*texts: str) -> tuple[Query, ...]:
    return tuple(read_script(STREAMS + "".join(f"CREATE QUERY {text};" for text in texts)).queries)


def drawn_way(draw: random.Random) -> Way:
    """Micro-batches of some tuples, of which a budget mostly does a part."""
    options = ShardOptions(
        policy=draw.choice(("lwo", "swf", "mqt")),
        block=BlockCut(span_us=SECOND_US),
        scheduling=Scheduling(draw.choice(tuple(STRATEGIES)), "static") if draw.random() < 0.8 else None,
        reevaluate_us=draw.choice((0, SECOND_US, 4 * SECOND_US)),
    )
    options = replace(options, is_eager=not options.reevaluate_us and draw.random() < 0.3)
    ahead = draw.choice(((False,), (False,), (True,), (False, True)))
    probes = draw.choice((None, 6, 15, 40))
    return Way(
        (draw.choice((3, 4)),), (0, draw.choice((0, 0, 2))), draw.choice((1, 3)), options, True, probes, None, 1, ahead
    )


@pytest.mark.parametrize("seed", range(80))
def test_whatever_runs_and_waits_when_it_comes_an_aggregate_has_the_values_of_whole_windows(seed: int) -> None:
    draw = random.Random(seed)
    asked = [KEEP, *(one for one in (NEAR, SAME, ALIKE) if draw.random() < 0.6)]
    there, (late,) = read(*asked), read(LATE)
    case, way = Case(CATALOG, {A: ROWS, B: ROWS[:30]}, there), drawn_way(draw)
    host, at = cases.host_for(case, way), draw.randrange(2, 7)
    known_us = None
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if number == at:
            known_us = progress_us(host)
            host.change(CATALOG, (*there, late))
        cases.arrive(host, chunks)
        if draw.random() < 0.3:
            host.go_on()
    host.end()
    is_new = SAME not in asked and way.probes is None
    assert not is_new or known_us is None or first_us(host, late) > known_us, "it begins when it comes"
    for query in (late, *(one for one in there if one.grouping is not None)):
        assert outcomes.got(host, query) == expected(case, way, query, host)


@pytest.mark.parametrize("shards", [1, 3])
def test_what_waits_to_be_joined_when_an_aggregate_comes_is_joined_as_far_as_it_looks(shards: int) -> None:
    """Nobody else looks as far; nothing has been let go of yet."""
    (near,), (late,) = read(NEAR.replace("a.id, b.id AS ib", ALL)), read(LATE)
    options = ShardOptions(block=BlockCut(span_us=SECOND_US), reevaluate_us=SECOND_US)
    case, way = Case(CATALOG, {A: ROWS[:10], B: ROWS[:10]}, (near,)), Way(shards=shards, options=options, probes=1)
    host = cases.host_for(case, way)
    for chunks in cases.micro_batches(case, way):
        cases.arrive(host, chunks)
    assert host.is_behind
    host.change(CATALOG, (near, late))
    host.end()
    assert outcomes.got(host, late) == expected(case, way, late, host)
