"""Sources that are passed over when they are silent (``idle_timeout``): the answer is the reference's over all rows
that were not late by it, in order.

Joins of two streams and of many, tuples waiting or results, and there and back at any time; one shard and three,
budgets, restored at each step or not, held results in memory or in the store. Which sources are idle is in
``idle_cases.py``; examples with fixed rows in ``engine/test_progress.py``.
"""

from __future__ import annotations

from dataclasses import replace

import engine_cases as cases
import idle_cases as idle
import multiway_cases as multi
import outcomes
import pytest
from engine_cases import Case, Way, examples
from hypothesis import event, given
from hypothesis import strategies as st

from headrace import reference
from headrace.model import QueryId, StreamId
from headrace.plan.queries import Output, Query, Source


def assert_answers(run: idle.Run, case: Case, way: Way) -> None:
    """Row for row on one shard; on several the same rows, and no micro-batch goes back in time."""
    rest = run.wanted(case)
    for query in case.queries:
        answer, rows = (
            outcomes.shown(reference.answer(query, rest.catalog, rest.arrivals)),
            outcomes.got(run.host, query),
        )
        assert outcomes.same_rows(rows, answer)
        outcomes.assert_batches_in_order(run.host, query)
        assert way.shards > 1 or rows == answer


def finished(run: idle.Run, way: Way) -> idle.Run:
    """The run with what is only joined when progress has passed a stretch of time, which needs an end."""
    if way.options.reevaluate_us:
        run.host.end()
    return run


@pytest.mark.parametrize("shards", [1, 3])
@given(data=st.data())
@examples(36)
def test_joins_of_two_give_the_answer_of_all_rows_that_were_not_late(shards: int, data: st.DataObject) -> None:
    """And nothing waits when all sources are idle."""
    case = data.draw(st.one_of(cases.cases(kinds="all"), cases.busy_cases()))
    way, idling = data.draw(idle.ways((shards,))), data.draw(idle.idlings(case.catalog))
    run = finished(idle.run(case, way, idling), way)
    event(f"rows that were passed: {min(len(run.passed), 3)}")
    assert_answers(run, case, way)


@pytest.mark.parametrize("shards", [1, 3])
@given(data=st.data())
@examples(28)
def test_joins_of_many_give_the_answer_of_all_rows_that_were_not_late(shards: int, data: st.DataObject) -> None:
    case = data.draw(st.one_of(multi.inputs(most_queries=2), multi.busy_inputs(most_queries=2)))
    way, idling = data.draw(idle.ways((shards,))), data.draw(idle.idlings(case.catalog))
    run = finished(idle.run(case, way, idling), way)
    event(f"rows that were passed: {min(len(run.passed), 3)}")
    assert_answers(run, case, way)


@given(data=st.data())
@examples(26)
def test_what_comes_too_late_is_rejected_once_and_nothing_else_is(data: st.DataObject) -> None:
    """Every stream is read whole by one query, as a row that no query reads is nobody's. Of streams that are never
    idle, only what is behind its own source is late."""
    case = data.draw(cases.cases(most_queries=2, kinds="all"))
    readers = tuple(whole(stream.name) for stream in case.catalog.streams)
    case = replace(case, queries=(*case.queries, *readers))
    way, idling = data.draw(idle.ways()), data.draw(idle.idlings(case.catalog))
    run = idle.run(case, way, idling)
    assert outcomes.rejected(run.host) == run.dead_letters(case)
    ever = {stream for some in idling.idle for stream, _ in some}
    own = reference.accepted(case.catalog, case.arrivals)
    assert {one for one in run.passed if one[0] not in ever} <= {
        (name, case.arrivals[name][seq]["id"]) for name, intake in own.items() for seq in intake.late
    }
    assert_answers(finished(run, way), case, way)


def whole(stream: StreamId) -> Query:
    """A stream's times and ids, none left out."""
    outputs = tuple(Output(name, cases.column(0, name)) for name in ("ts", "id"))
    return Query(QueryId(f"whole_{stream}"), (Source(stream, "s"),), (), outputs)


@given(data=st.data())
@examples(20)
def test_a_restored_shard_passes_idle_sources_as_the_one_that_was_kept(data: st.DataObject) -> None:
    """Every micro-batch, row for row."""
    case = data.draw(st.one_of(cases.cases(kinds="all"), multi.inputs(most_queries=2)))
    way, idling = data.draw(idle.ways()), data.draw(idle.idlings(case.catalog))
    kept, restored = (idle.run(case, replace(way, restoring=one), idling) for one in (False, True))
    assert kept.passed == restored.passed
    for query in case.queries:
        assert outcomes.got_by_batch(kept.host, query) == outcomes.got_by_batch(restored.host, query)
    assert outcomes.rejected(kept.host) == outcomes.rejected(restored.host)
    outcomes.assert_store_holds_what_is_needed(restored.host)


@given(data=st.data())
@examples(14)
def test_what_is_late_does_not_depend_on_the_approach_or_the_shards(data: st.DataObject) -> None:
    case = data.draw(st.one_of(cases.cases(kinds="all"), multi.inputs(most_queries=2)))
    way, idling = data.draw(idle.ways((3,))), data.draw(idle.idlings(case.catalog))
    ways = (way, replace(way, filter_order=(False,)), replace(way, filter_order=(True,)))
    runs = [finished(idle.run(case, one, idling), one) for one in ways]
    for run in runs[1:]:
        assert run.passed == runs[0].passed
        assert outcomes.rejected(run.host) == outcomes.rejected(runs[0].host)
        for query in case.queries:
            assert outcomes.same_rows(outcomes.got(run.host, query), outcomes.got(runs[0].host, query))
