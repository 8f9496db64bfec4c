"""`python -m benchmarks.orders`: how good the join orders of paper 002's heuristics are, against the best of all.

Random streams on a common attribute, ranges as in the paper's Tables 5 to 7: rates 1 to 100 (evenly on a log scale),
windows 50 to 500, 2 to 1,000 distinct values; 3 to 6 of them in turn. For each the eager cost of the global order that
a heuristic finds, as a multiple of the cheapest global order's, which is found by trying all n! of them.

ascending and augmented are the paper's (5.1), for comparison; developed is what is used (``plan/ordering.py``), and
only it has a target: within 10% of the optimum, every time. Exits with 1 if it is missed. Costs are of the model, not
measured; the same seed gives the same table.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import defaultdict
from dataclasses import dataclass
from itertools import permutations
from math import ceil, exp, factorial, log
from statistics import fmean, median

from rich.console import Console
from rich.table import Table

from headrace.plan.costs import StreamFacts, multiway_cost
from headrace.plan.ordering import ascending_order, augmented_order, global_order

SIDES = (3, 4, 5, 6)
TARGET = 1.1
SAME = 1 + 1e-9
"""Costs that differ by less are one cost, added up in another order."""
HEURISTICS = ("ascending", "augmented", "developed")


@dataclass(frozen=True, slots=True)
class Outcome:
    """An order's cost over the optimum's, and how many orders were looked at to find it."""

    ratio: float
    tried: int


def random_streams(chance: random.Random, sides: int) -> list[StreamFacts]:
    return [
        StreamFacts(exp(chance.uniform(0, log(100))), chance.uniform(50, 500), chance.randint(2, 1000))
        for _ in range(sides)
    ]


def outcomes(streams: list[StreamFacts]) -> dict[str, Outcome]:
    def price(order: tuple[int, ...]) -> float:
        return multiway_cost(streams, order)

    best = min(map(price, permutations(range(len(streams)))))
    augmented, developed = augmented_order(streams, price), global_order(streams)
    return {
        "ascending": Outcome(price(ascending_order(streams)) / best, 1),
        "augmented": Outcome(augmented.cost / best, augmented.tried),
        "developed": Outcome(developed.cost / best, developed.tried),
    }


def measure(count: int, seed: int) -> dict[tuple[int, str], list[Outcome]]:
    chance = random.Random(seed)
    found = defaultdict(list)
    for number in range(count):
        sides = SIDES[number % len(SIDES)]
        for name, outcome in outcomes(random_streams(chance, sides)).items():
            found[sides, name].append(outcome)
    return found


def table(found: dict[tuple[int, str], list[Outcome]], title: str) -> Table:
    drawn = Table(title=title, caption="cost of the order found / cost of the best of all n! orders")
    for column in ("n", "heuristic", "sets", "optimal", "within 10%", "median", "p99", "max", "orders tried", "n!"):
        drawn.add_column(column, justify="left" if column == "heuristic" else "right")
    for sides, name in sorted(found, key=lambda key: (key[0], HEURISTICS.index(key[1]))):
        drawn.add_row(*row(sides, name, found[sides, name]), end_section=name == HEURISTICS[-1])
    return drawn


def row(sides: int, name: str, found: list[Outcome]) -> list[str]:
    ratios = sorted(outcome.ratio for outcome in found)
    p99 = ratios[ceil(0.99 * len(ratios)) - 1]
    numbers = [f"{ratio:.3f}" for ratio in (median(ratios), p99, ratios[-1])]
    tried = f"{fmean(outcome.tried for outcome in found):.1f} (at most {max(outcome.tried for outcome in found)})"
    shares = [share(ratios, SAME), share(ratios, TARGET)]
    return [str(sides), name, str(len(ratios)), *shares, *numbers, tried, str(factorial(sides))]


def share(ratios: list[float], limit: float) -> str:
    return f"{sum(ratio <= limit for ratio in ratios) / len(ratios):.1%}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=1000, help="how many sets of parameters")
    parser.add_argument("--seed", type=int, default=2)
    options = parser.parse_args()
    found = measure(options.sets, options.seed)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table(found, f"{options.sets:,} random sets of streams, seed {options.seed}"))
    used = [outcome for (_, name), group in found.items() if name == "developed" for outcome in group]
    missed = sum(outcome.ratio > TARGET for outcome in used)
    console.print(f"developed heuristic: {len(used) - missed:,} of {len(used):,} within 10% of the optimum")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
