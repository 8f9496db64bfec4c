"""Join orders for tests: any that a method may follow, drawn anew for each plan and, where shards are restored, for
each micro-batch: an order may change between two of them."""

from __future__ import annotations

import random
from dataclasses import replace

from headrace.engine.shard import ShardOptions
from headrace.plan.sharing import Group, SharedPlan


def drawn_orders(options: ShardOptions, plan: SharedPlan, draw: random.Random) -> ShardOptions:
    """The options with orders for the plan's multi-way joins, sizes of indexes and intervals of expiry; a group keeps
    the interval it has, so that shards that are restored let go of the same tuples as those that are not."""
    joins = [group for group in plan.groups if group.graph is not None]
    orders = {group.signature: _orders(group, options.method, draw) for group in joins}
    buckets = {}
    if draw.random() < 0.3:
        buckets = {one.signature: tuple(draw.choice((1, 2, 5)) for _ in one.sides) for one in plan.groups}
    expiry_us = {one.signature: draw.choice((0, 0, 1_000_000, 7_000_000)) for one in plan.groups} | options.expiry_us
    return replace(options, orders=orders, buckets=buckets, expiry_us=expiry_us)


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
