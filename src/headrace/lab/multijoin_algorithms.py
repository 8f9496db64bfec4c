"""The algorithms of paper 002, section 6: what Table 8 and Figure 4 compare.

Owns their parameters. Table 8: four streams joined by nested loops and by hash tables of five buckets, eagerly and
lazily, each with the best and the worst global order by the cost model. Figure 4(a): nested loops and 2, 10 and 30
buckets against the interval. Figure 4(b): how buckets are best shared between one fast stream and three slow ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from headrace.lab.multijoin_runs import Algorithm
from headrace.plan.costs import Order, StreamFacts, join_facts, multiway_cost
from headrace.plan.methods import orders_for
from headrace.plan.searching import exact_global

TABLE_5 = (
    StreamFacts(10, 100, 500),
    StreamFacts(1, 100, 50),
    StreamFacts(1, 200, 40),
    StreamFacts(3, 100, 5),
)
EVEN = (StreamFacts(1, 100, 50),) * 4
ONE_FAST = (*(StreamFacts(1, 100, 50),) * 3, StreamFacts(50, 100, 50))
TABLE_BUCKETS = 5
INTERVALS = (1, 2, 5, 10, 25, 50)
"""Of Figure 4(a)."""
HASH_BUCKETS = {"HASH2": 2, "HASH10": 10, "HASH30": 30}
"""Of Figure 4(a): by line, how many a window has."""
FAST_TAU = 5
AVERAGES = (1, 2, 4, 6, 8, 10, 12, 13)
"""Buckets a window on average, in Figure 4(b)."""
STRATEGIES = {"Equal": None, "1 to slow": 1, "5 to slow": 5, "10 to slow": 10}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of Table 8. ``tau`` 0 is eager in the model; a shard then steps at every unit of time."""

    name: str
    is_index: bool
    tau: int
    paper: tuple[int, int]
    """The paper's rates, tuples a second, of the best and the worst plan."""

    @property
    def streams(self) -> tuple[StreamFacts, ...]:
        return with_buckets(TABLE_5, (TABLE_BUCKETS if self.is_index else 1,) * len(TABLE_5))

    @property
    def plans(self) -> dict[str, Order]:
        """The cheapest and the dearest of all global orders."""
        orders = permutations(range(len(TABLE_5)))
        worst = max(orders, key=lambda order: multiway_cost(self.streams, order, self.tau))
        return {"best": exact_global(self.streams, self.tau).order, "worst": worst}

    def algorithm(self, plan: str) -> Algorithm:
        method = "index" if self.is_index else "lazy" if self.tau else "eager"
        buckets = (TABLE_BUCKETS,) * len(TABLE_5) if self.is_index else None
        name = f"{self.name}, {plan}"
        return Algorithm(name, method, self.tau or 1, self.plans[plan], buckets, is_eager=not self.tau)


ROWS = (
    Row("Eager NLJ", False, 0, (1614, 333)),
    Row("Lazy NLJ, τ = 5", False, 5, (1446, 296)),
    Row("Lazy NLJ, τ = 10", False, 10, (1332, 274)),
    Row("Eager hash", True, 0, (11540, 2524)),
    Row("Lazy hash, τ = 5", True, 5, (8420, 2041)),
    Row("Lazy hash, τ = 10", True, 10, (7947, 1848)),
)
DEFAULTS = {"Default, results counted": True, "Default, results made": False}


def with_buckets(streams: Sequence[StreamFacts], buckets: Sequence[int]) -> tuple[StreamFacts, ...]:
    return tuple(replace(one, buckets=count) for one, count in zip(streams, buckets, strict=True))


def default_algorithms() -> list[Algorithm]:
    """What a query gets that sets nothing: evaluated as tuples come."""
    facts = join_facts(with_buckets(TABLE_5, (TABLE_BUCKETS,) * len(TABLE_5)))
    orders = orders_for("hybrid", facts)
    return [
        Algorithm(name, "hybrid", 1, orders=orders, counted=counted, is_eager=True)
        for name, counted in DEFAULTS.items()
    ]


def interval_algorithms() -> dict[tuple[str, int], Algorithm]:
    """Figure 4(a): by line and interval. All orders are alike there."""
    order = tuple(range(len(EVEN)))
    found = {}
    for tau in INTERVALS:
        found["NLJ", tau] = Algorithm(f"NLJ, {tau}", "lazy", tau, order)
        for name, count in HASH_BUCKETS.items():
            found[name, tau] = Algorithm(f"{name}, {tau}", "index", tau, order, (count,) * len(EVEN))
    return found


def sharing_algorithms() -> dict[tuple[str, int], Algorithm]:
    """Figure 4(b): by strategy and average number of buckets, where it leaves the fast stream at least one."""
    found = {}
    for name, slow in STRATEGIES.items():
        for average in AVERAGES:
            buckets = (average if slow is None else slow,) * (len(ONE_FAST) - 1)
            fast = len(ONE_FAST) * average - sum(buckets)
            if fast >= 1:
                order = exact_global(with_buckets(ONE_FAST, (*buckets, fast)), FAST_TAU).order
                found[name, average] = Algorithm(f"{name}, {average}", "index", FAST_TAU, order, (*buckets, fast))
    return found
