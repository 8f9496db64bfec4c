"""A tree of joins and its allocation as an SVG picture: streams below, the root on top, probes on the lines.

      box     a stream or a join, and the state that its tuples are kept in; red border: it cannot be kept fresh
      line    a half-way join: probes a second, allowed of offered; the thicker, the more of mu it is given

Owns ``draw_tree``. Cost: linear in the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.plan.allocating import Allocation
from headrace.plan.drawing import (
    GAP_X,
    GAP_Y,
    HEIGHT,
    MARGIN,
    WIDTH,
    Box,
    box_lines,
    edge_line,
    svg_document,
    text_line,
)
from headrace.plan.switching import number
from headrace.plan.trees import Fork, Leaf, Node, Sides, state_text

_STREAM, _STATE, _ROOT = "white", "#dbe9f6", "#f4f4f4"
_THICK = 8.0
"""Of a line that is given all of mu."""


def draw_tree(found: Allocation, names: Sequence[str]) -> str:
    """An SVG document."""
    tree = found.problem.tree
    boxes: dict[Sides, Box] = {}
    height = _depth(tree.root)
    _place(found, tree.root, names, boxes, height, [0])
    drawn = [*_half_ways(found, boxes), *(line for box in boxes.values() for line in box_lines(box))]
    width = 2 * MARGIN + len(tree.sides) * (WIDTH + GAP_X) - GAP_X
    return svg_document(width, 2 * MARGIN + (height + 1) * (HEIGHT + GAP_Y) - GAP_Y, drawn)


def _depth(node: Node) -> int:
    return 0 if isinstance(node, Leaf) else 1 + max(_depth(node.left), _depth(node.right))


def _place(
    found: Allocation, node: Node, names: Sequence[str], boxes: dict[Sides, Box], height: int, leaves: list[int]
) -> float:
    """A box for each node: streams side by side, a join over the middle of its children, one row above the higher."""
    if isinstance(node, Leaf):
        x = MARGIN + leaves[0] * float(WIDTH + GAP_X)
        leaves[0] += 1
    else:
        x = sum(_place(found, child, names, boxes, height, leaves) for child in (node.left, node.right)) / 2
    y = MARGIN + (height - _depth(node)) * float(HEIGHT + GAP_Y)
    boxes[node.sides] = _box(found, node, names, x, y)
    return x


def _box(found: Allocation, node: Node, names: Sequence[str], x: float, y: float) -> Box:
    problem, sides = found.problem, node.sides
    if len(sides) == len(problem.tree.sides):
        share = f"{found.of_saturation:.0%} of what unlimited CPU makes"
        return Box(x, y, ("results", f"about {number(found.throughput)} a second", share), _ROOT, dash="4 3")
    kept = f"keeps about {number(problem.held_of[sides])} tuples"
    if isinstance(node, Fork):
        lacking = [one for one in found.unfresh if one.state == sides]
        told = (f"needs {number(lacking[0].needed)} new ones a second",) if lacking else ()
        stroke, border = ("#c0392b", 2.5) if lacking else ("#444", 1.0)
        return Box(x, y, (state_text(sides, names), kept, *told), _STATE, border, stroke=stroke)
    return Box(x, y, (names[node.side], f"{number(problem.loads[node.side].rate)} a second", kept), _STREAM)


def _half_ways(found: Allocation, boxes: dict[Sides, Box]) -> Iterator[str]:
    problem, flows = found.problem, found.flows
    for one, half in enumerate(problem.tree.half_ways):
        begin, end = boxes[half.own].top, boxes[half.result].bottom
        spent = flows.probing[one] * problem.probes[one].cost / problem.mu if problem.mu else 0.0
        stroke = "#2e6da4" if flows.probing[one] else "#bbb"
        yield edge_line(begin, end, stroke, round(1 + (_THICK - 1) * min(1.0, spent), 1))
        allowed = f"{number(flows.probing[one])} of {number(flows.offered[one])} probes/s"
        yield text_line((begin[0] + end[0]) / 2 + 6, (begin[1] + end[1]) / 2, allowed, ' fill="#2e6da4"')
