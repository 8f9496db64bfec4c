"""When to leave an order for a better one, and how to say why.

    facts then  ->  order in use          facts now  ->  cost of the order in use, best order and its cost
                                                         better by more than the threshold? switch, with a reason

Rates that waver must not make orders waver: an order stays until another is cheaper by a share, the threshold, at
what is known now (paper 002, section 5.4: fluctuating arrival rates). A switch changes cost, never an answer.

Owns: the comparison, and the sentence that is logged with a switch. Cost: one order's cost for each origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, log

from headrace.plan.costs import JoinFacts, Order, order_cost
from headrace.plan.ordering import Choice

NOTABLE = 1.05
"""A fact that changed by less than this factor is no reason."""


@dataclass(frozen=True, slots=True)
class Switch:
    """From one order to another for new tuples of a side, with what both cost by the facts of now."""

    origin: int
    before: Order
    after: Order
    cost_before: float
    cost_after: float
    reason: str


@dataclass(frozen=True, slots=True)
class Change:
    """A fact then and now. ``weight`` is how far it went, the same up and down."""

    what: str
    then: float
    now: float
    unit: str = ""

    @property
    def weight(self) -> float:
        if self.then == self.now:
            return 0.0
        return abs(log(self.now / self.then)) if self.then and self.now else inf

    def __str__(self) -> str:
        verb = "rose" if self.now > self.then else "fell"
        return f"{self.what} {verb} from {number(self.then)}{self.unit} to {number(self.now)}{self.unit}"


def is_better(now: float, best: float, threshold: float) -> bool:
    """Whether the best order costs less than the one in use by more than a share of its cost (0.2: a fifth).

    >>> is_better(3400, 1200, 0.2), is_better(3400, 3000, 0.2), is_better(0, 0, 0.2)
    (True, False, False)
    """
    return best < now * (1 - threshold)


def find_switch(
    choice: Choice,
    in_use: Order,
    then: JoinFacts,
    now: JoinFacts,
    threshold: float,
    names: Sequence[str],
    cost: float | None = None,
) -> Switch | None:
    """The switch from the order in use, chosen by the facts of then, to a choice made by the facts of now; if it pays.
    ``cost``: of the order in use, where it is not that of new tuples first.

    >>> edge = {(0, 1): 1.0, (1, 2): 1.0}
    >>> then = JoinFacts((10, 10, 10), (50, 100, 60), edge, {}, frozenset())
    >>> now = JoinFacts((100, 10, 10), (500, 100, 60), edge, {}, frozenset())
    >>> choice = Choice(1, (1, 2, 0), order_cost(now, 1, (1, 2, 0)), None, inf)
    >>> print(find_switch(choice, (1, 0, 2), then, now, 0.2, "abc").reason)
    order for new tuples of b: b, c, a instead of b, a, c: estimated cost 5,600 instead of 8,000 comparisons a second \
(a's rate rose from 10/s to 100/s)
    """
    cost = order_cost(now, choice.origin, in_use) if cost is None else cost
    if choice.order == in_use or not is_better(cost, choice.cost, threshold):
        return None
    reason = _reason(choice, in_use, cost, main_change(then, now, names), names)
    return Switch(choice.origin, in_use, choice.order, cost, choice.cost, reason)


def _reason(choice: Choice, in_use: Order, cost: float, change: Change | None, names: Sequence[str]) -> str:
    def listed(order: Order) -> str:
        return ", ".join(names[side] for side in order)

    text = (
        f"order for new tuples of {names[choice.origin]}: {listed(choice.order)} instead of {listed(in_use)}: "
        f"estimated cost {number(choice.cost)} instead of {number(cost)} comparisons a second"
    )
    return f"{text} ({change})" if change else text


def main_change(then: JoinFacts, now: JoinFacts, names: Sequence[str]) -> Change | None:
    """The fact that changed the most; among equals a rate before the window's size, which follows from it."""
    changes = [one for one in _changes(then, now, names) if one.weight > log(NOTABLE)]
    return max(changes, key=lambda one: round(one.weight, 6), default=None)


def _changes(then: JoinFacts, now: JoinFacts, names: Sequence[str]) -> Iterator[Change]:
    for side, name in enumerate(names):
        yield Change(f"{name}'s rate", then.rates[side], now.rates[side], "/s")
    for side, name in enumerate(names):
        yield Change(f"{name}'s window", then.sizes[side], now.sizes[side], " tuples")
    for i, j in sorted(now.matches):
        what = f"the share of {names[i]} and {names[j]} that joins"
        yield Change(what, then.selectivity(i, j), now.selectivity(i, j))


def number(value: float) -> str:
    """As few digits as tell: 1,200; 3.5; 0.0021.

    >>> [number(value) for value in (1200.4, 10.0, 3.52, 0.00214, 0.0)]
    ['1,200', '10', '3.5', '0.0021', '0']
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.3g}"
