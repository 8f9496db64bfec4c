"""Paper 002: joins of many windows. Figures 2 and 3 and Tables 5 to 7 by the cost model, Table 3 on a shard, Table 8
and Figure 4 by the model or measured on a shard.

By the model clock an access of a tuple takes as long as it must for the paper's eager nested loops to come to their
rate; everything else follows. By the wall clock rates are tuples over the processor's time of ``Shard.step``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, permutations
from math import isclose

from headrace.lab.experiment import (
    Chart,
    Claim,
    Experiment,
    Grid,
    Ground,
    Line,
    Numbers,
    Picture,
    Setup,
    above,
    at_least,
    at_most,
    between,
    equals,
    less,
    nothing_drawn,
    number,
    rises,
    seed_itself,
)
from headrace.lab.multijoin_algorithms import (
    EVEN,
    FAST_TAU,
    HASH_BUCKETS,
    ONE_FAST,
    ROWS,
    TABLE_5,
    interval_algorithms,
    sharing_algorithms,
    with_buckets,
)
from headrace.lab.multijoin_runs import Algorithm, Filled, Workload
from headrace.lab.small_example import TABLE_3, table_3
from headrace.plan.costs import Order, StreamFacts, general_cost, multiway_cost, naive_cost
from headrace.plan.ordering import ascending_order, augmented_order, global_order
from headrace.plan.searching import exact_general, exact_global, exact_naive
from headrace.plan.upkeep import unit_cost

TABLE_6 = (StreamFacts(100, 100, 200), StreamFacts(1, 100, 200), StreamFacts(1, 100, 20), StreamFacts(3, 100, 2))
TABLE_7 = (StreamFacts(11, 100, 200), StreamFacts(10, 100, 100), StreamFacts(1, 100, 65), StreamFacts(1, 100, 20))
ALIKE = (StreamFacts(1, 100, 50),) * 4
ONE_TENFOLD = (*ALIKE[:3], StreamFacts(10, 100, 50))
INTERVALS = (1, 2, 5, 10, 20, 30, 40, 50)
PAPER_RATE = ROWS[0].paper[0]
PER_UNIT = sum(one.rate for one in TABLE_5)
ACCESS_S = PER_UNIT / (PAPER_RATE * 16_000)
"""Of a tuple: eager nested loops with the best order access 16,000 a unit of time (appendix B), at the paper's rate."""
ALIKE_TEXT = {"streams": "4 of 1 tuple a unit of time", "windows": "100 units", "distinct values": "50"}


# --- Figures 2 and 3


def _figure_2(_: Setup) -> Numbers:
    sides = list(range(2, 8))
    streams = {count: (ALIKE[0],) * count for count in sides}
    return {
        "windows": sides,
        "NAIVE": [naive_cost(streams[count], tuple(range(count))) for count in sides],
        "MULTI-WAY": [multiway_cost(streams[count], tuple(range(count))) for count in sides],
    }


def _chart_2(numbers: Numbers) -> list[Picture]:
    lines = [Line(name, numbers["windows"], numbers[name]) for name in ("NAIVE", "MULTI-WAY")]
    return [Chart("Figure 2", "sliding windows", "tuple accesses a unit of time", lines, log_y=True)]


def _claims_2(numbers: Numbers) -> list[Claim]:
    naive, eager = numbers["NAIVE"], numbers["MULTI-WAY"]
    ratios = [one / other for one, other in zip(naive, eager, strict=True)]
    gaps = [one - other for one, other in zip(naive, eager, strict=True)]
    return [
        equals("two windows cost the same", number(naive[0]), number(eager[0])),
        at_least("from three windows on the naive join costs far more: least ratio", min(ratios[1:]), 10),
        rises("the new join scales better: what it saves, window by window", gaps),
    ]


def best_general(streams: Sequence[StreamFacts], tau: float) -> float:
    return general_cost(streams, [exact_general(streams, origin, tau).order for origin in range(len(streams))], tau)


def _figure_3(_: Setup) -> Numbers:
    found: Numbers = {"intervals": list(INTERVALS)}
    for name, streams in (("a", ALIKE), ("b", ONE_TENFOLD)):
        found[name] = {
            "NAIVE": [exact_naive(streams, tau).cost for tau in INTERVALS],
            "LAZY": [exact_global(streams, tau).cost for tau in INTERVALS],
            "GENERAL": [best_general(streams, tau) for tau in INTERVALS],
        }
    return found


