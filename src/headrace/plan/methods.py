"""The orders that each join method follows, by what is known (paper 002, sections 3 and 5).

      naive       one order for all, new tuples wherever it has their side
      eager, lazy, index, hybrid       new tuples first, then the others in the best order for their side
      general     a best order for each side, its new tuples wherever that is best

Owns ``orders_for``. Without an index every step reads a whole window, so that the same facts give other orders. Cost:
exact up to ``choose``'s limit of sides, n! orders for naive up to ``MOST_PERMUTED`` sides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations

from headrace.plan.costs import JoinFacts, Order, order_cost
from headrace.plan.ordering import Choice, choose

SCANNING = frozenset(("eager", "lazy", "general", "naive"))
"""Methods that compare with every row of a window."""
MOST_PERMUTED = 6


def orders_for(method: str, facts: JoinFacts, tau_s: float = 0.0) -> tuple[Order, ...]:
    """For new tuples of each side, the order of all sides."""
    if method == "naive":
        return (_naive(facts, tau_s),) * len(facts.sizes)
    if method == "general":
        return tuple(_general(facts, origin, tau_s) for origin in facts.sides)
    return tuple(choice.order for choice in choices_for(method, facts))


def choices_for(method: str, facts: JoinFacts) -> tuple[Choice, ...]:
    """The best orders that begin with the new tuples, with their costs and the runners-up."""
    return choose(replace(facts, indexed=frozenset()) if method in SCANNING else facts)


def _general(facts: JoinFacts, origin: int, tau_s: float) -> Order:
    """The cheapest of the best orders that begin with each of the sides."""
    new = _with_new(replace(facts, indexed=frozenset()), origin, tau_s)
    return min((choice.order for choice in choose(new)), key=lambda order: _batch_cost(new, order))


def _naive(facts: JoinFacts, tau_s: float) -> Order:
    scanned = replace(facts, indexed=frozenset())
    sides = facts.sides
    if len(sides) > MOST_PERMUTED:
        orders: Iterable[Order] = (choice.order for choice in choose(scanned))
    else:
        orders = permutations(sides)
    return min(orders, key=lambda order: sum(_batch_cost(_with_new(scanned, origin, tau_s), order) for origin in sides))


def _with_new(facts: JoinFacts, origin: int, tau_s: float) -> JoinFacts:
    """The facts when only new tuples of a side count: those of one evaluation, at least one."""
    sizes, rates = list(facts.sizes), list(facts.rates)
    new = max(1.0, facts.rates[origin] * tau_s)
    share = min(1.0, new / sizes[origin]) if sizes[origin] else 1.0
    sizes[origin] *= share
    matches = {(i, j): found * (share if j == origin else 1.0) for (i, j), found in facts.matches.items()}
    return replace(facts, sizes=tuple(sizes), rates=tuple(rates), matches=matches)


def _batch_cost(facts: JoinFacts, order: Order) -> float:
    """What one evaluation looks at, beginning with all tuples of the order's first side."""
    first = order[0]
    if not facts.rates[first]:
        return 0.0
    return order_cost(facts, first, order) / facts.rates[first] * facts.sizes[first]
