"""Streams whose sources (``partition = ...``) have tuples at the very same time: ties are ordered as they arrived.

One file or several, with tuples of three sources mixed in each; every kind of window, of rows above all, because there
the order of ties decides which tuples count; two streams and more, one with itself too; one shard and several; restored
at each step or not. What a micro-batch's source tasks send may come in any order. The reference is held against DuckDB
on the same inputs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import duck
import engine_cases as cases
import multiway_cases as multi
import outcomes
import pytest
import strategies as some
from engine_cases import Case, Row, Way, examples
from hypothesis import given
from hypothesis import strategies as st
from local_host import LocalHost

from headrace import reference
from headrace.model import Catalog, QueryId, Stream, StreamId
from headrace.plan.functions import call
from headrace.plan.queries import Extent, Measure, Output, Query, Source

SHARDS = (1, 2, 4, 9)
_STEPS = (0, 0, 0, 0, 0, 1, 1, 2, -1, -2, None)
"""Seconds from one row to the next: mostly ties."""
_ROWS = {2: 12, 3: 8, 4: 6}


@st.composite
def parted_arrivals(draw: st.DrawFn, catalog: Catalog) -> dict[StreamId, list[Row]]:
    """Each stream's rows; sources and keys change from row to row."""
    found: dict[StreamId, list[Row]] = {}
    told = st.tuples(st.sampled_from(_STEPS), st.sampled_from((True, False, None)), st.sampled_from((1, 1, 1, 2)))
    for stream in catalog.streams:
        now, rows = 0, []
        for number, (step, source, key) in enumerate(draw(st.lists(told, max_size=_ROWS[len(catalog.streams)]))):
            now += max(step or 0, 0)
            seconds = None if step is None else now + min(step, 0)
            rows.append(cases.row(seconds, number, k=key, flag=source))
        found[stream.name] = rows
    return found


@st.composite
def parted_cases(draw: st.DrawFn, most_queries: int = 2) -> Case:
    """Two to four streams, most of them of several sources, and joins of any kind."""
    names = "bacd"[: draw(st.sampled_from((2, 2, 3, 4)))]
    delays = [draw(st.sampled_from((0, 0, 2))) * some.SECOND_US for _ in names]
    streams = [Stream(StreamId(name), cases.WIDE, "ts", delay) for name, delay in zip(names, delays, strict=True)]
    catalog = Catalog(tuple(cases.in_parts(one) if draw(st.integers(0, 3)) else one for one in streams))
    first = draw(multi.queries(catalog, "q0") if len(names) > 2 else cases.queries(catalog, "q0", kinds="all"))
    kinds = st.one_of(some.windows(len(first.sources)), _counted(len(first.sources)))
    more = [replace(first, name=QueryId(f"q{i}"), windows=draw(kinds)) for i in range(1, most_queries)]
    return Case(catalog, draw(parted_arrivals(catalog)), (first, *more))


def _counted(sources: int) -> st.SearchStrategy[tuple[Extent, ...]]:
    extents = st.integers(1, 4).map(lambda rows: Extent(Measure.ROWS, rows))
    return st.lists(extents, min_size=sources, max_size=sources).map(tuple)


def assert_answers(host: LocalHost, case: Case, shards: int) -> None:
    for query in case.queries:
        answer = outcomes.shown(reference.answer(query, case.catalog, case.arrivals))
        rows = outcomes.got(host, query)
        assert outcomes.same_rows(rows, answer)
        outcomes.assert_batches_in_order(host, query)
        assert shards > 1 or rows == answer


@pytest.mark.parametrize("shards", SHARDS)
@given(data=st.data())
@examples(60)
def test_ties_of_several_sources_are_ordered_as_they_arrived(shards: int, data: st.DataObject) -> None:
    case, way = data.draw(parted_cases()), data.draw(cases.ways(shards=(shards,)))
    assert_answers(cases.run(case, way), case, shards)


@pytest.mark.parametrize("shards", SHARDS[:3])
@given(data=st.data(), together=st.integers(2, 4))
@examples(30)
def test_several_files_of_one_micro_batch_count_in_their_order(shards: int, data: st.DataObject, together: int) -> None:
    case, way = data.draw(parted_cases()), data.draw(cases.ways(shards=(shards,)))
    host, orders = cases.host_for(case, way), dict.fromkeys(case.arrivals, 0)
    chunks = [one for batch in cases.micro_batches(case, way) for one in batch.items()]
    for begin in range(0, len(chunks), together):
        envelopes = []
        for name, rows in chunks[begin : begin + together]:
            orders[name] += 1
            envelopes += cases.packed(host, name, rows, orders[name])
        host.deliver(data.draw(st.permutations(envelopes)))
    host.end()
    assert_answers(host, case, shards)


@given(case=parted_cases(most_queries=1))
@examples(60)
def test_reference_gives_duckdbs_answer_row_for_row(case: Case) -> None:
    (query,) = case.queries
    answer = reference.answer(query, case.catalog, case.arrivals)
    independent = duck.answer(query, case.catalog, case.arrivals)
    assert len(answer) == len(independent)
    assert all(some.all_agree(*pair) for pair in zip(answer, independent, strict=True))


_PLAIN = tuple(Output(f"{name}0", cases.column(0, name)) for name in ("ts", "id"))


@given(case=parted_cases(), way=cases.ways())
@examples(40)
def test_what_is_late_is_late_within_its_source_alone(case: Case, way: Way) -> None:
    read = {source.stream for query in case.queries for source in query.sources}
    plain = tuple(
        Query(QueryId(f"all_{one.name}"), (Source(one.name, "s"),), (), _PLAIN)
        for one in case.catalog.streams
        if one.name not in read
    )
    host = cases.run(replace(case, queries=(*case.queries, *plain)), way)
    intakes = reference.accepted(case.catalog, case.arrivals)
    late = Counter(
        (str(name), "late", case.arrivals[name][seq]["id"]) for name, intake in intakes.items() for seq in intake.late
    )
    assert Counter({one: count for one, count in outcomes.rejected(host).items() if one[1] == "late"}) == late


# --- the case by which it was found

A, B = StreamId("a"), StreamId("b")


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_a_window_of_rows_counts_ties_of_two_sources_as_they_arrived(shards: int) -> None:
    """Sources take turns: a window of two rows always has one tuple of each, and never two of one."""
    catalog = Catalog((cases.in_parts(Stream(A, cases.WIDE, "ts")), Stream(B, cases.WIDE, "ts")))
    rows = [cases.row(1, number, flag=number % 2 == 0) for number in range(6)]
    later = [cases.row(2, 10 + number) for number in range(2)]
    outputs = tuple(Output(f"{name}{i}", cases.column(i, name)) for name in ("ts", "id") for i in (0, 1))
    joined = (call("=", cases.column(0, "k"), cases.column(1, "k")),)
    windows = (Extent(Measure.ROWS, 2), Extent(Measure.ROWS, 2))
    query = Query(QueryId("q"), (Source(A, "s0"), Source(B, "s1")), joined, outputs, windows)
    case = Case(catalog, {A: rows, B: later}, (query,))
    got = outcomes.got(cases.run(case, Way(shards=shards)), query)
    assert sorted(row[2:] for row in got) == [(4, 10), (4, 11), (5, 10), (5, 11)]