def _chart_3(numbers: Numbers) -> list[Picture]:
    told = {"a": "Figure 3(a): four streams alike", "b": "Figure 3(b): the fourth ten times as fast"}
    return [
        Chart(
            title,
            "interval, units of time",
            "tuple accesses a unit of time",
            [Line(name, numbers["intervals"], costs) for name, costs in numbers[part].items()],
        )
        for part, title in told.items()
    ]


def _claims_3(numbers: Numbers) -> list[Claim]:
    alike, fast = numbers["a"], numbers["b"]
    same = all(isclose(one, other, rel_tol=1e-6) for one, other in zip(alike["LAZY"], alike["GENERAL"], strict=True))
    ahead = [one / other for one, other in zip(alike["NAIVE"], alike["LAZY"], strict=True)]
    least = all(
        general <= min(others) * (1 + 1e-6)
        for general, *others in zip(fast["GENERAL"], fast["LAZY"], fast["NAIVE"], strict=True)
    )
    crossing = next(
        (
            tau
            for tau, lazy, naive in zip(numbers["intervals"], fast["LAZY"], fast["NAIVE"], strict=True)
            if naive < lazy
        ),
        None,
    )
    return [
        equals("(a) LAZY and GENERAL cost the same at every interval", same, True),
        rises("(a) the cost rises with the interval", alike["LAZY"]),
        above("(a) NAIVE is dearer at every interval: least ratio to LAZY", min(ahead), 1.0),
        rises("(a) most of all where the interval is short: ratio to LAZY", ahead, down=True),
        equals("(b) GENERAL is the cheapest at every interval", least, True),
        between(
            "(b) LAZY is as good as GENERAL at interval 1: ratio", fast["LAZY"][0] / fast["GENERAL"][0], 0.999, 1.001
        ),
        equals("(b) at a long interval NAIVE is cheaper than LAZY", crossing is not None, True),
        at_most("(b) and close to GENERAL: ratio at 50", fast["NAIVE"][-1] / fast["GENERAL"][-1], 1.1),
    ]


# --- Tables 3 and 5 to 7


def _table_3_grids(numbers: Numbers) -> list[Picture]:
    head = ("S1", "S2", "S3")
    rows = [[str(one) for one in row] for row in numbers["found"]]
    naive = [[str(one) for one in row] for row in numbers["naive"]]
    return [
        Grid("What the shard gives for new S3-tuples (times of the three)", head, rows),
        Grid("What the naive lazy algorithm would give", head, naive),
    ]


def _claims_table_3(numbers: Numbers) -> list[Claim]:
    return [
        equals("the correct results, and no others", numbers["found"], [list(row) for row in TABLE_3]),
        equals("the naive algorithm's incorrect ones: how many", len(numbers["naive"]) - len(numbers["found"]), 6),
    ]


def _order(text: str) -> Order:
    """The paper counts from one."""
    return tuple(int(side) - 1 for side in text)


def _named(order: Order) -> str:
    return "".join(str(side + 1) for side in order)


def _costs(streams: Sequence[StreamFacts]) -> Numbers:
    """All orders by cost, and what the heuristics find."""

    def price(order: Order) -> float:
        return multiway_cost(streams, order)

    ranked = sorted(permutations(range(len(streams))), key=price)
    return {
        "streams": [[one.rate, one.window, one.distinct] for one in streams],
        "orders": [[_named(order), price(order)] for order in ranked],
        "mean": sum(map(price, ranked)) / len(ranked),
        "heuristics": {
            "ascending": [_named(order := ascending_order(streams)), price(order)],
            "augmented": [_named((found := augmented_order(streams, price)).order), found.cost],
            "developed": [_named((used := global_order(streams)).order), used.cost],
        },
    }


def _orders_grid(numbers: Numbers) -> list[Picture]:
    names = [f"S{side + 1}" for side in range(len(numbers["streams"]))]
    streams = [[name, *(number(one) for one in row)] for name, row in zip(names, numbers["streams"], strict=True)]
    ranked = numbers["orders"]
    shown = [*((f"{at}.", *ranked[at - 1]) for at in (1, 2, 3, 4, 5)), ("worst", *ranked[-1])]
    shown += [(name, *found) for name, found in numbers["heuristics"].items()]
    return [
        Grid("Streams", ("", "rate", "window", "distinct"), streams),
        Grid("Global orders, by cost", ("", "order", "accesses a unit"), [[a, b, number(c)] for a, b, c in shown]),
    ]


def _printed(numbers: Numbers, text: str, cost: float) -> Claim:
    costs = dict(numbers["orders"])
    return equals(f"order {text} costs {cost:,}", f"{costs[text]:,.0f}", f"{cost:,.0f}")


