"""What an experiment is: a table or figure of a paper, how it is measured here, what the paper says of it.

      measure(setup) -> numbers   runs something; JSON, stored as it is      numbers -> charts    drawn
                                                                            numbers -> claims    checked

Owns :class:`Experiment`, :class:`Claim` and the ways to state one, :class:`Setup`, and what a chart is. Charts and
claims are made of stored numbers alone: a report needs no run. By the model clock a setup gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Any, TypeAlias

Numbers: TypeAlias = dict[str, Any]
"""What was measured, as JSON has it."""


class Clock(Enum):
    """``MODEL``: probes and outputs cost what parameters say; ``WALL``: they take the time that they take."""

    MODEL = "model"
    WALL = "wall"


class Size(Enum):
    """``FULL`` has the paper's sizes; ``QUICK`` is over in minutes, all experiments together."""

    QUICK = "quick"
    FULL = "full"


class Ground(Enum):
    """Where an experiment's numbers come from."""

    FORMULAS = "the formulas"
    SIMULATED = "simulated operators under the engine's own schedulers"
    COUNTED = "the cost model; results counted by the shard that runs on Spark, in this process"
    ENGINE = "the shard that runs on Spark, in this process"
    SPARK = "streaming queries on Spark"


@dataclass(frozen=True, slots=True)
class Setup:
    """How an experiment is run this time."""

    clock: Clock = Clock.MODEL
    size: Size = Size.QUICK
    seed: int = 1

    @property
    def is_quick(self) -> bool:
        return self.size is Size.QUICK

    @property
    def is_model(self) -> bool:
        return self.clock is Clock.MODEL


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that a paper says, with what was found. Where it does not hold, ``why`` says what that comes from;
    ``is_known``: it is one of the ``departures`` that are known to be there."""

    says: str
    expected: str
    found: str
    holds: bool
    why: str = ""
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """Points of one algorithm; its name decides its colour. A point without a value is None."""

    name: str
    xs: Sequence[float | str]
    ys: Sequence[float | None]


class Kind(Enum):
    LINES = "lines"
    BARS = "bars"


@dataclass(frozen=True, slots=True)
class Chart:
    """A plot: what is on its axes, with units."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    kind: Kind = Kind.LINES
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table, as the paper has one."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


Picture: TypeAlias = Chart | Grid


def nothing_drawn(_: Setup) -> Sequence[int]:
    """The seeds of an experiment that has none."""
    return ()


def seed_itself(setup: Setup) -> Sequence[int]:
    return (setup.seed,)


def seed_a_stream(setup: Setup) -> Sequence[int]:
    """Of two streams."""
    return (setup.seed, setup.seed + 1)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or figure. ``papers``: its parameters there; those here are in the numbers, under ``ours``."""

    name: str
    title: str
    shows: str
    ground: Ground
    papers: Mapping[str, str]
    measure: Callable[[Setup], Numbers]
    pictures: Callable[[Numbers], Sequence[Picture]]
    claims: Callable[[Numbers], Sequence[Claim]]
    seeds: Callable[[Setup], Sequence[int]] = nothing_drawn
    """Of all that is drawn."""
    clocks: tuple[Clock, ...] = field(default=(Clock.MODEL, Clock.WALL))
    by_model: Ground | None = None
    """Where the numbers come from by the model clock, if that is another place."""
    by_wall: str = ""
    """Why claims may not hold by the wall clock that hold by the model's, where nothing is known of one by itself."""

    def ground_by(self, clock: Clock) -> Ground:
        return self.by_model if clock is Clock.MODEL and self.by_model is not None else self.ground

    @property
    def paper(self) -> str:
        return self.name.split("-", 1)[0]


PAPERS = {
    "000": "Hammad, Franklin, Aref, Elmagarmid: Scheduling for shared window joins over data streams",
    "001": "Mukherji, Rundensteiner, Ward: High freshness and optimal throughput in CPU-limited execution of multi-"
    "join continuous queries",
    "002": "Golab, Özsu: Processing sliding window multi-joins in continuous queries over data streams",
    "003": "Jiang, Chakravarthy: Scheduling strategies for processing continuous queries over streams",
    "004": "Hammad, Aref, Elmagarmid: Optimizing in-order execution of continuous queries over streamed sensor data",
}


# --- ways to state a claim. What was not found (None) makes it a claim that does not hold.


def less(says: str, one: float | None, other: float | None, times: float = 1.0) -> Claim:
    """One number is below so many times another."""
    limit = "" if times == 1.0 else f"{times:g} x "
    is_so = one is not None and other is not None and one < times * other
    return Claim(says, f"< {limit}{number(other)}", number(one), is_so)


def between(says: str, found: float | None, low: float, high: float) -> Claim:
    is_so = found is not None and low <= found <= high
    return Claim(says, f"{number(low)} to {number(high)}", number(found), is_so)


def near(says: str, found: float | None, value: float, within: float = 1 / 3) -> Claim:
    """The paper's number, and how far off it may be: a part of it."""
    is_so = found is not None and abs(found - value) <= within * abs(value)
    return Claim(says, f"{number(value)}, {within:.0%} off at most", number(found), is_so)


def equals(says: str, found: object, expected: object) -> Claim:
    return Claim(says, str(expected), str(found), found == expected)


def all_are(says: str, found: Sequence[object], expected: object) -> Claim:
    """Each of them is; where there are none, the claim does not hold."""
    told = ", ".join(map(str, found)) or "there are none"
    return Claim(says, f"all {expected}", told, bool(found) and all(one == expected for one in found))


def at_most(says: str, found: float | None, limit: float) -> Claim:
    return Claim(says, f"at most {number(limit)}", number(found), found is not None and found <= limit)


def at_least(says: str, found: float | None, limit: float) -> Claim:
    return Claim(says, f"at least {number(limit)}", number(found), found is not None and found >= limit)


def above(says: str, found: float | None, limit: float) -> Claim:
    return Claim(says, f"above {number(limit)}", number(found), found is not None and found > limit)


def rises(says: str, values: Sequence[float], *, down: bool = False) -> Claim:
    """Each number is above the one before; ``down``: below. A single one does neither."""
    steps = list(pairwise(values))
    is_so = bool(steps) and all(one > other if down else one < other for one, other in steps)
    return Claim(says, "falls" if down else "rises", ", ".join(map(number, values)), is_so)


def over(one: float | None, other: float | None) -> float | None:
    """One number over another, where both were found."""
    return None if one is None or not other else one / other


def number(value: float | None) -> str:
    """A number for people: three digits that count, all of a large one's.

    >>> number(0.012345), number(12345.6), number(1.5), number(None)
    ('0.0123', '12,346', '1.5', 'none')
    """
    if value is None:
        return "none"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def rounded(value: Any, digits: int = 6) -> Any:
    """Numbers as they are stored: so many digits that count."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {str(key): rounded(one, digits) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one, digits) for one in value]
    return value
