"""Joins that run as trees of joins of two: with every probe allowed they give the reference's answer, row for row.

The cases are those of joins of many streams (``multiway_cases.py``) and of two (``engine_cases.py``), each query with
``ON OVERLOAD ADAPT`` and a freshness that nothing is too old for; trees are of any shape. Then the same queries as they
are, by a tree that was given: whatever a budget makes them wait for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import engine_cases as cases
import multiway_cases as multi
import outcomes
import pytest
from engine_cases import Case, Way, examples
from hypothesis import assume, given
from hypothesis import strategies as st
from multiway_cases import Shape
from orders import drawn_orders, drawn_tree
from test_multiway_oracle import assert_answers, counts_rows, variants_of, wanted

from headrace.engine.events import Effect, Event, ProbesAllowed
from headrace.engine.shard import Shard
from headrace.plan.explain_joins import side_names
from headrace.plan.queries import Extent, Overload, Query
from headrace.plan.sharing import share
from headrace.plan.spare import Spare

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
@examples(12)
def test_one_shard_gives_the_answer_row_for_row(shape: Shape, data: st.DataObject) -> None:
    case, way = all_adapting(data.draw(multi.inputs(shape))), data.draw(cases.ways(shards=(1,)))
    assert_answers(cases.run(case, way), case, way)


@pytest.mark.parametrize("shards", SHARDS[1:])
@given(data=st.data())
@examples(20)
def test_many_shards_give_the_same_rows_and_batches_in_order(shards: int, data: st.DataObject) -> None:
    case, way = all_adapting(data.draw(multi.inputs())), data.draw(cases.ways(shards=(shards,)))
    assert_answers(cases.run(case, way), case, way)


@given(case=st.one_of(multi.busy_inputs(), multi.tied_inputs()).map(all_adapting), way=cases.busy_ways(shards=(1, 2)))
@examples(15)
def test_many_tuples_at_one_time_are_in_order(case: Case, way: Way) -> None:
    assert_answers(cases.run(case, way), case, way)


@given(data=st.data(), way=cases.ways(shards=(1, 2)))
@examples(15)
def test_two_streams_are_a_tree_of_one_join(data: st.DataObject, way: Way) -> None:
    case = all_adapting(data.draw(cases.cases(kinds=cases.Kinds.ALL)))
    assert_answers(cases.run(case, way), case, way)


@given(case=st.one_of(multi.inputs(), multi.busy_inputs()).map(all_adapting), way=cases.ways(shards=(1, 2)))
@examples(15)
def test_where_no_half_way_join_is_allowed_a_probe_what_there_is_to_spare_does_for_all(case: Case, way: Way) -> None:
    step = Shard.step

    def sparing(shard: Shard, events: Sequence[Event], *more: Any) -> Iterator[Effect]:
        told = [
            ProbesAllowed(signature, (0.0,) * count, Spare(1e12, (1.0,) * count, (0.0,) * count))
            for signature, count in ((name, len(tree.tree.half_ways)) for name, tree in shard.trees().items())
        ]
        return step(shard, [*events, *told], *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shard, "step", sparing)
        assert_answers(cases.run(case, way), case, way)


# --- nothing may be left out: trees that were given


def with_tree(case: Case, way: Way, seed: int) -> Way:
    """The way, with any tree for joins of the first query's streams."""
    first = next(query for query in case.queries if len(query.sources) > 2 and not query.emits_early)
    (group,) = share(case.catalog, [first]).groups
    tree = drawn_tree(len(group.sides), random.Random(seed)).text(side_names(group))
    return replace(way, tree=tree)


def plain_inputs() -> st.SearchStrategy[Case]:
    return st.one_of(multi.inputs(), multi.busy_inputs(), multi.tied_inputs()).filter(
        lambda case: any(len(query.sources) > 2 and not query.emits_early for query in case.queries)
    )


@given(case=plain_inputs(), way=st.one_of(cases.ways(shards=(1, 3)), cases.busy_ways()), seed=st.integers())
@examples(40)
def test_a_tree_that_defers_gives_the_answer_whatever_waits(case: Case, way: Way, seed: int) -> None:
    """Budgets, strategies and policies as for any join."""
    way = with_tree(case, way, seed)
    host = cases.host_for(case, way)
    assert any(group.tree is not None and not group.adapts for group in host.plan.groups)
    assert_answers(cases.run(case, way), case, way)


@given(case=plain_inputs(), way=st.one_of(cases.ways(shards=(1, 2)), cases.busy_ways()), seed=st.integers())
@examples(20)
def test_a_restored_tree_that_defers_goes_on_as_the_one_that_was_kept(case: Case, way: Way, seed: int) -> None:
    way = with_tree(case, way, seed)
    hosts = [cases.host_for(case, replace(way, restoring=restoring)) for restoring in (False, True)]
    for chunks in cases.micro_batches(case, way):
        for host in hosts:
            cases.arrive(host, chunks)
            outcomes.assert_store_holds_what_is_needed(host)
    for host in hosts:
        host.end()
    kept, restored = hosts
    for query in case.queries:
        assert outcomes.got_by_batch(kept, query) == outcomes.got_by_batch(restored, query)
    assert_answers(restored, case, way)