def _claims_5(numbers: Numbers) -> list[Claim]:
    ranked = numbers["orders"]
    return [
        _printed(numbers, "1234", 16000),
        _printed(numbers, "2134", 19600),
        equals("1234 is the best order", ranked[0][0], "1234"),
        equals("2134 is the fifth-best: its cost", number(ranked[4][1]), number(19600)),
        between("the worst plan costs nearly 90,000", ranked[-1][1], 80_000, 90_000),
        equals(
            "the heuristic finds the best order", number(numbers["heuristics"]["augmented"][1]), number(ranked[0][1])
        ),
    ]


def _claims_6(numbers: Numbers) -> list[Claim]:
    ranked = numbers["orders"]
    return [
        _printed(numbers, "2134", 80400),
        _printed(numbers, "1234", 120000),
        between("order 2314 costs about 123,000", dict(ranked)["2314"], 122_000, 124_000),
        between("order 2341 costs about 248,000", dict(ranked)["2341"], 247_000, 249_000),
        equals("2134 is the best order", ranked[0][0], "2134"),
        between("the worst plan costs nearly 650,000", ranked[-1][1], 600_000, 650_000),
        equals("the augmented heuristic finds the best", numbers["heuristics"]["augmented"][0], "2134"),
    ]


def _claims_7(numbers: Numbers) -> list[Claim]:
    ranked = numbers["orders"]
    return [
        _printed(numbers, "3412", 49542),
        _printed(numbers, "3142", 47977),
        _printed(numbers, "3124", 51954),
        equals("3142 is the best order", ranked[0][0], "3142"),
        equals("the mean of all orders is 63,362", f"{numbers['mean']:,.0f}", "63,362"),
        equals("the augmented heuristic finds the best", numbers["heuristics"]["augmented"][0], "3142"),
    ]


# --- Table 8 and Figure 4


