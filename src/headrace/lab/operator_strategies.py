"""Paper 003: in which order operators take turns. Table 2 row by row, Figures 2 to 4 and the threshold strategy.

By the model clock operators are simulated (``many_operators``, ``simulation``): the schedulers are the engine's, a turn
takes what an operator's facts say. By the wall clock the same kind of setting is SQL on shards, under a budget of time
that bursts exceed (``sixteen_queries``, ``queue_strategies``). Both are told in the same numbers:

      runs[strategy]: mean_latency_s, mean_bytes, peak_bytes, most_bytes, limit_bytes, mode_changes, results,
                      moments: [time, results, the sum of their latencies, bytes that wait]

Bytes by the wall clock are those carried over from one micro-batch to the next; ``most_bytes`` is what waited at the
most within one, too. By the model clock there are no micro-batches, and both are the same.
"""

from __future__ import annotations

from functools import lru_cache
from statistics import fmean, pstdev
from typing import Any

from headrace.engine.choosing import Scheduler
from headrace.engine.graphrun import GraphRun
from headrace.engine.queues import Batch
from headrace.engine.simulated import SimulatedClock, simulated_work
from headrace.engine.strategies import StrategyMemory, StrategyOptions
from headrace.lab.experiment import (
    Chart,
    Claim,
    Experiment,
    Grid,
    Ground,
    Kind,
    Line,
    Numbers,
    Picture,
    Setup,
    at_least,
    at_most,
    equals,
    less,
    near,
    number,
)
from headrace.lab.many_operators import many_operators
from headrace.lab.queue_strategies import EngineRun, Phases, calibrate, run_together
from headrace.lab.simulation import Simulated, bursty_arrivals, in_phases, simulate
from headrace.lab.sixteen_queries import QUERIES, Sixteen, counted
from headrace.model import QueryId
from headrace.plan.capacities import OperatorFacts
from headrace.plan.opgraph import OperatorGraph, OperatorKind, OperatorName, OperatorNode

STRATEGIES = ("fifo", "chain", "path", "segment", "simplified")
MEMORY = {"threshold, short": 0.5, "threshold, plenty": 4.0}
"""Threshold's, as a part of what path capacity needs at most."""
ROWS = tuple(name for name, text in QUERIES.items() if "GROUP BY" not in text)
"""The queries by the wall clock that have no aggregates."""
NEAR = 0.05
"""Two numbers that differ by less are the same."""
TICK_S, SLICE_S = 0.5, 0.25
PHASES = ((0.0, 0.6), (4 / 13, 0.85), (10.4 / 13, 2.0), (11 / 13, 0.85), (12.4 / 13, 2.0), (12.8 / 13, 0.85))
"""From which part of a run on streams take how much of the time there is, by the mean rate: the paper's 13,000 s have a
moderate load for 4,000 s and more later, with highly bursty periods from 10,400 to 11,000 s and 12,400 to 12,800 s."""
POINTS = 260
"""Of a run that figures show."""
PAPERS = {
    "queries": "16, more than 100 operators",
    "streams": "5, self-similar, 64 flows each (ON 1.4, OFF 1.2)",
    "lasts": "13,000 s, load rising",
    "fairness": "none",
}


# --- Table 2

ONE, TWO, THREE = (OperatorName(name) for name in ("select 1", "select 2", "join 3"))
FIGURE_1 = OperatorGraph(
    (
        OperatorNode(ONE, OperatorKind.SELECT, "", ("1",)),
        OperatorNode(TWO, OperatorKind.SELECT, "", ("2",)),
        OperatorNode(THREE, OperatorKind.JOIN, "", (ONE, TWO), (QueryId("q"),)),
    )
)
TABLE_1 = {ONE: OperatorFacts(1, 0.2), TWO: OperatorFacts(1, 0.2), THREE: OperatorFacts(1 / 0.2, 0.8)}

