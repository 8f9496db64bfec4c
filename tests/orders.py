"""Join orders, and facts of operators, for tests: any that there may be, drawn anew for each plan and, where shards are
restored, for each micro-batch: they may change between two of them."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import chain

from headrace.engine.shard import ShardOptions
from headrace.engine.tree_join import TreeOptions
from headrace.plan.capacities import OperatorFacts
from headrace.plan.opgraph import OperatorName
from headrace.plan.shard_graph import class_paths, join_name
from headrace.plan.sharing import Group, SharedPlan
from headrace.plan.trees import Fork, JoinTree, Leaf, Node


def drawn_orders(options: ShardOptions, plan: SharedPlan, draw: random.Random) -> ShardOptions:
    """The options with orders for the plan's multi-way joins, trees, sizes of indexes and intervals of expiry; a group
    keeps the interval and the tree it has, so that restored shards let go of the same tuples as others."""
    joins = [group for group in plan.groups if group.graph is not None]
    orders = {group.signature: _orders(group, options.method, draw) for group in joins}
    buckets = {}
    if draw.random() < 0.3:
        buckets = {one.signature: tuple(draw.choice((1, 2, 5)) for _ in one.sides) for one in plan.groups}
    expiry_us = {one.signature: draw.choice((0, 0, 1_000_000, 7_000_000)) for one in plan.groups} | options.expiry_us
    adapting = [group for group in joins if group.adapts]
    trees = {one.signature: TreeOptions(drawn_tree(len(one.sides), draw)) for one in adapting} | options.trees
    return replace(options, orders=orders, buckets=buckets, expiry_us=expiry_us, trees=trees)


def drawn_tree(sides: int, draw: random.Random) -> JoinTree:
    """Any tree over so many sides."""
    nodes: list[Node] = [Leaf(side) for side in draw.sample(range(sides), sides)]
    while len(nodes) > 1:
        left, right = (nodes.pop(draw.randrange(len(nodes))) for _ in range(2))
        nodes.append(Fork(left, right))
    (root,) = nodes
    assert isinstance(root, Fork)
    return JoinTree(root)


def drawn_facts(plan: SharedPlan, draw: random.Random | None) -> dict[OperatorName, OperatorFacts]:
    """What operators are said to be like in a micro-batch: anything; of some, nothing."""
    if draw is None:
        return {}
    names = [name for group in plan.groups for name in [join_name(group), *chain.from_iterable(class_paths(group))]]
    return {
        name: OperatorFacts(
            draw.choice((1e-7, 1e-6, 1e-5)),
            draw.choice((0.0, 0.5, 3.0)),
            draw.choice((1.0, 100.0)),
            held_bytes=draw.choice((None, 0.0, 100.0)),
            per_weight=draw.choice((0.01, 1.0)),
            taken=draw.choice((None, 0.0, 2.0)),
            copies=draw.choice((1.0, 3.0)),
        )
        for name in names
        if draw.random() < 0.8
    }


def _orders(group: Group, method: str, draw: random.Random) -> tuple[tuple[int, ...], ...]:
    sides = list(range(len(group.sides)))
    everywhere = tuple(draw.sample(sides, len(sides)))
    if method == "naive":
        return (everywhere,) * len(sides)
    orders = []
    for origin in sides:
        order = draw.sample(sides, len(sides))
        if method != "general":
            order.remove(origin)
            order.insert(0, origin)
        orders.append(tuple(order))
    return tuple(orders)
