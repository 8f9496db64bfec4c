"""Trees, and problems of allocation, for tests: any tree, and the examples of paper 001."""

from __future__ import annotations

from hypothesis import strategies as st

from headrace.lab.limited_joins import path_table as path_table
from headrace.plan.allocating import AllocationProblem, ProbeFacts, StreamLoad, problem_of
from headrace.plan.trees import Fork, JoinTree, Leaf, Node, parse_tree


@st.composite
def trees(draw: st.DrawFn, largest: int = 12) -> JoinTree:
    """Any tree: two of the nodes that are left become one, until one is left."""
    nodes: list[Node] = [Leaf(side) for side in range(draw(st.integers(2, largest)))]
    while len(nodes) > 1:
        left = nodes.pop(draw(st.integers(0, len(nodes) - 1)))
        right = nodes.pop(draw(st.integers(0, len(nodes) - 1)))
        nodes.append(Fork(left, right))
    (root,) = nodes
    assert isinstance(root, Fork)
    return JoinTree(root)


def single_join(mu: float = 300) -> AllocationProblem:
    """Figure 4.a: rates 500 and 700, productivities 2.5 and 5."""
    held = {(0,): 5000.0, (1,): 500.0}
    tree = parse_tree("(a b)", "ab")
    return problem_of(tree, mu, (500, 700), held, lambda half: 0.005 if half.own == (0,) else 0.001)


def two_joins(mu: float = 300) -> AllocationProblem:
    """Figure 5: the same join, and above it a probe of c's state that finds five, which is more than c finds."""
    loads = (StreamLoad(500), StreamLoad(700), StreamLoad(400))
    probes = tuple(map(ProbeFacts, (2.5, 5.0, 5.0, 2.0)))
    return AllocationProblem(parse_tree("((a b) c)", "abc"), mu, loads, probes, (5000.0, 500.0, 1000.0, 1000.0))
