"""The predicates of a multi-way join as a graph: classes, ranges, what is left, one text for all ways to write it."""

from __future__ import annotations

import pytest

from headrace.engine.steps import best_ranges
from headrace.plan.expressions import Expression, expression_text
from headrace.plan.joingraph import JoinGraph, KeyForm, graph_text, on_side
from headrace.plan.ranges import Sum, Term
from headrace.plan.sharing import Group, share
from headrace.sql import read_script

COLUMNS = "k BIGINT, x BIGINT, y BIGINT, s STRING, d DOUBLE, i INT, p DECIMAL(6, 2), w DECIMAL(30, 2), ts TIMESTAMP"
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
        ("a.d < b.d", ["a.d < b.d", "b.d > a.d"]),
        ("b.d >= a.d", ["a.d <= b.d", "b.d >= a.d"]),
        ("NOT (a.d < b.d)", ["b.d <= a.d", "a.d >= b.d"]),
        ("(a.d < b.d) IS TRUE", ["a.d < b.d", "b.d > a.d"]),
        ("a.x = b.x + c.x", ["a.x = (b.x + c.x)", "b.x = - c.x + a.x", "c.x = - b.x + a.x"]),
        ("a.p < b.p", ["a.p < b.p", "b.p > a.p"]),
        ("a.w < b.w", ["a.w <= b.w", "b.w >= a.w"]),
        ("a.s < b.s", ["a.s <= b.s", "b.s >= a.s"]),
        ("a.x IN (b.x, b.y)", ["a.x <= GREATEST(b.x, b.y)", "a.x >= LEAST(b.x, b.y)"]),
        ("a.x + a.y < b.x", ["(a.x + a.y) < b.x", "b.x > (a.x + a.y)"]),
        ("2e0 * (a.d - b.d) / 4e0 < 3e0", ["a.d <= b.d + 2 3.0e0", "b.d >= a.d - 2 3.0e0"]),
        ("a.x - b.x < a.y", ["b.x >= a.x - a.y"]),
        ("a.x <> b.x", []),
        ("a.x < b.x OR a.y < b.y", []),
        ("ABS(a.d - b.d) > 1e0", []),
        ("a.x * b.x < 5", []),
        ("a.k = b.k AND a.d < b.d", []),
    ],
)
def test_comparisons_that_can_be_solved_for_a_side_are_ranges(condition: str, ranges: list[str]) -> None:
    graph = graph_of(condition)
    assert sorted(range_texts(graph)) == sorted(ranges)
    assert graph.predicates == graph.others


@pytest.mark.parametrize(
    "condition",
    [
        "a.d - b.d BETWEEN -1e0 AND 1e0",
        "b.d - a.d BETWEEN -1e0 AND 1e0",
        "ABS(a.d - b.d) <= 1e0",
        "NOT (ABS(a.d - b.d) > 1e0)",
        "ABS(a.x - b.x) < 2",
        "ABS(a.x - b.x) < 2.5",
        "ABS(a.p - b.p) <= 0.05",
        "ABS(a.w - b.w) <= 0.05",
        "ABS(a.i - b.x) <= c.d",
        "b.d BETWEEN a.d - 1e0 AND a.d + 1e0",
        "b.x BETWEEN a.x - 1 AND a.x + 1",
        "b.p BETWEEN a.p - 0.05 AND a.p + 0.05",
        "b.d BETWEEN a.d * 0.9 AND a.d * 1.1",
        "a.ts - b.ts BETWEEN INTERVAL '-1' SECOND AND INTERVAL '5' SECOND",
        "b.ts BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts + INTERVAL '1' SECOND",
    ],
)
def test_what_is_near_has_two_ends_on_one_index_from_either_side(condition: str) -> None:
    graph = graph_of(condition)
    assert [len(one) for one in graph.indexes][:2] == [1, 1]
    bound = frozenset((2,)) if "c.d" in condition else frozenset()
    for side in (0, 1):
        ends = best_ranges(graph, bound | {1 - side}, side)
        assert {one.function for one in ends} == {">=", "<="}


def range_texts(graph: JoinGraph) -> list[str]:
    """Each range as ``indexed function bound``, a sum's terms with their factors."""

    def text(expression: Expression) -> str:
        return expression_text(expression, "abc")

    found = []
    for one in graph.ranges:
        indexed = text(on_side(graph.indexes[one.side][one.index].keys[0], one.side))
        bound = "".join(map(term_text, one.bound.terms)) if isinstance(one.bound, Sum) else text(one.bound)
        found.append(f"{indexed} {one.function} {bound.removeprefix(' + ').strip()}")
    return found


def term_text(term: Term) -> str:
    factor = "" if abs(term.factor) == 1 else f"{abs(term.factor):g} "
    return f" {'-' if term.factor < 0 else '+'} {factor}{expression_text(term.of, 'abc')}"


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
