"""Continuous aggregates: every way of running gives the rows of the reference, at every evaluation time.

A way decides *when* values are looked at (each micro-batch, every so often, whenever anything changes); at those times
they are what the reference says, on any number of shards, under any policy and budget, restored or not.
"""

from __future__ import annotations

from dataclasses import replace

import aggregate_cases
import engine_cases as cases
from engine_cases import Case, Way, examples
from hypothesis import given
from hypothesis import strategies as st
from local_host import LocalHost
from strategies import SECOND_US

from headrace.plan.queries import Query
from headrace.reference_aggregates import evaluation_times, grouped_answer


@st.composite
def grouped_ways(draw: st.DrawFn, shards: tuple[int, ...] = (1, 2, 3)) -> Way:
    """Ways of running, with one of the ways of evaluating."""
    way = draw(cases.ways(shards))
    kind = draw(st.sampled_from(("each", "eager", "every")))
    every_us = draw(st.sampled_from((SECOND_US // 2, SECOND_US, 3 * SECOND_US))) if kind == "every" else 0
    return replace(way, options=replace(way.options, is_eager=kind == "eager", reevaluate_us=every_us))


def expected(case: Case, way: Way, query: Query, host: LocalHost) -> list[tuple[object, ...]]:
    times = host.evaluated.get(query.name, [])
    if times and (way.options.is_eager or way.options.reevaluate_us):
        every_us = way.options.reevaluate_us or None
        times = evaluation_times(query, case.catalog, case.arrivals, times[-1], every_us)
    return cases.shown(grouped_answer(query, case.catalog, case.arrivals, times))


@given(case=aggregate_cases.grouped_cases(), way=grouped_ways())
@examples(150)
def test_every_way_gives_the_rows_of_the_reference(case: Case, way: Way) -> None:
    host = cases.run(case, way)
    for query in case.queries:
        assert cases.got(host, query) == expected(case, way, query, host)