#  time, input 1, input 2, then FIFO and Chain: queue size, tuple latency, throughput
TABLE_2: tuple[tuple[Any, ...], ...] = (
    (1,  1, 0,  1.0, 1.0,  None, None,  0.0,  0.0),
    (2,  0, 1,  1.2, 1.2,  None, None,  0.0,  0.0),
    (3,  1, 1,  3.0, 2.4,  2,    None,  0.16, 0.0),
    (4,  0, 0,  2.2, 1.6,  None, None,  0.0,  0.0),
    (5,  0, 0,  2.0, 0.8,  3,    None,  0.16, 0.0),
    (6,  0, 0,  1.2, 0.6,  None, 5,     0.0,  0.16),
    (7,  0, 0,  1.0, 0.4,  4,    5,     0.16, 0.16),
    (8,  0, 0,  0.2, 0.2,  None, 5,     0.0,  0.16),
    (9,  0, 0,  0.0, 0.0,  6,    6,     0.16, 0.16),
    (10, 1, 0,  1.0, 1.0,  None, None,  0.0,  0.0),
)  # fmt: skip


def run_of(strategy: str) -> GraphRun:
    """Figure 1's operators under a strategy."""
    options, memory = StrategyOptions(slice_s=1), StrategyMemory()
    scheduler = Scheduler.of(strategy, "static", FIGURE_1, TABLE_1, options, memory)
    return GraphRun(FIGURE_1, scheduler, TABLE_1, simulated_work(TABLE_1), SimulatedClock(TABLE_1))


def measured_rows(strategy: str) -> list[tuple[float, float | None, float]]:
    """Queue size, tuple latency and throughput at each time of Table 2. A time is an instant: queues are told after the
    tuples of that instant have come, latency and throughput of what reached the root since the row before."""
    run, rows = run_of(strategy), []
    for time, first, second, *_ in TABLE_2:
        before = len(run.record.deliveries)
        run.work(until_s=time)
        for source, tuples in (("1", first), ("2", second)):
            if tuples:
                run.offer(source, Batch(tuples, tuples, arrived_s=time))
        run.validate()
        out = run.record.deliveries[before:]
        rows.append((run.tuples, out[0].latency_s if out else None, sum(one.tuples for one in out)))
    return rows


def _table_2(_: Setup) -> Numbers:
    return {name: [list(row) for row in measured_rows(name)] for name in ("fifo", "chain")}


def _told(row: list[float | None]) -> list[str]:
    return ["-" if one is None else f"{one + 0.0:.4g}" for one in row]


def _printed(column: int) -> list[list[str]]:
    return [_told([row[3 + column], row[5 + column], row[7 + column]]) for row in TABLE_2]


def _grid_2(numbers: Numbers) -> list[Picture]:
    fifo, chain = ([_told(row) for row in numbers[name]] for name in ("fifo", "chain"))
    rows = [
        [str(row[0]), str(row[1]), str(row[2]), *(cell for pair in zip(one, other, strict=True) for cell in pair)]
        for row, one, other in zip(TABLE_2, fifo, chain, strict=True)
    ]
    head = ("time", "input 1", "input 2", "queue F", "queue C", "latency F", "latency C", "through F", "through C")
    return [Grid("Table 2 (F: FIFO, C: Chain)", head, rows)]


def _claims_2(numbers: Numbers) -> list[Claim]:
    found = []
    for column, name in enumerate(("fifo", "chain")):
        wrong = [
            row for row, printed in zip(numbers[name], _printed(column), strict=True) if _told(_clean(row)) != printed
        ]
        found.append(equals(f"{name}: every row is as printed: rows that are not", len(wrong), 0))
    queues = {name: fmean(row[0] for row in numbers[name]) for name in ("fifo", "chain")}
    latencies = {name: fmean(row[1] for row in numbers[name] if row[1]) for name in ("fifo", "chain")}
    return [
        *found,
        less("Chain needs less queue than FIFO, on the average", queues["chain"], queues["fifo"]),
        less("but its tuples wait longer", latencies["fifo"], latencies["chain"]),
    ]