@given(plain=multi.inputs(most_queries=2), way=cases.busy_ways(), seed=st.integers(), data=st.data())
@examples(30)
def test_queries_by_a_tree_that_defers_come_and_go(plain: Case, way: Way, seed: int, data: st.DataObject) -> None:
    """Variants of the first, with other windows, share its states in between: its answer is the same."""
    assume(any(len(query.sources) > 2 and not query.emits_early for query in plain.queries))
    way = with_tree(plain, way, seed)
    more = variants_of(plain, "like")
    host = cases.host_for(replace(plain, queries=(*plain.queries, *data.draw(more))), way)
    for chunks in cases.micro_batches(plain, way):
        if data.draw(st.integers(0, 2)) == 0:
            host.change(plain.catalog, data.draw(st.permutations([*plain.queries, *data.draw(more)])))
        cases.arrive(host, chunks)
        outcomes.assert_store_holds_what_is_needed(host)
    host.end()
    assert_answers(host, plain, way)


# --- restoring, ends, queries that come and go


@given(
    case=st.one_of(multi.inputs(), multi.busy_inputs()).map(all_adapting),
    way=cases.ways(shards=(1, 3)),
    pauses=st.lists(st.integers(0, 1), min_size=1, max_size=3),
)
@examples(15)
def test_a_restored_shard_goes_on_as_the_one_that_was_kept(case: Case, way: Way, pauses: list[int]) -> None:
    hosts = [cases.host_for(case, replace(way, restoring=restoring)) for restoring in (False, True)]
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        for host in hosts:
            cases.arrive(host, chunks)
            for _ in range(pauses[number % len(pauses)]):
                host.go_on()
            outcomes.assert_store_holds_what_is_needed(host)
            assert not host.is_behind
    for host in hosts:
        host.end()
    kept, restored = hosts
    for query in case.queries:
        assert outcomes.got_by_batch(kept, query) == outcomes.got_by_batch(restored, query)
    assert_answers(restored, case, way)


@given(case=multi.inputs().map(all_adapting), way=cases.ways(shards=(1, 2)), at=st.integers(0, 4), seed=st.integers())
@examples(15)
def test_a_restart_with_another_tree_changes_nothing(case: Case, way: Way, at: int, seed: int) -> None:
    """With windows of time: what another tree did not keep is made of what is held."""
    case = replace(case, queries=tuple(query for query in case.queries if not counts_rows(query)))
    host = cases.host_for(case, way)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        if number == at:
            host.options = drawn_orders(replace(host.options, trees={}), host.plan, random.Random(seed))
            host.change(case.catalog, case.queries)
        cases.arrive(host, chunks)
    host.end()
    assert_answers(host, case, way)


@given(
    case=multi.inputs().map(all_adapting),
    way=cases.ways(shards=(1, 4)),
    ends=st.sets(st.integers(0, 6), min_size=1, max_size=3),
)
@examples(20)
def test_runs_that_end_and_go_on_give_together_what_one_run_gives(case: Case, way: Way, ends: set[int]) -> None:
    """With windows of time: a window of rows counts what an end released before all that comes later."""
    case = replace(case, queries=tuple(query for query in case.queries if not counts_rows(query)))
    host = cases.host_for(case, way)
    for number, chunks in enumerate(cases.micro_batches(case, way)):
        cases.arrive(host, chunks)
        if number in ends:
            host.end()
    host.end()
    for query in case.queries:
        assert outcomes.same_rows(outcomes.got(host, query), wanted(case, query))


@given(plain=multi.inputs(most_queries=2), way=cases.ways(shards=(1, 2)), data=st.data())
@examples(20)
def test_queries_are_isolated_whatever_else_comes_and_goes(plain: Case, way: Way, data: st.DataObject) -> None:
    """Variants of the first and queries of their own, added and dropped between micro-batches."""
    case = all_adapting(plain)
    beside = st.one_of(variants_of(plain, "like"), multi.query_lists(case.catalog, 2, "beside"))
    more = beside.map(lambda some: [adapting(one) for one in some])
    host = cases.host_for(replace(case, queries=(*case.queries, *data.draw(more))), way)
    for chunks in cases.micro_batches(case, way):
        if data.draw(st.integers(0, 2)) == 0:
            host.change(case.catalog, data.draw(st.permutations([*case.queries, *data.draw(more)])))
        cases.arrive(host, chunks)
        outcomes.assert_store_holds_what_is_needed(host)
    host.end()
    assert_answers(host, case, way)
