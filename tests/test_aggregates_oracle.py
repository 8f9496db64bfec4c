"""Continuous aggregates: every way of running gives the rows of the reference, at every evaluation time.

A way decides *when* values are looked at (each micro-batch, every so often, whenever anything changes); at those times
they are what the reference says, on any number of shards, under any policy and budget, restored or not.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import aggregate_cases
import engine_cases as cases
import outcomes
from aggregate_cases import EPOCH_US
from engine_cases import Case, Way, examples
from hypothesis import given
from hypothesis import strategies as st
from local_host import LocalHost
from strategies import EPOCH, SECOND_US

from headrace.model import QueryId
from headrace.plan.queries import Query
from headrace.reference_aggregates import counted, evaluation_times, grouped_answer


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
    return outcomes.shown(grouped_answer(query, case.catalog, case.arrivals, times))


@given(case=aggregate_cases.grouped_cases(), way=grouped_ways())
@examples(150)
def test_every_way_gives_the_rows_of_the_reference(case: Case, way: Way) -> None:
    host = cases.run(case, way)
    for query in case.queries:
        assert outcomes.got(host, query) == expected(case, way, query, host)


@given(
    case=aggregate_cases.grouped_cases(), way=grouped_ways(), pauses=st.lists(st.integers(0, 2), min_size=1, max_size=4)
)
@examples(60)
def test_restored_aggregates_go_on_as_those_that_were_kept(case: Case, way: Way, pauses: list[int]) -> None:
    """Not only the rows in all: every micro-batch, row for row, and what is stored."""
    hosts = [cases.host_for(case, replace(way, restoring=restoring)) for restoring in (False, True)]
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        for host in hosts:
            cases.arrive(host, chunks)
            for _ in range(pauses[number % len(pauses)]):
                host.go_on()
    for host in hosts:
        host.end()
    kept, restored = hosts
    for query in case.queries:
        assert outcomes.got_by_batch(kept, query) == outcomes.got_by_batch(restored, query)
    assert sorted(kept.combined.blobs) == sorted(restored.combined.blobs)
    assert [sorted(store.blobs) for store in kept.stores] == [sorted(store.blobs) for store in restored.stores]


@given(
    case=aggregate_cases.grouped_cases(most_queries=4), way=grouped_ways(), at=st.integers(0, 6), gone=st.integers(0, 3)
)
@examples(60)
def test_queries_that_stay_do_not_notice_others_that_come_and_go(case: Case, way: Way, at: int, gone: int) -> None:
    """One query is dropped and comes again later; the others' rows are what they would be."""
    left = case.queries[gone % len(case.queries)]
    others = tuple(query for query in case.queries if query is not left)
    host = cases.host_for(case, way)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if others and number in (at, at + 2):
            host.change(case.catalog, others if number == at else (*others, left))
        cases.arrive(host, chunks)
    host.end()
    for query in others:
        assert outcomes.got(host, query) == expected(case, way, query, host)


@given(case=aggregate_cases.grouped_cases(most_queries=2), way=grouped_ways(), at=st.integers(0, 6))
@examples(60)
def test_a_query_that_comes_later_is_right_once_its_window_has_passed(case: Case, way: Way, at: int) -> None:
    first, late = case.queries[0], case.queries[-1]
    host = cases.host_for(replace(case, queries=(first,)), way)
    came_us: int | None = None
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if number == at:
            host.change(case.catalog, case.queries)
            came_us = host.newest_us
        cases.arrive(host, chunks)
    host.end()
    if came_us is None or late is first:
        return
    # What is in its window then came after it did; and so did what was in it at the evaluation before.
    passed_us = came_us + max(extent.size for extent in late.windows)
    settled_us = next((time for time in host.evaluated.get(late.name, []) if time > passed_us), None)
    if settled_us is None:
        return
    since = EPOCH + dt.timedelta(microseconds=settled_us - EPOCH_US)

    def settled(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
        return [row for row in rows if row[-1] > since]  # type: ignore[operator]

    assert settled(outcomes.got(host, late)) == settled(expected(case, way, late, host))


@given(case=aggregate_cases.grouped_cases(most_queries=1), way=grouped_ways(), at=st.integers(0, 6), data=st.data())
@examples(60)
def test_a_query_that_comes_later_in_a_window_that_is_there_is_right_from_its_first_evaluation_on(
    case: Case, way: Way, at: int, data: st.DataObject
) -> None:
    """It asks for the same groups, perhaps with other columns or without HAVING, so all that it counts is there."""
    (first,) = case.queries
    assert first.grouping is not None
    shown = data.draw(st.lists(st.sampled_from(first.outputs), min_size=1, unique=True))
    grouping = data.draw(st.sampled_from((first.grouping, replace(first.grouping, having=None))))
    late = replace(first, name=QueryId("late"), outputs=tuple(shown), grouping=grouping)
    host = cases.host_for(case, way)
    begun_us = None
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if number == at:
            begun_us = host.evaluated.get(first.name, [None])[-1]
            host.change(case.catalog, (first, late))
        cases.arrive(host, chunks)
    if begun_us is None:
        return
    host.end()
    times = [time for time in host.evaluated[first.name] if time > begun_us]
    assert host.evaluated.get(late.name, []) == times
    if times and (every_us := way.options.reevaluate_us):
        times = list(range(begun_us + every_us, times[-1] + 1, every_us))
    elif times and way.options.is_eager:
        # At the first tuple of any group, which may be after others have left.
        coming = [one.first_us for one in counted(first, case.catalog, case.arrivals)]
        first_us = min([time for time in coming if time > begun_us], default=times[-1])
        changes = evaluation_times(first, case.catalog, case.arrivals, times[-1])
        times = [first_us, *(time for time in changes if time > first_us)]
    answer = grouped_answer(late, case.catalog, case.arrivals, times)
    assert outcomes.got(host, late) == outcomes.shown(answer)