def _clean(row: list[float | None]) -> list[float | None]:
    """Without what is left of adding up floating-point numbers."""
    return [one if one is None else round(one, 9) for one in row]


# --- Figures 2 to 4


def _seeds(setup: Setup) -> list[int]:
    """Of the five streams."""
    first = setup.seed + (10 if setup.is_model else 6)
    return list(range(first, first + 5))


def _over_time(setup: Setup) -> Numbers:
    first = _seeds(setup)[0]
    return _simulated(first, setup.is_quick) if setup.is_model else _measured(first, setup.is_quick)


@lru_cache(maxsize=4)
def _simulated(seed: int, is_quick: bool) -> Numbers:
    seconds = 130.0 if is_quick else 1300.0
    setting = many_operators(1.0)
    arrivals = in_phases(bursty_arrivals(setting, seconds, TICK_S, seed), PHASES, seed)

    def run(strategy: str, limit_bytes: float | None = None) -> Simulated:
        options = StrategyOptions(slice_s=SLICE_S, limit_bytes=limit_bytes)
        return simulate(setting, arrivals, TICK_S, strategy, options=options)

    bucket_s = seconds / POINTS
    runs = {name: _simulated_run(run(name), None, bucket_s) for name in STRATEGIES}
    for name, part in MEMORY.items():
        limit_bytes = part * runs["path"]["peak_bytes"]
        runs[name] = _simulated_run(run("threshold", limit_bytes), limit_bytes, bucket_s)
    ours = {
        "queries": f"16, {len(setting.graph.names)} operators, simulated",
        "lasts": f"{seconds:.0f} s",
        "load": _phases_text(PHASES),
    }
    return {"ours": ours, "runs": runs}


def _phases_text(phases: Phases) -> str:
    return ", ".join(f"{load:.0%} from {since:.0%} of the time on" for since, load in phases)


def _simulated_run(run: Simulated, limit_bytes: float | None, bucket_s: float) -> Numbers:
    buckets: dict[int, list[float]] = {}
    for one in run.record.deliveries:
        bucket = buckets.setdefault(int(one.at_s / bucket_s), [0.0, 0.0])
        bucket[0] += one.tuples
        bucket[1] += one.tuples * one.latency_s
    waits = run.used_bytes[:: round(bucket_s / TICK_S)]
    last = max([*buckets, len(waits) - 1])
    return {
        "mean_latency_s": run.record.mean_latency_s,
        "mean_bytes": run.record.mean_bytes,
        "peak_bytes": run.record.most_bytes,
        "most_bytes": run.record.most_bytes,
        "limit_bytes": limit_bytes,
        "mode_changes": run.memory.mode_changes,
        "results": run.record.delivered,
        "moments": [
            [at * bucket_s, *buckets.get(at, [0.0, 0.0]), waits[at] if at < len(waits) else 0.0]
            for at in range(last + 1)
        ],
    }


@lru_cache(maxsize=4)
def _measured(seed: int, is_quick: bool) -> Numbers:
    setting = Sixteen(seconds=0.8 if is_quick else 2.4, scale=0.25 if is_quick else 1.0, seed=seed)
    known = calibrate(setting)
    phases = ((0.0, 1.0),) if is_quick else PHASES
    plain = run_together({name: (name, None) for name in STRATEGIES}, known, phases)
    limits = {name: max(1, round(part * plain["path"].peak_bytes)) for name, part in MEMORY.items()}
    limited = run_together({name: ("threshold", limit) for name, limit in limits.items()}, known, phases)
    ours = {
        "queries": f"16 in SQL, on one shard, {counted(known.plan)}",
        "lasts": f"{setting.intervals} s of stream time",
        "load": _phases_text(phases),
    }
    return {"ours": ours, "runs": {name: told_run(one) for name, one in (plain | limited).items()}}


