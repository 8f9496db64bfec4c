"""The predicates of a multi-way join as a graph: classes, ranges, what is left, one text for all ways to write it."""

from __future__ import annotations

import pytest

from headrace.plan.joingraph import JoinGraph, KeyForm, graph_text
from headrace.plan.sharing import Group, share
from headrace.sql import read_script

COLUMNS = "k BIGINT, x BIGINT, y BIGINT, s STRING, d DOUBLE, i INT, ts TIMESTAMP"
CATALOG = read_script(
    "".join(
        f"CREATE STREAM {name} ({COLUMNS}) WITH (connector = 'files', format = 'json', path = 'p', time = 'ts');"
        for name in "abc"
    )
).catalog


def group_of(condition: str, streams: str = "a, b, c") -> Group:
    script = read_script(f"CREATE QUERY q AS SELECT 1 AS one FROM {streams} WHERE {condition} WINDOW 1 S;", CATALOG)
    (group,) = share(script.catalog, script.queries).groups
    return group


def graph_of(condition: str, streams: str = "a, b, c") -> JoinGraph:
    graph = group_of(condition, streams).graph
    assert graph is not None
    return graph


def test_equalities_of_one_attribute_are_one_class() -> None:
    graph = graph_of("a.k = b.k AND c.k = b.k")
    assert [(one.sides, one.form) for one in graph.classes] == [((0, 1, 2), KeyForm.EXACT)]
    assert graph.is_product
    assert not graph.numbers_tuples
    assert graph.predicates == ()


def test_classes_of_the_same_sides_are_one_composite_key() -> None:
    graph = graph_of("a.x = b.x AND a.y = b.y AND b.s = c.s")
    assert [(one.sides, len(one.keys[0]), one.form) for one in graph.classes] == [
        ((0, 1), 2, KeyForm.HASHED),
        ((1, 2), 1, KeyForm.HASHED),
    ]
    assert len(graph.predicates) == 3  # what a hash cannot tell is compared once more
    assert graph.numbers_tuples


def test_a_side_is_in_a_class_with_one_expression_only() -> None:
    graph = graph_of("a.x = b.x AND a.y = b.x AND b.k = c.k")
    assert [one.sides for one in graph.classes] == [(0, 1), (1, 2)]
    assert len(graph.others) == 1


@pytest.mark.parametrize(
    ("condition", "ranges"),
    [
        ("a.d < b.d", [(0, "<"), (1, ">")]),
        ("b.d >= a.d", [(0, "<="), (1, ">=")]),
        ("c.x BETWEEN a.x - 1 AND a.x + b.x", [(0, "<="), (2, ">="), (2, "<=")]),
        ("a.x = b.x + c.x", [(0, "=")]),
        ("a.s < b.s", []),
        ("a.x <> b.x", []),
        ("a.x < b.x OR a.y < b.y", []),
    ],
)
def test_comparisons_with_one_stream_on_a_side_are_ranges(condition: str, ranges: list[tuple[int, str]]) -> None:
    graph = graph_of(condition)
    assert [(one.side, one.function) for one in graph.ranges] == ranges
    assert graph.predicates == graph.others
    assert not graph.classes


def test_a_number_beside_the_indexed_expression_is_moved_to_the_other_side() -> None:
    """So that one index serves both ends of BETWEEN, from either stream."""
    graph = graph_of("b.d BETWEEN a.d - 1.5 AND a.d + 1.5")
    assert [len(one) for one in graph.indexes] == [1, 1, 0]
    assert [(one.side, one.function, one.margin) for one in graph.ranges] == [
        (0, "<=", 1.5),
        (1, ">=", None),
        (1, "<=", None),
        (0, ">=", 1.5),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.k = b.k AND b.k = c.k", "c.k = a.k AND b.k = c.k"),
        ("a.d < b.d AND b.s = c.s", "c.s = b.s AND b.d > a.d"),
        ("a.x = b.x AND a.y = b.y AND b.k = c.k", "b.y = a.y AND c.k = b.k AND b.x = a.x"),
    ],
)
def test_the_same_predicates_written_otherwise_are_one_group(one: str, other: str) -> None:
    assert group_of(one).signature == group_of(other, "c, a, b").signature
    first, second = group_of(one).graph, group_of(other, "c, a, b").graph
    assert first is not None
    assert second is not None
    assert (first.indexes, first.ranges) == (second.indexes, second.ranges)
    assert graph_text(first, "abc") == graph_text(second, "abc")


def test_other_predicates_are_other_groups() -> None:
    signatures = {group_of(one).signature for one in ("a.k = b.k", "a.k = b.k AND b.k = c.k", "a.k < b.k", "TRUE")}
    assert len(signatures) == 4


def test_a_stream_there_twice_has_two_sides() -> None:
    graph = graph_of("p.k = q.k AND q.x = r.x", "a p, a q, b r")
    assert graph.streams == ("a", "a", "b")
    assert graph.repeats_streams
    assert graph.numbers_tuples
    assert group_of("p.k = q.k AND q.x = r.x", "a p, a q, b r").signature.startswith("a#1 x a#2 x b on ")


def test_one_sided_conditions_are_no_part_of_the_graph() -> None:
    group = group_of("a.k = b.k AND b.k = c.k AND c.d > 5 AND a.i = 1")
    assert [len(one.pushed) for one in group.inputs] == [1, 0, 1]
    assert "5" not in group.signature
