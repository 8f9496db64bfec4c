"""Paper 001's experiments in the engine, by the processor's clock: a tree of joins that may use a part of the time.

      unlimited     every probe is made: how many there are a second (saturation), what they find and what they take
      limited       an allocator divides a share of that; after each step, what was measured goes into the next

Streams are Poisson with the parameters of the paper's figure 10, of which the smaller sizes are taken: a probe finds a
few tuples and a path of three joins some hundred, so that all results can be made and counted. States in
between keep a number of tuples, as in the paper (``TreeOptions.state_rows``), so that starving a join makes them stale.
Stale results are counted; with ``is_enforced`` they are not let out either. Steps are short against the smallest
windows: how old a tuple is is seen at a step's end.

The service rate is in probes, the unit of the paper's cost model; what they took is measured by the clock. With
``is_by_stream`` it is in tuples of streams alone, as the paper's equation 3 is printed: probes by joined tuples are
free.

Owns: :class:`Setting` (one plan's parameters), ``feasible_seeds`` (which plans can be kept fresh by the model),
:class:`Arrivals` (a plan's tuples, the same for all allocators) and ``run_limited``. Rates are by stream time; only
what half-way joins spend is on the clock.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from headrace.engine.dispatching import Pace
from headrace.engine.events import EmitCount, EmitRows, Event, ProbesAllowed, StreamsEnded
from headrace.engine.packing import EVENTS, ORDER, ORDER_SHIFT, Packer
from headrace.engine.shard import Shard, ShardOptions
from headrace.engine.tree_join import HalfTally, TreeOptions
from headrace.lab.random_plans import FREE
from headrace.model import StreamId
from headrace.plan.allocating import (
    Allocation,
    AllocationProblem,
    ProbeFacts,
    Retention,
    StreamLoad,
    problem_of,
)
from headrace.plan.allocators import allocate
from headrace.plan.reallocating import reason_to_reallocate
from headrace.plan.sharing import SharedPlan, share
from headrace.plan.trees import JoinTree, Sides, parse_tree
from headrace.sql import read_script

NAMES = "abcd"
SHAPES = {"linear": "(((a b) c) d)", "bushy": "((a b) (c d))"}
FADING = 0.8
clock_s = time.process_time


@dataclass(frozen=True, slots=True)
class Family:
    """Plans with parameters of one kind: those of streams' states, of states in between, of joins. ``step_s``: stream
    time of a step; ``seconds``: of a run; ``warm_s``: before results count."""

    rates: tuple[float, float]
    sizes: tuple[int, int]
    between: tuple[int, int]
    selectivities: tuple[float, float]
    step_s: float
    seconds: float
    warm_s: float


DENSE = Family((400.0, 1000.0), (300, 600), (200, 400), (0.01, 0.02), 0.05, 4.5, 2.5)
"""Of figure 10, the smaller selectivities and windows: a path of three joins makes some hundred results a tuple."""
SPARSE = Family((300.0, 1200.0), (1000, 3000), (200, 1500), (0.0001, 0.001), 0.1, 24.0, 20.0)
"""Of figure 10, without its smallest and largest windows, with a hundredth of its selectivities: probes at the
leaves count as much as those above."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One plan: rates by stream, sizes by state, a selectivity for each join, and freshness as a multiple of windows.
    ``changes``: from which second on joins have other selectivities."""

    shape: str
    rates: tuple[float, ...]
    sizes: dict[Sides, int]
    selectivities: tuple[float, ...]
    freshness: float = 1.5
    seed: int = 0
    changes: tuple[tuple[float, tuple[float, ...]], ...] = ()
    step_s: float = 0.1
    is_by_stream: bool = False

    @property
    def tree(self) -> JoinTree:
        return parse_tree(SHAPES[self.shape], NAMES)

    def costs(self) -> list[float]:
        """What a probe of each half-way join takes of the service rate."""
        return [FREE if self.is_by_stream and len(half.own) > 1 else 1.0 for half in self.tree.half_ways]

    def fresh_rows(self, side: int) -> int:
        return round(self.freshness * self.sizes[(side,)])

    def problem(self) -> AllocationProblem:
        """By the paper's formulas, with no limit."""
        costs = dict(zip(self.tree.half_ways, self.costs(), strict=True))
        held = {state: float(rows) for state, rows in self.sizes.items()}
        fresh = [self.fresh_rows(side) / self.rates[side] for side in self.tree.sides]
        selectivities = self.selectivities
        told = (self.tree, inf, self.rates, held, lambda half: selectivities[half.join], fresh, costs.__getitem__)
        return problem_of(*told, Retention.COUNT)

    def program(self) -> str:
        """Each join has a key of its own: a and b have x, c joins by y, and d by z."""
        columns = "x BIGINT, y BIGINT, z BIGINT, ts TIMESTAMP"
        streams = "".join(
            f"CREATE STREAM {name} ({columns}) WITH (connector = 'files', format = 'parquet', path = '-', time = 'ts');"
            for name in NAMES
        )
        listed = ", ".join(
            f"{name} [ROWS {self.sizes[(side,)]}] FRESHNESS {self.fresh_rows(side)} ROWS"
            for side, name in enumerate(NAMES)
        )
        joined = "a.x = b.x AND b.y = c.y AND c.z = d.z"
        query = f"SELECT a.ts FROM {listed} WHERE {joined} ON OVERLOAD ADAPT INTO (connector = 'count');"
        return f"{streams}CREATE QUERY q AS {query}"

    def plan(self) -> SharedPlan:
        script = read_script(self.program())
        return share(script.catalog, tuple(script.queries))