def told_run(run: EngineRun) -> Numbers:
    """A measured run in numbers."""
    return {
        "results": run.results,
        "by_query": run.by_query,
        "mean_latency_s": round(run.mean_latency_s, 3),
        "peak_bytes": run.peak_bytes,
        "most_bytes": run.most_bytes,
        "mean_bytes": round(run.mean_bytes),
        "limit_bytes": run.limit_bytes,
        "mode_changes": run.mode_changes,
        "turns": sum(run.turns.values()),
        "moments": [[round(one.at_s, 3), one.results, round(one.latency_s, 1), one.queue_bytes] for one in run.moments],
    }


def _moments(numbers: Numbers, title: str, y: str, value: Any) -> list[Picture]:
    lines = [
        Line(
            name,
            [one[0] for one in numbers["runs"][name]["moments"]],
            list(map(value, numbers["runs"][name]["moments"])),
        )
        for name in STRATEGIES
    ]
    return [Chart(title, "stream time, s", y, lines)]


def _figure_2(numbers: Numbers) -> list[Picture]:
    means = [1000 * numbers["runs"][name]["mean_latency_s"] for name in STRATEGIES]
    bars = [Line(name, ["all results"], [mean]) for name, mean in zip(STRATEGIES, means, strict=True)]
    return [
        *_moments(
            numbers, "Figure 2: tuple latency", "mean latency, s", lambda one: one[2] / one[1] if one[1] else None
        ),
        Chart("Mean latency", "", "ms", bars, Kind.BARS),
    ]


def latency_claims(numbers: Numbers) -> list[Claim]:
    """Of Figure 2."""
    latency = {name: run["mean_latency_s"] for name, run in numbers["runs"].items()}
    return [
        *(less(f"mean latency: path capacity is before {name}", latency["path"], latency[name])
          for name in ("fifo", "chain", "segment", "simplified")),
        less("simplified segment is before Chain", latency["simplified"], latency["chain"]),
        equals("Chain is the worst of Chain, simplified segment and path capacity",
               max(("chain", "simplified", "path"), key=lambda name: latency[name]), "chain"),
    ]  # fmt: skip


def _figure_3(numbers: Numbers) -> list[Picture]:
    return _moments(numbers, "Figure 3: throughput", "results", lambda one: one[1])


def throughput_claims(numbers: Numbers) -> list[Claim]:
    """Of Figure 3."""
    runs = numbers["runs"]
    totals = [_rows(runs[name]) for name in STRATEGIES]
    spread = {name: _spread([one[1] for one in runs[name]["moments"]]) for name in ("chain", "simplified", "path")}
    peak = max(one[1] for one in runs["chain"]["moments"]) / fmean(one[1] for one in runs["chain"]["moments"])
    return [
        at_most("all strategies deliver the same in the end: most over least", max(totals) / max(min(totals), 1), 1.02),
        less("path capacity has a smoother output than Chain: variation", spread["path"], spread["chain"]),
        less("so has simplified segment: variation", spread["simplified"], spread["chain"]),
        less("path capacity has the smoothest output of the three: variation", spread["path"], spread["simplified"]),
        near("Chain's highest output rate is almost 5 times its average", peak, 5),
    ]


def _rows(run: Numbers) -> float:
    """What a run delivered: results of queries without aggregates, as all of the paper's are. An aggregate has a row
    for each time that it is evaluated."""
    by_query: dict[str, float] = run.get("by_query", {})
    return sum(by_query[name] for name in ROWS if name in by_query) if by_query else float(run["results"])


def _spread(values: list[float]) -> float:
    """The standard deviation over the mean."""
    return pstdev(values) / fmean(values)


def _figure_4(numbers: Numbers) -> list[Picture]:
    return _moments(numbers, "Figure 4: queue memory", "MB", lambda one: one[3] / 1e6)


