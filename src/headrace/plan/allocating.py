"""Probe allowances for the half-way joins of a tree: the problem, its paths, and what an allocation is worth (paper
001).

    rate 500   a  --probe S(b)-->  a b  --probe S(c)-->  results      one tuple of a:  1 probe, then 2.5 probes,
                 productivity 2.5        productivity 4               10 results for 3.5 probes: path productivity 2.86

The CPU makes at most ``mu`` units of cost a second (*service rate*); a probe costs a unit, or what was measured for it.
Every tuple is kept and let go always; only probes are allowed or left out. Within a path each half-way join is allowed
what the one before it makes (equation 6): a path is given tuples of its stream, and the rest follows.

Owns: :class:`AllocationProblem` with its paths, :class:`Allocation` with what it makes and misses, and ``flows_of``,
the one place where allowances are turned into results. Who chooses allowances is in ``allocators``.
Invariants: rates, sizes and productivities are finite and not negative, costs positive. Results grow with ``mu``.
Cost: a problem's paths are quadratic in the sides, flows linear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from math import floor, inf, isfinite

from headrace.errors import PlanError
from headrace.plan.trees import HalfWayJoin, JoinTree, Sides

NEARLY = 1e-9
"""The share by which sums of rates may miss, because they are rounded."""
LEAST_FILL = 0.05
"""Of a state that says something about a full one."""


class Retention(Enum):
    """When a tuple of a state in between is let go."""

    WINDOW = "window"
    """With the first of its parts that leaves its window: what is kept is always as fresh as the windows are."""
    COUNT = "count"
    """When as many newer ones came as the state keeps (the paper's): starved states become stale."""


@dataclass(frozen=True, slots=True)
class StreamLoad:
    """A side's new tuples a second, and how old its tuples may be in a result (infinite: as old as they get)."""

    rate: float
    freshness_s: float = inf

    def __post_init__(self) -> None:
        if not _sensible(self.rate):
            raise PlanError(f"a rate is a finite number that is not negative: {self.rate}")
        if not self.freshness_s >= 0:
            raise PlanError(f"a freshness is not negative: {self.freshness_s}")


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    """Of a half-way join: results of one probe (definition 2: selectivity x size of the state), and what it costs."""

    productivity: float
    cost: float = 1.0

    def __post_init__(self) -> None:
        if not _sensible(self.productivity):
            raise PlanError(f"a productivity is a finite number that is not negative: {self.productivity}")
        if not (isfinite(self.cost) and self.cost > 0):
            raise PlanError(f"a probe's cost is positive: {self.cost}")


@dataclass(frozen=True, slots=True)
class InputPath:
    """The half-way joins of a side's tuples, by their numbers in the tree, and what one tuple causes at each.

    ``arriving[j]``: tuples that reach half-way join j (phi of equation 5, 1 for the first); ``made``: results."""

    side: int
    halves: tuple[int, ...]
    arriving: tuple[float, ...]
    made: float
    cost: float

    @property
    def productivity(self) -> float:
        """Definition 4: results for a unit of cost spent anywhere on the path."""
        return self.made / self.cost

    def divided(self, resources: float) -> tuple[float, ...]:
        """Equation 6: probe allowances along the path, such that each consumer probes all that its producer makes.

        >>> path = InputPath(0, (0, 2), (1.0, 5.0), 5.0, 6.0)
        >>> path.divided(600)
        (100.0, 500.0)
        """
        return tuple(resources / self.cost * each for each in self.arriving)


@dataclass(frozen=True)
class AllocationProblem:
    """All that an allocator knows. ``probes`` is by half-way join and ``held`` by state, in the tree's order; sizes of
    states are in tuples. Productivities and sizes are those of full states: with unlimited CPU, where they are by
    window (``unlimited_productivity`` corrects what is measured)."""

    tree: JoinTree
    mu: float
    loads: tuple[StreamLoad, ...]
    probes: tuple[ProbeFacts, ...]
    held: tuple[float, ...]
    retention: Retention = Retention.COUNT

    def __post_init__(self) -> None:
        sizes = (len(self.loads), len(self.probes), len(self.held))
        wanted = (len(self.tree.sides), len(self.tree.half_ways), len(self.tree.states))
        if sizes != wanted:
            raise PlanError(f"{sizes} loads, half-way joins and states, for a tree that has {wanted}")
        if not all(map(_sensible, self.held)) or not self.mu >= 0:
            raise PlanError("sizes of states and the service rate are not negative")

    def with_mu(self, mu: float) -> AllocationProblem:
        return replace(self, mu=mu)

    @cached_property
    def number_of(self) -> Mapping[HalfWayJoin, int]:
        return {half: number for number, half in enumerate(self.tree.half_ways)}

    @cached_property
    def held_of(self) -> Mapping[Sides, float]:
        return dict(zip(self.tree.states, self.held, strict=True))

    @cached_property
    def paths(self) -> tuple[InputPath, ...]:
        return tuple(map(self._path, self.tree.sides))

    def _path(self, side: int) -> InputPath:
        halves = tuple(self.number_of[half] for half in self.tree.path(side))
        arriving = [1.0]
        for number in halves:
            arriving.append(arriving[-1] * self.probes[number].productivity)
        cost = sum(self.probes[number].cost * each for number, each in zip(halves, arriving, strict=False))
        return InputPath(side, halves, tuple(arriving[:-1]), arriving[-1], cost)

    @cached_property
    def saturation(self) -> Flows:
        """What comes of probing everything: the paper's saturation throughput, and the resources it takes."""
        return _flows(self, lambda _, coming: coming, is_filled=True)

    @cached_property
    def full_of(self) -> Mapping[Sides, float]:
        """Tuples a second that come to each state if everything is probed."""
        return {half.own: coming for half, coming in zip(self.tree.half_ways, self.saturation.offered, strict=True)}

    def reaching(self, path: InputPath, state: Sides) -> float:
        """Tuples that one tuple of a path leads to in a state: 0 where the path does not pass it."""
        for number, each in zip(path.halves, path.arriving, strict=True):
            if self.tree.half_ways[number].own == state:
                return each
        return 0.0


def problem_of(
    tree: JoinTree,
    mu: float,
    rates: Sequence[float],
    held: Mapping[Sides, float],
    selectivity: Callable[[HalfWayJoin], float],
    freshness_s: Sequence[float] | None = None,
    cost: Callable[[HalfWayJoin], float] = lambda _: 1.0,
    retention: Retention = Retention.COUNT,
) -> AllocationProblem:
    """The problem with productivities by equation 4: a half-way join's selectivity x the size of the state it
    probes."""
    fresh = [inf] * len(rates) if freshness_s is None else freshness_s
    return AllocationProblem(
        tree,
        mu,
        tuple(StreamLoad(rate, one) for rate, one in zip(rates, fresh, strict=True)),
        tuple(ProbeFacts(selectivity(half) * held[half.partner], cost(half)) for half in tree.half_ways),
        tuple(held[state] for state in tree.states),
        retention,
    )


@dataclass(frozen=True, slots=True)
class Flows:
    """Tuples a second by half-way join: how many come, how many of those probe, and how full the state is that they
    probe (1: as with unlimited CPU); the results of the root; and what all probes cost a second."""

    offered: tuple[float, ...]
    probing: tuple[float, ...]
    fills: tuple[float, ...]
    throughput: float
    spent: float


def flows_of(problem: AllocationProblem, allowances: Sequence[float]) -> Flows:
    """What comes of allowances: no half-way join probes more than it is offered."""
    return _flows(problem, lambda number, coming: min(coming, allowances[number]))


def allowed_shares(problem: AllocationProblem, shares: Sequence[float]) -> Flows:
    """What comes of allowing each half-way join a share of what it is offered."""
    return _flows(problem, lambda number, coming: coming * shares[number])


def _flows(problem: AllocationProblem, probed_of: Callable[[int, float], float], is_filled: bool = False) -> Flows:
    """From the leaves up. States of a number of tuples are always full; by window those in between have the share of
    their tuples that comes to them."""
    made: dict[Sides, float] = {(side,): load.rate for side, load in enumerate(problem.loads)}
    offered, probing, fills = [], [], []
    is_filled = is_filled or problem.retention is Retention.COUNT
    for number, half in enumerate(problem.tree.half_ways):
        probed = probed_of(number, made[half.own])
        fill = 1.0 if is_filled else _fill(made[half.partner], problem.full_of[half.partner])
        found = probed * problem.probes[number].productivity * fill
        offered.append(made[half.own])
        probing.append(probed)
        fills.append(fill)
        made[half.result] = made.get(half.result, 0.0) + found
    spent = sum(probed * one.cost for probed, one in zip(probing, problem.probes, strict=True))
    return Flows(tuple(offered), tuple(probing), tuple(fills), made[tuple(problem.tree.sides)], spent)


def _fill(comes: float, full: float) -> float:
    return comes / full if full else 1.0


class Shortage(Enum):
    """Why a state cannot be kept fresh."""

    CPU = "the CPU"
    """There are tuples enough, but not the probes."""
    TUPLES = "the streams"
    """All probes together do not make as many tuples as it needs."""


@dataclass(frozen=True, slots=True)
class Unfresh:
    """A state that cannot be kept fresh, the side whose predicate asks for it, and the tuples a second it needs
    (infinite where the predicate cannot be kept at all) and gets."""

    state: Sides
    side: int
    needed: float
    reached: float
    lacks: Shortage


@dataclass(frozen=True)
class Allocation:
    """Probes a second by half-way join, as an allocator chose them. ``freshness_mu``: units of cost a second that are
    spent for refresh rates; ``unfresh``: what makes the plan infeasible."""

    allocator: str
    problem: AllocationProblem
    allowances: tuple[float, ...]
    freshness_mu: float = 0.0
    unfresh: tuple[Unfresh, ...] = ()

    def __post_init__(self) -> None:
        if len(self.allowances) != len(self.problem.probes) or not all(one >= 0 for one in self.allowances):
            raise PlanError(f"an allowance for each half-way join, not negative: {self.allowances}")

    @property
    def is_feasible(self) -> bool:
        return not self.unfresh

    @property
    def is_unlimited(self) -> bool:
        """Whether everything that comes may be probed: then nothing is left out if a little more comes."""
        offered = zip(self.allowances, self.problem.saturation.offered, strict=True)
        return all(allowed >= coming * (1 - NEARLY) for allowed, coming in offered)

    @cached_property
    def flows(self) -> Flows:
        return flows_of(self.problem, self.allowances)

    @property
    def throughput(self) -> float:
        """Expected results a second."""
        return self.flows.throughput

    @property
    def of_saturation(self) -> float:
        """The share of the results that unlimited CPU would make; 1 where it would make none."""
        most = self.problem.saturation.throughput
        return self.throughput / most if most else 1.0

    @property
    def freshness_share(self) -> float:
        """The share of the service rate that is spent for refresh rates."""
        return self.freshness_mu / self.problem.mu if self.freshness_mu else 0.0


def allowances_of(problem: AllocationProblem, given: Sequence[float]) -> tuple[float, ...]:
    """Probe allowances where so many tuples a second of each side may go up their paths."""
    allowed = [0.0] * len(problem.probes)
    for path, first in zip(problem.paths, given, strict=True):
        for number, each in zip(path.halves, path.arriving, strict=True):
            allowed[number] += first * each
    return tuple(allowed)


def unlimited_productivity(measured: float, fill: float, otherwise: float) -> float:
    """What a probe would find in a full state, by what it found in one that was filled to a share; a state that was
    next to empty tells nothing.

    >>> unlimited_productivity(1.5, 0.5, otherwise=4.0), unlimited_productivity(0.0, 0.0, otherwise=4.0)
    (3.0, 4.0)
    """
    return measured / fill if fill >= LEAST_FILL else otherwise


def whole_probes(allowance: float, since_s: float, until_s: float) -> int:
    """The whole probes that fall into a stretch of time: over many stretches none is lost and none is made twice,
    however small the allowance (the paper's mega cycle).

    >>> [whole_probes(2.5, second, second + 1) for second in range(4)]
    [2, 3, 2, 3]
    """
    return floor(allowance * until_s) - floor(allowance * since_s)


def _sensible(value: float) -> bool:
    return isfinite(value) and value >= 0
