"""Joins that run as trees of joins of two: with every probe allowed they give the reference's answer, row for row.

The cases are those of joins of many streams (``multiway_cases.py``) and of two (``engine_cases.py``), each query with
``ON OVERLOAD ADAPT`` and a freshness that nothing is too old for; trees are of any shape.
"""

from __future__ import annotations

from dataclasses import replace

import engine_cases as cases
import multiway_cases as multi
import pytest
from engine_cases import Case, Way, examples
from hypothesis import given
from hypothesis import strategies as st
from multiway_cases import Shape
from test_multiway_oracle import assert_answers, counts_rows, wanted

from headrace.plan.queries import Extent, Overload, Query

SHARDS = (1, 2, 4, 9)
LONG = 10**15


def adapting(query: Query) -> Query:
    """The query, with nothing that may be too old."""
    freshness = tuple(Extent(window.measure, LONG) for window in query.windows)
    return replace(query, overload=Overload.ADAPT, freshness=freshness) if len(query.sources) > 1 else query


def all_adapting(case: Case) -> Case:
    return replace(case, queries=tuple(map(adapting, case.queries)))


@pytest.mark.parametrize("shape", Shape, ids=lambda shape: shape.name.lower())
@given(data=st.data())
@examples(25)
def test_one_shard_gives_the_answer_row_for_row(shape: Shape, data: st.DataObject) -> None:
    case, way = all_adapting(data.draw(multi.inputs(shape))), data.draw(cases.ways(shards=(1,)))
    assert_answers(cases.run(case, way), case, way)


@pytest.mark.parametrize("shards", SHARDS[1:])
@given(data=st.data())
@examples(40)
def test_many_shards_give_the_same_rows_and_batches_in_order(shards: int, data: st.DataObject) -> None:
    case, way = all_adapting(data.draw(multi.inputs())), data.draw(cases.ways(shards=(shards,)))
    assert_answers(cases.run(case, way), case, way)


@given(case=st.one_of(multi.busy_inputs(), multi.tied_inputs()).map(all_adapting), way=cases.busy_ways(shards=(1, 2)))
@examples(60)
def test_many_tuples_at_one_time_are_in_order(case: Case, way: Way) -> None:
    assert_answers(cases.run(case, way), case, way)
