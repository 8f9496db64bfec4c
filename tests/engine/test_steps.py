"""The steps of a join order: which index leads to the next side, and when a predicate can be checked."""

from __future__ import annotations

from headrace.engine.steps import Access, steps_of
from headrace.plan.joingraph import JoinGraph
from headrace.plan.sharing import share
from headrace.sql import read_script

COLUMNS = "k BIGINT, x BIGINT, y BIGINT, d DOUBLE, ts TIMESTAMP"
CATALOG = read_script(
    "".join(
        f"CREATE STREAM {name} ({COLUMNS}) WITH (connector = 'files', format = 'json', path = 'p', time = 'ts');"
        for name in "abc"
    )
).catalog


def graph_of(condition: str) -> JoinGraph:
    script = read_script(f"CREATE QUERY q AS SELECT 1 AS one FROM a, b, c WHERE {condition} WINDOW 1 S;", CATALOG)
    (group,) = share(script.catalog, script.queries).groups
    assert group.graph is not None
    return group.graph


def test_an_equality_comes_before_a_range() -> None:
    steps = steps_of(graph_of("a.x = b.x AND b.y = c.y AND a.d < c.d"), (1, 2, 0))
    assert [step.access for step in steps[1:]] == [Access.KEY, Access.KEY]
    assert [len(step.predicates) for step in steps] == [0, 0, 1]


def test_a_cycle_leaves_a_key_to_compare() -> None:
    steps = steps_of(graph_of("a.x = b.x AND b.y = c.y AND c.k = a.k"), (0, 1, 2))
    assert [len(step.equals) for step in steps] == [0, 0, 1]


def test_a_range_with_two_ends_is_taken() -> None:
    graph = graph_of("c.x BETWEEN a.x AND b.x AND c.d < a.d")
    step = steps_of(graph, (0, 1, 2))[2]
    assert step.access is Access.RANGE
    assert {one.function for one in step.ranges} == {"<=", ">="}
    assert len(step.predicates) == 3


def test_without_a_predicate_a_side_is_taken_by_time_or_whole() -> None:
    assert [step.access for step in steps_of(graph_of("TRUE"), (0, 1, 2))[1:]] == [Access.TIME, Access.TIME]
    across = steps_of(graph_of("a.x = b.x AND b.y = c.y"), (0, 2, 1))
    assert [step.access for step in across[1:]] == [Access.ALL, Access.KEY]
    assert len(across[2].equals) == 1
