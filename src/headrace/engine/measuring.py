"""What operators are like, measured while they run: reports of work done become :class:`OperatorFacts`.

Owns :class:`OperatorMeter`: sums of what was reported, in which older reports count less (half as much after
``half_life_s``). Facts are quotients of sums, so meters of several shards are put together by adding. Time is an input.
In JSON a meter is a list of numbers; it goes into a shard's manifest. Cost: a few operations a report.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from typing import Any

from headrace.engine.events import Effect, EmitCount, EmitPanes, EmitRows
from headrace.plan.capacities import OperatorFacts
from headrace.plan.opgraph import OperatorName

HALF_LIFE_S = 60.0
TELLING_BYTES = 65_536
"""A queue that holds less tells nothing of its tuples' size."""
BELIEVED = 0.1
"""Of how much less tuples weigh now than they did, what is believed at once."""
LEAST_SERVICE_S = 1e-10
"""A tuple takes some time, however little a clock shows."""


@dataclass(frozen=True, slots=True)
class WorkReport:
    """What an operator did at one time: tuples and bytes in and out (of bytes, in the queues of all that read it), and
    the time it took. ``heard``: what heartbeats told of the tuples in, where that is how they are weighed;
    ``copies_out``: what all queues got; ``offered``: what its own queue got of ``offered_of`` tuples that went into the
    operator before it. Zero where nothing is told."""

    tuples_in: float = 0.0
    tuples_out: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    spent_s: float = 0.0
    heard: float = 0.0
    copies_out: float = 0.0
    offered: float = 0.0
    offered_of: float = 0.0


_SUMMED = tuple(one.name for one in fields(WorkReport))
"""What meters add up."""


def watched(
    effects: Iterator[Effect], now_s: Callable[[], float], told: Callable[[WorkReport], None]
) -> Iterator[Effect]:
    """The effects, and at the end a report of the rows and bytes given with them and of how long it took to make them;
    not of what was done with them."""
    rows = size_bytes = 0
    spent_s, began_s = 0.0, now_s()
    for effect in effects:
        spent_s += now_s() - began_s
        if isinstance(effect, EmitRows | EmitPanes):
            rows, size_bytes = rows + effect.batch.num_rows, size_bytes + effect.batch.nbytes
        elif isinstance(effect, EmitCount):
            rows += effect.rows
        yield effect
        began_s = now_s()
    told(WorkReport(0, rows, 0, size_bytes, spent_s + now_s() - began_s))


@dataclass(slots=True)
class OperatorMeter:
    """What one operator did, lately."""

    tuples_in: float = 0.0
    tuples_out: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    spent_s: float = 0.0
    at_s: float | None = None
    heard: float = 0.0
    copies_out: float = 0.0
    offered: float = 0.0
    offered_of: float = 0.0

    def add(self, report: WorkReport, at_s: float, half_life_s: float = HALF_LIFE_S) -> None:
        self._fade(at_s, half_life_s)
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(report, name))

    def _fade(self, at_s: float, half_life_s: float) -> None:
        if self.at_s is not None and at_s > self.at_s:
            left = 0.5 ** ((at_s - self.at_s) / half_life_s)
            for name in _SUMMED:
                setattr(self, name, getattr(self, name) * left)
        self.at_s = at_s if self.at_s is None else max(at_s, self.at_s)

    def plus(self, other: OperatorMeter) -> OperatorMeter:
        """Both together, as of the later of the two."""
        times = [one.at_s for one in (self, other) if one.at_s is not None]
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMMED}
        return OperatorMeter(**sums, at_s=max(times, default=None))

    def report(self) -> WorkReport:
        """All of it as one report."""
        return WorkReport(*(getattr(self, name) for name in _SUMMED))

    def facts(self) -> OperatorFacts | None:
        """What the operator is like; None while it has done nothing. Of one that gave nothing yet, its output is taken
        to be as large as its input.

        >>> meter = OperatorMeter()
        >>> meter.add(WorkReport(100, 20, 6400, 640, 0.5), at_s=0)
        >>> meter.facts() == OperatorFacts(service_s=0.005, selectivity=0.2, input_bytes=64.0, output_bytes=32.0)
        True
        """
        if self.tuples_in <= 0:
            return None
        input_bytes, copies_out = self.bytes_in / self.tuples_in, self.copies_out or self.tuples_out
        return OperatorFacts(
            max(self.spent_s / self.tuples_in, LEAST_SERVICE_S),
            self.tuples_out / self.tuples_in,
            input_bytes,
            self.bytes_out / copies_out if copies_out > 0 else input_bytes,
            per_weight=self.tuples_in / self.heard if self.heard > 0 else 1.0,
            taken=self.offered / self.offered_of if self.offered_of > 0 else None,
            copies=copies_out / self.tuples_out if self.tuples_out > 0 else 1.0,
        )

    def to_json(self) -> list[float | None]:
        return list(astuple(self))

    @staticmethod
    def from_json(told: Sequence[Any]) -> OperatorMeter:
        return OperatorMeter(*told)


