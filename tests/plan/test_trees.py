"""Trees of joins of two: parts, paths and text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from allocation_cases import trees
from hypothesis import given

from headrace.errors import PlanError
from headrace.plan.trees import (
    Child,
    Fork,
    HalfWayJoin,
    JoinTree,
    Leaf,
    Shape,
    half_text,
    linear_tree,
    parse_tree,
    state_text,
)

FIGURE_9A = parse_tree("((a b) ((c d) e))", "abcde")


@given(trees())
def test_k_streams_have_k_minus_two_susceptible_states_whatever_the_shape(tree: JoinTree) -> None:
    assert len(tree.susceptible) == len(tree.sides) - 2
    assert len(tree.joins) == len(tree.sides) - 1
    assert len(tree.half_ways) == 2 * len(tree.joins) == len(tree.states)
    assert sorted(tree.states) == sorted({one.own for one in tree.half_ways}) == sorted(set(tree.states))


@given(trees())
def test_a_path_leads_from_its_stream_to_the_root(tree: JoinTree) -> None:
    for side in tree.sides:
        path = tree.path(side)
        assert path[0].own == (side,)
        assert path[-1].result == tuple(tree.sides)
        for below, above in pairwise(path):
            assert below.result == above.own
            assert below in tree.feeders(above.own)


@given(trees())
def test_states_are_fed_by_both_directions_of_one_join(tree: JoinTree) -> None:
    for state in tree.susceptible:
        left, right = tree.feeders(state)
        assert (left.join, left.child, left.partner) == (right.join, right.child.other, right.own)
        assert left.result == right.result == state
    assert all(tree.feeders((side,)) == () for side in tree.sides)


@given(trees())
def test_a_tree_is_read_as_it_was_written(tree: JoinTree) -> None:
    names = [f"s{side}" for side in tree.sides]
    assert parse_tree(tree.text(names), names) == tree


def test_joins_are_numbered_from_the_leaves_up() -> None:
    assert [join.sides for join in FIGURE_9A.joins] == [(0, 1), (2, 3), (2, 3, 4), (0, 1, 2, 3, 4)]
    assert FIGURE_9A.half_ways[4] == HalfWayJoin(2, Child.LEFT, (2, 3), (4,))


def test_the_states_of_figure_9a() -> None:
    """Stream C's tuples are kept alone, and as CD and CDE, which are susceptible; so is AB."""
    assert FIGURE_9A.susceptible == ((0, 1), (2, 3), (2, 3, 4))
    assert [one.own for one in FIGURE_9A.path(2)] == [(2,), (2, 3), (2, 3, 4)]
    assert [half_text(one, "ABCDE") for one in FIGURE_9A.path(2)] == [
        "C with S(D)",
        "C D with S(E)",
        "C D E with S(A B)",
    ]


@pytest.mark.parametrize(
    ("text", "names", "shape"),
    [
        ("(a b)", "ab", Shape.LINEAR),
        ("(c (a b))", "abc", Shape.LINEAR),
        ("(((a b) c) d)", "abcd", Shape.LINEAR),
        ("(a (b (c d)))", "abcd", Shape.LINEAR),
        ("((a b) (c d))", "abcd", Shape.BUSHY),
        ("((a b) ((c d) e))", "abcde", Shape.SEMI_BUSHY),
        ("(((a b) (c d)) e)", "abcde", Shape.SEMI_BUSHY),
        ("(((a b) (c d)) (e f))", "abcdef", Shape.BUSHY),
    ],
)
def test_shapes(text: str, names: str, shape: Shape) -> None:
    assert parse_tree(text, names).shape is shape


def test_a_stream_joined_with_itself_is_two_sides() -> None:
    tree = parse_tree("((t#2 u) t#1)", ["t#1", "u", "t#2"])
    assert tree == JoinTree(Fork(Fork(Leaf(2), Leaf(1)), Leaf(0)))
    assert state_text(tree.susceptible[0], ["t#1", "u", "t#2"]) == "S(u t#2)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("a", "b, c are missing"),
        ("(a b)", "c is missing"),
        ("((a b) c", "it ends within a join, where ')' is missing"),
        ("((a b)", "it ends within a join, where a name or '(' is missing"),
        ("((a b) c))", "')' is after its end"),
        ("((a b) c) d", "'d' is after its end"),
        ("(a b c)", "'c' is a third"),
        ("((a) (b c))", "more '('"),
        ("((a) b)", "')' comes before the second"),
        ("((a b) x)", "'x' is not one of a, b, c"),
        ("((a b) a)", "'a' is there twice"),
        ("(" * 5000, "more '('"),
    ],
)
def test_a_wrong_plan_is_refused_with_a_right_one(text: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_tree(text, "abc")
    assert message in str(caught.value)
    assert "'((a b) c)'" in str(caught.value)


@pytest.mark.parametrize(
    "root", [Fork(Leaf(0), Leaf(0)), Fork(Leaf(1), Leaf(2)), Fork(Leaf(0), Fork(Leaf(1), Leaf(0)))]
)
def test_a_tree_has_each_side_once(root: Fork) -> None:
    with pytest.raises(PlanError, match="each once"):
        JoinTree(root)


def test_one_side_makes_no_tree() -> None:
    with pytest.raises(PlanError, match="two"):
        linear_tree([0])
    with pytest.raises(PlanError, match="two names"):
        parse_tree("(a a)", "aa")
