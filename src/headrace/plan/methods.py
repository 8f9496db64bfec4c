"""The orders that each join method follows, by what is known (paper 002, sections 3 and 5).

      naive       one order for all, new tuples wherever it has their side
      eager, lazy, index, hybrid       new tuples first, then the others in the best order for their side; index: of
                                       those that need no scan
      general     a best order for each side, its new tuples wherever that is best

Owns ``choices_for`` and ``cost_for``, both in rows looked at a second. Without an index every step reads a whole
window; where tuples are joined every tau, windows are as much longer: the same facts give other orders. Cost: exact up
to ``choose``'s limit of sides; n! orders for naive up to ``MOST_PERMUTED`` sides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations
from math import inf

from headrace.plan.costs import JoinFacts, Order, order_cost
from headrace.plan.ordering import Choice, choose

SCANNING = frozenset(("eager", "lazy", "general", "naive"))
"""Methods that compare with every row of a window."""
MOST_PERMUTED = 6


def orders_for(method: str, facts: JoinFacts, tau_s: float = 0.0) -> tuple[Order, ...]:
    """For new tuples of each side, the order of all sides."""
    return tuple(choice.order for choice in choices_for(method, facts, tau_s))


def choices_for(method: str, facts: JoinFacts, tau_s: float = 0.0) -> tuple[Choice, ...]:
    """For new tuples of each side, the best order that the method may follow, with its cost and the runner-up."""
    known = _as_seen_by(method, facts, tau_s)
    if method == "naive":
        return _naive(known, tau_s)
    if method == "general":
        return tuple(_general(known, one, tau_s) for one in choose(known))
    return _by_indexes(known) if method == "index" else choose(known)


def repriced(method: str, facts: JoinFacts, choice: Choice, tau_s: float = 0.0) -> Choice:
    """A choice that was made by other facts, at what its orders cost by these."""
    known = _as_seen_by(method, facts, tau_s)
    cost = _order_cost(known, choice.origin, choice.order, tau_s)
    if choice.runner_up is None:
        return replace(choice, cost=cost)
    return replace(choice, cost=cost, runner_up_cost=_order_cost(known, choice.origin, choice.runner_up, tau_s))


def cost_for(method: str, facts: JoinFacts, origin: int, order: Order, tau_s: float = 0.0) -> float:
    """What new tuples of a side cost a second by an order."""
    return _order_cost(_as_seen_by(method, facts, tau_s), origin, order, tau_s)


def _as_seen_by(method: str, facts: JoinFacts, tau_s: float) -> JoinFacts:
    """The facts without indexes for methods that scan, and with windows that have grown by tau."""
    grown = tuple(size + rate * tau_s for size, rate in zip(facts.sizes, facts.rates, strict=True))
    growth = [new / old if old else 1.0 for new, old in zip(grown, facts.sizes, strict=True)]
    matches = {(i, j): found * growth[j] for (i, j), found in facts.matches.items()}
    indexed = frozenset[tuple[int, int]]() if method in SCANNING else facts.indexed
    return replace(facts, sizes=grown, matches=matches, indexed=indexed)


def _order_cost(facts: JoinFacts, origin: int, order: Order, tau_s: float) -> float:
    """The same where new tuples may be anywhere in the order: what an evaluation looks at, beginning with all tuples of
    the first side, times the evaluations a second."""
    if order[0] == origin:
        return order_cost(facts, origin, order)
    first, new = order[0], _with_new(facts, origin, tau_s)
    for_each = order_cost(replace(new, rates=(1.0,) * len(new.rates)), first, order)
    return for_each * new.sizes[first] * _evaluations(facts, origin, tau_s)


def _evaluations(facts: JoinFacts, origin: int, tau_s: float) -> float:
    return 1 / tau_s if tau_s else facts.rates[origin]


def _with_new(facts: JoinFacts, origin: int, tau_s: float) -> JoinFacts:
    """The facts when only new tuples of a side count: those of one evaluation, at least one."""
    size = facts.sizes[origin]
    share = min(1.0, max(1.0, facts.rates[origin] * tau_s) / size) if size else 1.0
    sizes = tuple(one * share if side == origin else one for side, one in enumerate(facts.sizes))
    matches = {(i, j): found * (share if j == origin else 1.0) for (i, j), found in facts.matches.items()}
    return replace(facts, sizes=sizes, matches=matches)


def _general(facts: JoinFacts, first: Choice, tau_s: float) -> Choice:
    """The cheapest of the best orders that begin with each of the sides; ``first``: the best with new tuples first."""
    origin = first.origin
    orders = [choice.order for choice in choose(_with_new(facts, origin, tau_s))]
    orders.append(first.order)
    ranked = sorted((_order_cost(facts, origin, order, tau_s), order) for order in dict.fromkeys(orders))
    cost, order = ranked[0]
    runner_up_cost, runner_up = ranked[1] if len(ranked) > 1 else (inf, None)
    return Choice(origin, order, cost, runner_up, runner_up_cost)


def _by_indexes(facts: JoinFacts) -> tuple[Choice, ...]:
    """The best orders without a scan, however short; where only comparisons with several streams together lead to one,
    which facts of pairs do not show, the best orders of all."""
    pairs = zip(choose(replace(facts, never_scans=True)), choose(facts), strict=True)
    return tuple(_without_scan(one) if one.cost < inf else other for one, other in pairs)


def _without_scan(choice: Choice) -> Choice:
    return choice if choice.runner_up_cost < inf else replace(choice, runner_up=None)


def _naive(facts: JoinFacts, tau_s: float) -> tuple[Choice, ...]:
    """One order for new tuples of all sides: that with the least cost of all together."""
    orders: Iterable[Order] = permutations(facts.sides)
    if len(facts.sizes) > MOST_PERMUTED:
        orders = {choice.order for choice in choose(facts)}
    costs = {order: [_order_cost(facts, origin, order, tau_s) for origin in facts.sides] for order in orders}
    ranked = sorted(costs, key=lambda order: (sum(costs[order]), order))
    best, second = ranked[0], ranked[1] if len(ranked) > 1 else None
    return tuple(
        Choice(origin, best, costs[best][origin], second, costs[second][origin] if second else inf)
        for origin in facts.sides
    )