def drawn_setting(family: Family, shape: str, seed: int, freshness: float = 1.5) -> Setting:
    """A plan of a family; the same seed gives the same."""
    chance = random.Random(f"{shape} {seed}")
    tree = parse_tree(SHAPES[shape], NAMES)
    return Setting(
        shape,
        tuple(chance.uniform(*family.rates) for _ in NAMES),
        {state: chance.randint(*(family.sizes if len(state) == 1 else family.between)) for state in tree.states},
        tuple(chance.uniform(*family.selectivities) for _ in tree.joins),
        freshness,
        seed,
        step_s=family.step_s,
    )


def feasible_seeds(
    family: Family, shape: str, freshness: float, mu_share: float, *, are_feasible: bool = True
) -> Iterator[int]:
    """The seeds whose plans can be kept fresh with a share of saturation, by the model; or the others. In order."""
    for seed in count():
        problem = drawn_setting(family, shape, seed, freshness).problem()
        if allocate(problem.with_mu(mu_share * problem.saturation.spent)).is_feasible is are_feasible:
            yield seed


class Arrivals:
    """A setting's tuples as events, step by step."""

    def __init__(self, setting: Setting, seconds: float) -> None:
        self.setting = setting
        self.plan = setting.plan()
        chance = np.random.default_rng(setting.seed)
        self.steps: list[list[Event]] = []
        step_s = setting.step_s
        for number in range(round(seconds / step_s)):
            keys = _keys(setting, number * step_s)
            events: list[Event] = []
            for side, name in enumerate(NAMES):
                batch = _batch(chance, setting.rates[side], keys, number, step_s)
                packer = Packer(self.plan, self.plan.catalog.get(StreamId(name)), 1)
                order = pa.array(np.full(batch.num_rows, (number + 1) << ORDER_SHIFT))
                packed = packer.pack(batch.append_column(ORDER, order), round(number * step_s * 1e6))
                events += [one.event(self.plan) for one in packed if one.kind in EVENTS]
            self.steps.append([*events, StreamsEnded()])


def _keys(setting: Setting, at_s: float) -> tuple[int, int, int]:
    """How many values x, y and z have: the reverse of their joins' selectivities."""
    selectivities = setting.selectivities
    for since_s, others in setting.changes:
        selectivities = others if at_s >= since_s else selectivities
    first, second, root = (max(1, round(1 / one)) for one in selectivities)
    return (first, second, root) if setting.shape == "linear" else (first, root, second)