def memory_claims(numbers: Numbers) -> list[Claim]:
    """Of Figure 4."""
    runs = numbers["runs"]
    found = []
    for told, key in (("mean", "mean_bytes"), ("largest", "peak_bytes")):
        used = {name: runs[name][key] for name in STRATEGIES}
        found += [
            less(f"{told} queues: Chain and segment need less than path capacity and FIFO",
                 max(used["chain"], used["segment"]), min(used["path"], used["fifo"])),
            at_least(f"{told} queues: simplified segment needs about as much as Chain and segment, or more",
                     used["simplified"] / max(min(used["chain"], used["segment"]), 1), 1 - NEAR),
            less(f"{told} queues: simplified segment needs less than path capacity", used["simplified"], used["path"]),
        ]  # fmt: skip
    return found


def _threshold(numbers: Numbers) -> list[Picture]:
    names = ("path", "simplified", *MEMORY)
    runs = numbers["runs"]
    return [
        Chart("Threshold: queue memory", "stream time, s", "MB",
              [Line(name, [one[0] for one in runs[name]["moments"]], [one[3] / 1e6 for one in runs[name]["moments"]])
               for name in names]),
        Grid("Threshold", ("strategy", "mean latency, s", "largest queues carried over, MB",
                           "within a micro-batch, MB", "memory limit, MB", "mode changes"), [
            [name, number(runs[name]["mean_latency_s"]), number(runs[name]["peak_bytes"] / 1e6),
             number(runs[name]["most_bytes"] / 1e6),
             "" if runs[name]["limit_bytes"] is None else number(runs[name]["limit_bytes"] / 1e6),
             str(runs[name]["mode_changes"])] for name in names
        ]),
    ]  # fmt: skip


def threshold_claims(numbers: Numbers) -> list[Claim]:
    runs = numbers["runs"]
    latency = {name: run["mean_latency_s"] for name, run in runs.items()}
    short, plenty = runs["threshold, short"], runs["threshold, plenty"]
    return [
        at_most("short of memory: largest queues carried over, against the limit",
                short["peak_bytes"] / short["limit_bytes"], 1.0),
        less("short of memory: a hybrid of path capacity and simplified segment, whose latency is not exceeded by 5%",
             short["mean_latency_s"], latency["simplified"], times=1 + NEAR),
        at_least("short of memory: it changes its mode", short["mode_changes"], 1),
        at_most("memory is plenty: latency over path capacity's", plenty["mean_latency_s"] / latency["path"], 1 + NEAR),
    ]  # fmt: skip


OPERATOR_EXPERIMENTS = (
    Experiment(
        "003-table-2", "Table 2: FIFO and Chain, row by row",
        "Two selections and a join under a burst: queues, latency and throughput at each time.",
        Ground.SIMULATED, {"operators": "Table 1"}, _table_2, _grid_2, _claims_2,
    ),
    Experiment(
        "003-figure-2", "Figure 2: tuple latency over time",
        "16 queries over bursty streams: how long a result's tuple was on its way.",
        Ground.ENGINE, PAPERS, _over_time, _figure_2, latency_claims, seeds=_seeds, by_model=Ground.SIMULATED,
    ),
    Experiment(
        "003-figure-3", "Figure 3: throughput over time",
        "The same runs: results as they come out.",
        Ground.ENGINE, PAPERS, _over_time, _figure_3, throughput_claims, seeds=_seeds, by_model=Ground.SIMULATED,
    ),
    Experiment(
        "003-figure-4", "Figure 4: memory over time",
        "The same runs: what waits in queues.",
        Ground.ENGINE, PAPERS, _over_time, _figure_4, memory_claims, seeds=_seeds, by_model=Ground.SIMULATED,
    ),
    Experiment(
        "003-threshold", "Threshold strategy",
        "Path capacity while there is memory, simplified segment while there is not.",
        Ground.ENGINE, PAPERS, _over_time, _threshold, threshold_claims, seeds=_seeds, by_model=Ground.SIMULATED,
    ),
)  # fmt: skip
