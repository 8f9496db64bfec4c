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

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import permutations
from math import inf

from headrace.plan.costs import CostGraph, JoinFacts, Order, moved_first
from headrace.plan.ordering import EXACT_SIDES, Choice, choose

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
        firsts = choose(known)
        return tuple(_general(known, firsts, origin, tau_s) for origin in known.sides)
    return _by_indexes(known) if method == "index" else choose(known)


def repriced(method: str, facts: JoinFacts, choice: Choice, tau_s: float = 0.0) -> Choice:
    """A choice that was made by other facts, at what its orders cost by these."""
    known = _as_seen_by(method, facts, tau_s)
    price = _Price(known, choice.origin, tau_s)
    cost = price(choice.order)
    if choice.runner_up is None:
        return replace(choice, cost=cost)
    return replace(choice, cost=cost, runner_up_cost=price(choice.runner_up))


def cost_for(method: str, facts: JoinFacts, origin: int, order: Order, tau_s: float = 0.0) -> float:
    """What new tuples of a side cost a second by an order."""
    return _Price(_as_seen_by(method, facts, tau_s), origin, tau_s)(order)


def _as_seen_by(method: str, facts: JoinFacts, tau_s: float) -> JoinFacts:
    """The facts without indexes for methods that scan, and with windows that have grown by tau."""
    grown = tuple(size + rate * tau_s for size, rate in zip(facts.sizes, facts.rates, strict=True))
    growth = [new / old if old else 1.0 for new, old in zip(grown, facts.sizes, strict=True)]
    matches = {(i, j): found * growth[j] for (i, j), found in facts.matches.items()}
    indexed = frozenset[tuple[int, int]]() if method in SCANNING else facts.indexed
    return replace(facts, sizes=grown, matches=matches, indexed=indexed)


class _Price:
    """The same of any order for one side, where new tuples may be anywhere in it: what an evaluation looks at,
    beginning with all tuples of the first side, times the evaluations a second."""

    def __init__(self, facts: JoinFacts, origin: int, tau_s: float) -> None:
        self._origin = origin
        self._first = CostGraph(facts)
        new = _with_new(facts, origin, tau_s)
        self._anywhere = CostGraph(replace(new, rates=(1.0,) * len(new.rates)))
        self._evaluations = 1 / tau_s if tau_s else facts.rates[origin]

    def __call__(self, order: Order) -> float:
        if order[0] == self._origin:
            return self._first.order_cost(order)
        return self._anywhere.order_cost(order) * self._anywhere.facts.sizes[order[0]] * self._evaluations


def _with_new(facts: JoinFacts, origin: int, tau_s: float) -> JoinFacts:
    """The facts when only new tuples of a side count: those of one evaluation, at least one."""
    size = facts.sizes[origin]
    share = min(1.0, max(1.0, facts.rates[origin] * tau_s) / size) if size else 1.0
    sizes = tuple(one * share if side == origin else one for side, one in enumerate(facts.sizes))
    matches = {(i, j): found * (share if j == origin else 1.0) for (i, j), found in facts.matches.items()}
    most = tuple(sizes[side] if side == origin else one for side, one in enumerate(facts.most))
    return replace(facts, sizes=sizes, matches=matches, most=most)


def _general(facts: JoinFacts, firsts: Sequence[Choice], origin: int, tau_s: float) -> Choice:
    """The cheapest of the best orders that begin with each of the sides. ``firsts``: for each side, the best with its
    new tuples first. Where there are too many sides to search exactly these serve for all, with this side where it is
    or second, as it has few tuples then: to search for each would be as many searches as the square of the sides."""
    price = _Price(facts, origin, tau_s)
    if len(facts.sizes) <= EXACT_SIDES:
        orders = [choice.order for choice in choose(_with_new(facts, origin, tau_s))]
    else:
        orders = [one.order for one in firsts if one.origin != origin]
        orders += [(order[0], *moved_first(order[1:], origin)) for order in orders]
    orders.append(firsts[origin].order)
    ranked = sorted((price(order), order) for order in dict.fromkeys(orders))
    cost, order = ranked[0]
    runner_up_cost, runner_up = ranked[1] if len(ranked) > 1 else (inf, None)
    return Choice(origin, order, cost, runner_up, runner_up_cost)


def _by_indexes(facts: JoinFacts) -> tuple[Choice, ...]:
    """The best orders without a scan, however short; where only comparisons with several streams together lead to one,
    which facts of pairs do not show, the best orders of all."""
    without = tuple(map(_without_scan, choose(replace(facts, never_scans=True))))
    if all(one.cost < inf for one in without):
        return without
    return tuple(one if one.cost < inf else other for one, other in zip(without, choose(facts), strict=True))


def _without_scan(choice: Choice) -> Choice:
    return choice if choice.runner_up_cost < inf else replace(choice, runner_up=None)


def _naive(facts: JoinFacts, tau_s: float) -> tuple[Choice, ...]:
    """One order for new tuples of all sides: that with the least cost of all together."""
    orders: Iterable[Order] = permutations(facts.sides)
    if len(facts.sizes) > MOST_PERMUTED:
        orders = {choice.order for choice in choose(facts)}
    prices = [_Price(facts, origin, tau_s) for origin in facts.sides]
    costs = {order: [price(order) for price in prices] for order in orders}
    ranked = sorted(costs, key=lambda order: (sum(costs[order]), order))
    best, second = ranked[0], ranked[1] if len(ranked) > 1 else None
    return tuple(
        Choice(origin, best, costs[best][origin], second, costs[second][origin] if second else inf)
        for origin in facts.sides
    )