def _batch(
    chance: np.random.Generator, rate: float, keys: tuple[int, int, int], number: int, step_s: float
) -> pa.RecordBatch:
    rows = max(1, int(chance.poisson(rate * step_s)))
    times = np.sort(chance.integers(0, round(step_s * 1e6), rows)) + round(number * step_s * 1e6)
    columns = {name: pa.array(chance.integers(0, most, rows)) for name, most in zip("xyz", keys, strict=True)}
    columns["ts"] = pa.array(times, pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


# --- runs


@dataclass(slots=True)
class LimitedRun:
    """What came of a run after its start: results, stale ones among them, seconds on the clock and of the streams;
    and by step, results and the time spent."""

    results: int = 0
    stale: int = 0
    spent_s: float = 0.0
    seconds: float = 0.0
    probes: float = 0.0
    freshness_share: float = 0.0
    infeasible_steps: int = 0
    allocations: int = 0
    allocation_s: float = 0.0
    moments: list[tuple[float, int]] = field(default_factory=list)

    @property
    def is_feasible(self) -> bool:
        """Whether states could be kept fresh for most of the time."""
        return self.infeasible_steps <= 0.1 * len(self.moments)

    @property
    def results_per_s(self) -> float:
        return self.results / self.seconds if self.seconds else 0.0


class _Runner:
    """A shard under a setting's tree."""

    def __init__(self, arrivals: Arrivals, is_enforced: bool) -> None:
        setting, (group,) = arrivals.setting, arrivals.plan.groups
        self.arrivals = arrivals
        self.signature = group.signature
        self.tree = setting.tree
        rows = {state: setting.sizes[state] for state in self.tree.susceptible}
        options = TreeOptions(self.tree, is_enforced=is_enforced, state_rows=rows)
        self.shard = Shard(arrivals.plan, ShardOptions(trees={group.signature: options}))

    def step(self, number: int, allowed: Sequence[float] | None) -> tuple[int, int, list[HalfTally]]:
        events = list(self.arrivals.steps[number])
        if allowed is not None:
            events.append(ProbesAllowed(self.signature, tuple(allowed)))
        found = 0
        for effect in self.shard.step(events, None, Pace(clock=clock_s)):
            if isinstance(effect, EmitCount | EmitRows):
                found += sum(count for _, count in effect.arrived)
        (operator,) = self.shard.trees().values()
        return found, operator.stale_results, [operator.tallies[half] for half in self.tree.half_ways]


@dataclass(frozen=True, slots=True)
class Saturation:
    """What everything takes and gives: probes (those that count), seconds on the clock and results for a second of the
    streams, and the problem."""

    probes_per_s: float
    spent_per_s: float
    results_per_s: float
    problem: AllocationProblem


def saturate(arrivals: Arrivals, warm_s: float) -> Saturation:
    """Every probe is made; measured after ``warm_s``."""
    runner, sums = _Runner(arrivals, is_enforced=False), _Sums(arrivals.setting)
    results, first = 0, round(warm_s / arrivals.setting.step_s)
    for number in range(len(arrivals.steps)):
        found, _, tallies = runner.step(number, None)
        if number >= first:
            results += found
            sums.add(tallies, fading=1.0)
    seconds = (len(arrivals.steps) - first) * arrivals.setting.step_s
    costs = arrivals.setting.costs()
    probes = sum(half.probed * cost for half, cost in zip(sums.halves, costs, strict=True))
    spent_s = sum(half.spent_s for half in sums.halves)
    return Saturation(probes / seconds, spent_s / seconds, results / seconds, sums.problem(1.0, None))


class _Sums:
    """What half-way joins did lately."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.halves = [HalfTally() for _ in setting.tree.half_ways]
        self.steps = 0.0

    def add(self, tallies: Sequence[HalfTally], fading: float = FADING) -> None:
        self.steps = fading * self.steps + 1
        for half, new in zip(self.halves, tallies, strict=True):
            half.offered = fading * half.offered + new.offered  # type: ignore[assignment]
            half.probed = fading * half.probed + new.probed  # type: ignore[assignment]
            half.found = fading * half.found + new.found  # type: ignore[assignment]
            half.spent_s = fading * half.spent_s + new.spent_s

    def problem(self, mu: float, before: AllocationProblem | None) -> AllocationProblem:
        """In probes; of half-way joins that made few, what was known of them before."""
        setting, tree = self.setting, self.setting.tree
        rates = [self.halves[_first(tree, side)].offered / self.steps / setting.step_s for side in tree.sides]
        probes = []
        for number, half in enumerate(self.halves):
            known = before.probes[number] if before is not None else ProbeFacts(0.0)
            told = half.probed >= 30
            productivity = half.found / half.probed if told else known.productivity
            probes.append(ProbeFacts(productivity, setting.costs()[number]))
        loads = [StreamLoad(rate, setting.fresh_rows(side) / max(rate, 1e-9)) for side, rate in enumerate(rates)]
        held = tuple(float(setting.sizes[state]) for state in tree.states)
        return AllocationProblem(tree, mu, tuple(loads), tuple(probes), held, Retention.COUNT)


Allot: TypeAlias = Callable[[AllocationProblem], Allocation]


def allotted(problem: AllocationProblem, allocator: str | Allot) -> Allocation:
    """By an allocator's name, or as a function does it."""
    return allocate(problem, allocator) if isinstance(allocator, str) else allocator(problem)


def jda_m_as_printed(problem: AllocationProblem) -> Allocation:
    """Section 3 to the letter: an equal part of mu for each join, "all" of it for its half-way join with more results a
    probe (definition 2), and nothing for the other, also where the one cannot use it all. (The engine's ``jda_m`` gives
    it the rest.)"""
    part = problem.mu / len(problem.tree.joins)
    made: dict[Sides, float] = {}
    allowed = [0.0] * len(problem.probes)
    for join in problem.tree.joins:
        numbers = [problem.number_of[half] for half in join.halves]
        best = max(numbers, key=lambda number: problem.probes[number].productivity)
        half, facts = problem.tree.half_ways[best], problem.probes[best]
        coming = problem.loads[half.own[0]].rate if len(half.own) == 1 else made[half.own]
        allowed[best] = min(coming, part / facts.cost)
        made[half.result] = allowed[best] * facts.productivity
    return Allocation("jda_m as printed", problem, tuple(allowed))


def _first(tree: JoinTree, side: int) -> int:
    return tree.half_ways.index(tree.path(side)[0])


def run_limited(
    arrivals: Arrivals,
    saturation: Saturation,
    allocator: str | Allot,
    mu_share: float,
    warm_s: float,
    *,
    is_enforced: bool = False,
    threshold: float = 0.2,
) -> LimitedRun:
    """An allocator, by its name or as a function, with a share of the probes that everything takes; results count after
    ``warm_s``, half of which states are filled in. Rates and productivities are measured step by step, and probes
    allocated anew where they move by more than ``threshold``."""
    gc.collect()
    runner, sums = _Runner(arrivals, is_enforced), _Sums(arrivals.setting)
    mu, step_s = mu_share * saturation.probes_per_s, arrivals.setting.step_s
    loads = zip(saturation.problem.loads, arrivals.setting.tree.sides, strict=True)
    fresh = [replace(load, freshness_s=arrivals.setting.fresh_rows(side) / load.rate) for load, side in loads]
    problem = replace(saturation.problem, mu=mu, loads=tuple(fresh))
    allocation, run = allotted(problem, allocator), LimitedRun()
    fill, first = round(warm_s / step_s / 2), round(warm_s / step_s)
    for number in range(len(arrivals.steps)):
        allowed = None if number < fill else [one * step_s for one in allocation.allowances]
        found, stale, tallies = runner.step(number, allowed)
        sums.add(tallies)
        if number < fill:
            continue
        problem = sums.problem(mu, allocation.problem)
        if reason_to_reallocate(allocation.problem, problem, NAMES, threshold) is not None:
            began_s = time.perf_counter()
            allocation = allotted(problem, allocator)
            run.allocations, run.allocation_s = run.allocations + 1, run.allocation_s + time.perf_counter() - began_s
        if number >= first:
            _count(run, found, stale, tallies, step_s)
            run.moments.append((number * step_s, found))
            run.freshness_share += allocation.freshness_share
            run.infeasible_steps += not allocation.is_feasible
    run.freshness_share /= max(len(run.moments), 1)
    return run


def _count(run: LimitedRun, found: int, stale: int, tallies: Sequence[HalfTally], step_s: float) -> None:
    run.results += found
    run.stale += stale
    run.seconds += step_s
    run.spent_s += sum(one.spent_s for one in tallies)
    run.probes += sum(one.probed for one in tallies)