@dataclass(slots=True)
class WaitingSizes:
    """What a tuple weighs while it waits, by operator, where enough of them did to tell: tuples of a burst find more
    than usual, and what is stored has more to it than what is passed on. A smaller size is believed slowly, and one
    whose queue is empty is remembered: the next burst is like the last one."""

    by_name: dict[OperatorName, float] = field(default_factory=dict)
    telling_bytes: int = TELLING_BYTES

    def take(self, tuples: Mapping[OperatorName, float], size_bytes: Mapping[OperatorName, float]) -> None:
        """What waits at the end of a micro-batch.

        >>> known, join = WaitingSizes(), OperatorName("join")
        >>> known.take({join: 2_000.0}, {join: 150_000.0})
        >>> known.take({join: 2_000.0}, {join: 140_000.0})
        >>> known.take({join: 10.0}, {join: 100.0})
        >>> known.by_name[join]
        74.5
        """
        for name, waiting in tuples.items():
            held_bytes = size_bytes.get(name, 0)
            if held_bytes >= self.telling_bytes and waiting > 0:
                now = held_bytes / waiting
                before = self.by_name.get(name, now)
                self.by_name[name] = max(now, before + BELIEVED * (now - before))

    def keep_only(self, names: Iterable[OperatorName]) -> None:
        kept = set(names)
        self.by_name = {name: one for name, one in self.by_name.items() if name in kept}

    def in_facts(self, facts: Mapping[OperatorName, OperatorFacts]) -> dict[OperatorName, OperatorFacts]:
        """The facts, where a tuple weighs more while it waits with that.

        >>> slow = {OperatorName("join"): OperatorFacts(1.0, 0.5, 60.0, 80.0)}
        >>> WaitingSizes({OperatorName("join"): 75.0}).in_facts(slow)[OperatorName("join")].input_bytes
        75.0
        """
        return {
            name: replace(one, input_bytes=max(one.input_bytes, self.by_name.get(name, 0.0)))
            for name, one in facts.items()
        }


@dataclass(slots=True)
class QueueSizes:
    """What all that waits weighs: the tuples, and the results that joins hold for larger windows."""

    waiting: WaitingSizes = field(default_factory=WaitingSizes)
    held: WaitingSizes = field(default_factory=lambda: WaitingSizes(telling_bytes=0))

    def take(
        self,
        tuples: Mapping[OperatorName, float],
        queues: Mapping[OperatorName, float],
        held: Iterable[Mapping[OperatorName, Sequence[float]]],
    ) -> None:
        """What waits at the end of a micro-batch, in all shards: tuples; bytes, with those that are held; and each
        shard's probes that found what is held, with its bytes.

        >>> sizes, join = QueueSizes(), OperatorName("join")
        >>> sizes.take({join: 1_000.0}, {join: 90_000.0}, [{join: (100, 5_000)}, {join: (100, 15_000)}])
        >>> sizes.waiting.by_name[join], sizes.held.by_name[join]
        (70.0, 100.0)
        """
        probes, held_bytes = defaultdict[OperatorName, float](float), defaultdict[OperatorName, float](float)
        for name, (mine, mine_bytes) in (pair for one in held for pair in one.items()):
            probes[name] += mine
            held_bytes[name] += mine_bytes
        self.waiting.take(tuples, {name: size - held_bytes.get(name, 0.0) for name, size in queues.items()})
        self.held.take(probes, held_bytes)

    def keep_only(self, names: Iterable[OperatorName]) -> None:
        kept = set(names)
        self.waiting.keep_only(kept)
        self.held.keep_only(kept)

    def in_facts(self, facts: Mapping[OperatorName, OperatorFacts]) -> dict[OperatorName, OperatorFacts]:
        found = self.waiting.in_facts(facts)
        return {
            name: replace(one, held_bytes=self.held.by_name.get(name, one.held_bytes)) for name, one in found.items()
        }


@dataclass(slots=True)
class Meters:
    """The meters of all operators, by name."""

    by_name: dict[OperatorName, OperatorMeter] = field(default_factory=dict)
    half_life_s: float = HALF_LIFE_S

    def report(self, name: OperatorName, report: WorkReport, at_s: float) -> None:
        self.by_name.setdefault(name, OperatorMeter()).add(report, at_s, self.half_life_s)

    def take(self, others: Meters) -> None:
        """Adds what others have measured."""
        for name, meter in others.by_name.items():
            self.by_name[name] = self.by_name.get(name, OperatorMeter()).plus(meter)

    def facts(self) -> dict[OperatorName, OperatorFacts]:
        """Of the operators that have done something."""
        found = {name: meter.facts() for name, meter in self.by_name.items()}
        return {name: facts for name, facts in found.items() if facts is not None}

    def keep_only(self, names: Iterable[OperatorName]) -> None:
        """Forgets operators that are gone."""
        kept = set(names)
        self.by_name = {name: meter for name, meter in self.by_name.items() if name in kept}

    def to_json(self) -> dict[str, list[float | None]]:
        return {name: meter.to_json() for name, meter in self.by_name.items()}

    @staticmethod
    def from_json(told: Mapping[str, Sequence[float | None]], half_life_s: float = HALF_LIFE_S) -> Meters:
        return Meters({OperatorName(name): OperatorMeter.from_json(one) for name, one in told.items()}, half_life_s)