def _workload(setup: Setup, name: str, streams: Sequence[StreamFacts], scale: int, units: int) -> Workload:
    """Full: as large as it must be for comparing rows to take the time, and not a step's fixed cost."""
    return Workload(name, tuple(streams), max(2, scale // 10) if setup.is_quick else scale, units, setup.seed)


def _rates(setup: Setup, workload: Workload, algorithms: Sequence[Algorithm]) -> list[tuple[float, int]]:
    """Tuples a second that each could take, and the results it found."""
    filled: dict[int, Filled] = {}
    for one in algorithms:
        if one.tau not in filled:
            filled[one.tau] = Filled(workload, one.tau, counted=True)
    rounds = 1 if setup.is_quick else 3
    found = []
    for one in algorithms:
        runs = [filled[one.tau].run(one) for _ in range(rounds)]
        found.append((workload.measured_tuples / sorted(run[0] for run in runs)[rounds // 2], runs[0][2]))
    return found


def _model_rate(streams: Sequence[StreamFacts], accesses: float) -> float:
    """Tuples a second where everything is accesses."""
    return sum(one.rate for one in streams) / (accesses * ACCESS_S)


def _with_index(streams: Sequence[StreamFacts], algorithm: Algorithm) -> tuple[StreamFacts, ...]:
    return with_buckets(streams, algorithm.buckets or (1,) * len(streams))


def _table_8(setup: Setup) -> Numbers:
    plans = [(row, plan) for row in ROWS for plan in ("best", "worst")]
    workload = _workload(setup, "Table 8", TABLE_5, 80, 10)
    algorithms = [row.algorithm(plan) for row, plan in plans]
    measured = _rates(setup, workload if not setup.is_model else _small(setup), algorithms)
    cells: dict[str, Numbers] = {}
    for (row, plan), (rate, results) in zip(plans, measured, strict=True):
        cost = multiway_cost(row.streams, row.plans[plan], row.tau)
        cell = cells.setdefault(row.name, {"is_index": row.is_index, "tau": row.tau, "paper": list(row.paper)})
        cell[plan] = {
            "rate": _model_rate(row.streams, cost) if setup.is_model else rate,
            "order": _named(row.plans[plan]),
            "results": results,
        }
    scale = "1 (cost model); results counted at 1" if setup.is_model else str(workload.scale)
    return {"ours": {"scale of rates and values": scale}, "rows": cells}


def _small(setup: Setup) -> Workload:
    """Table 8's streams as they are: enough to count results."""
    return Workload("Table 8", TABLE_5, 1, 10, setup.seed)


def _grid_8(numbers: Numbers) -> list[Picture]:
    rows = [
        [name, number(row["best"]["rate"]), number(row["worst"]["rate"]),
         f"{row['best']['rate'] / row['worst']['rate']:.1f}", f"{row['paper'][0]:,} / {row['paper'][1]:,}"]
        for name, row in numbers["rows"].items()
    ]  # fmt: skip
    head = ("algorithm", "best plan, tuples/s", "worst plan, tuples/s", "ratio", "the paper's, best / worst")
    return [Grid("Table 8: highest input rate", head, rows)]


def _claims_8(numbers: Numbers) -> list[Claim]:
    rows: dict[str, Numbers] = numbers["rows"]
    ratios = {name: row["best"]["rate"] / row["worst"]["rate"] for name, row in rows.items()}
    found = [
        at_least(f"{name}: the best plan is several times as fast as the worst (3 at least)", ratio, 3)
        for name, ratio in ratios.items()
    ]
    loops = {row["tau"]: row["best"]["rate"] for row in rows.values() if not row["is_index"]}
    hashes = {row["tau"]: row["best"]["rate"] for row in rows.values() if row["is_index"]}
    found += [less(f"hash joins outperform nested loops, interval {tau}", loops[tau], hashes[tau]) for tau in loops]
    found += [
        rises(f"a longer interval hurts ({told}: eager, 5, 10)", list(rates.values()), down=True)
        for told, rates in (("nested loops", loops), ("hash", hashes))
    ]
    found.append(less("eager nested loops: plans are less apart than their accesses (86,850 against 16,000)",
                      ratios["Eager NLJ"], 86_850 / 16_000, times=0.99))  # fmt: skip
    results = {row[plan]["results"] for row in rows.values() for plan in ("best", "worst")}
    return [*found, equals("every algorithm finds the same results: different counts", len(results), 1)]


def _lines_of(
    setup: Setup, workload: Workload, algorithms: dict[tuple[str, int], Algorithm], tau: int | None
) -> dict[str, list[list[float]]]:
    """Rates by line: points of (where, tuples a second). ``tau``: the interval, where it is not the place."""
    streams = workload.streams
    if setup.is_model:
        rates = [
            _model_rate(streams, unit_cost(_with_index(streams, one), one.order or (), tau or at))
            for (_, at), one in algorithms.items()
        ]
    else:
        rates = [rate for rate, _ in _rates(setup, workload, list(algorithms.values()))]
    lines: dict[str, list[list[float]]] = {}
    for (line, at), rate in zip(algorithms, rates, strict=True):
        lines.setdefault(line, []).append([at, rate])
    return lines


def _figure_4a(setup: Setup) -> Numbers:
    workload = _workload(setup, "Figure 4(a)", EVEN, 100, 50)
    return {"ours": _scale(setup, workload), "lines": _lines_of(setup, workload, interval_algorithms(), None)}


def _figure_4b(setup: Setup) -> Numbers:
    workload = _workload(setup, "Figure 4(b)", ONE_FAST, 40, 10)
    return {"ours": _scale(setup, workload), "lines": _lines_of(setup, workload, sharing_algorithms(), FAST_TAU)}


def _seeds_4(setup: Setup) -> Sequence[int]:
    return nothing_drawn(setup) if setup.is_model else seed_itself(setup)


def _scale(setup: Setup, workload: Workload) -> dict[str, str]:
    if setup.is_model:
        return {
            "scale of rates and values": "1",
            "an access": f"{ACCESS_S * 1e6:.2g} us",
            "a visit of a bucket": "40 of them",
        }
    return {"scale of rates and values": str(workload.scale)}


def _chart_4(title: str, x: str, numbers: Numbers) -> list[Picture]:
    lines = [
        Line(name, [at for at, _ in points], [rate for _, rate in points]) for name, points in numbers["lines"].items()
    ]
    return [Chart(title, x, "highest input rate, tuples/s", lines)]


def _chart_4a(numbers: Numbers) -> list[Picture]:
    return _chart_4("Figure 4(a): intervals and buckets", "interval, units of time", numbers)


def _chart_4b(numbers: Numbers) -> list[Picture]:
    return _chart_4("Figure 4(b): one fast stream, three slow", "buckets a window, on average", numbers)


def claims_4a(numbers: Numbers) -> list[Claim]:
    lines: dict[str, list[list[float]]] = numbers["lines"]
    names = list(lines)
    peaks = {name: max(points, key=lambda point: point[1]) for name, points in lines.items()}
    gains = [peaks[other][1] / peaks[one][1] for one, other in pairwise(names)]
    highest = [peaks[name][1] for name in names]
    falls = [points[-1][1] / peaks[name][1] for name, points in lines.items()]
    best = [peaks[name][0] for name in names if name in HASH_BUCKETS]
    buckets = [HASH_BUCKETS.get(name, 1) for name in names]
    marginal = [
        (other[1] - one[1]) / (more - few)
        for (one, few), (other, more) in pairwise(zip((peaks[name] for name in names), buckets, strict=True))
    ]
    return [
        rises("nested loops are the slowest, more buckets are faster: highest rates", highest),
        equals("the greatest gain is from nested loops to two buckets", gains[0] == max(gains), True),
        rises("thereafter a further bucket brings less and less: tuples/s a bucket", marginal, down=True),
        rises("the best interval grows with the buckets (2: 4, 10: 15, 30: 30)", best),
        at_most("rates fall off where the interval is long (by 5% at least): at 50, of the highest", max(falls), 0.95),
    ]  # fmt: skip


def claims_4b(numbers: Numbers) -> list[Claim]:
    lines: dict[str, list[list[float]]] = numbers["lines"]
    rates = {name: {at: rate for at, rate in points} for name, points in lines.items()}  # noqa: C416 - lists, as stored
    shared, many = rates["5 to slow"], rates["10 to slow"]
    below = sum(rate < shared[at] for at, rate in many.items())
    peak, other = (max(rates[name], key=lambda at: rates[name][at]) for name in ("1 to slow", "5 to slow"))
    return [
        rises("Equal rises with the buckets", [rate for _, rate in lines["Equal"]]),
        between("1 to slow has its best at 8 buckets on average", peak, 6, 10),
        between("5 to slow has its best at 12 buckets on average", other, 9, 15),
        equals("10 to slow is below 5 to slow at every point: points where not", len(many) - below, 0),
        less("the best of all is 5 to slow, above Equal", max(rates["Equal"].values()), max(shared.values())),
    ]  # fmt: skip


# --- the experiments


def _orders_experiment(
    table: int, streams: Sequence[StreamFacts], shows: str, claims: Callable[[Numbers], Sequence[Claim]]
) -> Experiment:
    return Experiment(
        f"002-table-{table}",
        f"Table {table}: global join orders",
        shows,
        Ground.FORMULAS,
        {"streams": "4, parameters as shown", "method": "nested loops, eager"},
        lambda _: _costs(streams),
        _orders_grid,
        claims,
    )


JOIN_EXPERIMENTS = (
    Experiment(
        "002-figure-2",
        "Figure 2: how the joins scale with the windows",
        "Eager evaluation: new tuples in the outermost loop, against the naive order.",
        Ground.FORMULAS, {**ALIKE_TEXT, "streams": "2 to 7 of 1 tuple a unit of time"}, _figure_2, _chart_2, _claims_2,
    ),
    Experiment(
        "002-figure-3",
        "Figure 3: lazy evaluation",
        "The best order of each algorithm, as evaluations become rare.",
        Ground.FORMULAS, ALIKE_TEXT, _figure_3, _chart_3, _claims_3,
    ),
    Experiment(
        "002-table-3",
        "Table 3: lazy results",
        "Lazy evaluation must not join tuples that had left their window when the newer one came.",
        Ground.ENGINE, {"windows": "100 s", "interval": "evaluated at 210 s"}, table_3, _table_3_grids, _claims_table_3,
    ),
    _orders_experiment(5, TABLE_5, "The cheapest plans begin with the fast stream.", _claims_5),
    _orders_experiment(6, TABLE_6, "One stream is far faster: the heuristic moves it up.", _claims_6),
    _orders_experiment(7, TABLE_7, "Two streams are faster than the others.", _claims_7),
    Experiment(
        "002-table-8",
        "Table 8: best and worst plans",
        "The highest rate that nested loops and hash joins of five buckets can take, by the best and the worst order.",
        Ground.ENGINE, {"streams": "Table 5", "buckets": "5 a window", "intervals": "eager, 5, 10"},
        _table_8, _grid_8, _claims_8, seed_itself, by_model=Ground.COUNTED,
    ),
    Experiment(
        "002-figure-4a",
        "Figure 4(a): intervals and buckets",
        "The highest rate against how often queries are evaluated and old tuples dropped.",
        Ground.ENGINE, ALIKE_TEXT, _figure_4a, _chart_4a, claims_4a, _seeds_4, by_model=Ground.FORMULAS,
    ),
    Experiment(
        "002-figure-4b",
        "Figure 4(b): sharing out buckets",
        "One stream is fifty times as fast as three others: how many buckets should the slow ones have?",
        Ground.ENGINE, {**ALIKE_TEXT, "streams": "3 of 1 tuple a unit of time, 1 of 50", "interval": "5"},
        _figure_4b, _chart_4b, claims_4b, _seeds_4, by_model=Ground.FORMULAS,
    ),
)  # fmt: skip
