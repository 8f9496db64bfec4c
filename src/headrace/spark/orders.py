"""What all tasks of a micro-batch must know alike: its plan, the probes it may spend, what its operators are like.

The driver decides them at the end of a micro-batch, for the next one, before the one is committed; tasks look them up
by the micro-batch's number. So they agree without talking to each other, and a micro-batch that is run again after a
crash does the same again.

    CHECKPOINT/orders/<batch>.probes     the budget of that micro-batch
    CHECKPOINT/orders/<batch>.work       the plan from that micro-batch on
    CHECKPOINT/orders/<batch>.facts      what operators are like, as measured before that micro-batch
    CHECKPOINT/orders/<batch>.ordering   how results are kept in order from that micro-batch on, and who is idle
    CHECKPOINT/orders/<batch>.allowed    the probes that trees may make from that micro-batch on
    CHECKPOINT/orders/<batch>.sources    how far each source had come before that micro-batch

Cost: a task lists a directory of a few small files; a plan is unpickled once by each Python worker.
"""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from functools import lru_cache
from pathlib import Path

from pyspark import TaskContext

from headrace.engine.events import OrderingChosen
from headrace.engine.progressing import KnownSources
from headrace.engine.shard import ShardOptions
from headrace.model import StreamId
from headrace.plan.capacities import OperatorFacts
from headrace.plan.hypercube import Grid
from headrace.plan.opgraph import OperatorName
from headrace.plan.sharing import SharedPlan
from headrace.spark.tree_told import Allowed

_LASTING = ("work", "facts", "ordering", "allowed", "sources")
"""Orders that hold until there are others."""


@dataclass(frozen=True, slots=True)
class Work:
    """A plan, all that decides what a micro-batch does with it, and where its queries' rows go as far as a task must
    know. ``staged``: queries whose rows are written by the shard's task; ``called``: those whose rows go to a callback;
    ``probes``: the budget of a micro-batch for which there is no other (None: no budget)."""

    plan: SharedPlan
    staged: frozenset[str]
    called: frozenset[str]
    shard: ShardOptions = field(default_factory=ShardOptions)
    probes: int | None = None
    backlog_limit: int | None = None
    grids: Mapping[str, Grid] = field(default_factory=dict)
    """By group, which cells a multi-way join's tuples go to."""


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders of one checkpoint."""

    directory: str

    def give_probes(self, batch: int, probes: int) -> None:
        self._write(f"{batch:012d}.probes", str(probes).encode())

    def give_work(self, batch: int, work: Work) -> None:
        """The plan from this micro-batch on."""
        self._write(f"{batch:012d}.work", pickle.dumps(work))

    def give_facts(self, batch: int, facts: Mapping[OperatorName, OperatorFacts]) -> None:
        """What operators are taken to be like from this micro-batch on."""
        told = {name: astuple(one) for name, one in facts.items()}
        self._write(f"{batch:012d}.facts", json.dumps(told).encode())

    def give_ordering(self, batch: int, chosen: OrderingChosen) -> None:
        """How results are kept in order from this micro-batch on."""
        told = {"filter_order": sorted(chosen.filter_order), "idle": sorted(chosen.idle, key=str)}
        self._write(f"{batch:012d}.ordering", json.dumps(told).encode())

    def ordering(self, batch: int) -> OrderingChosen:
        """How a micro-batch keeps results in order; where nothing was told, tuples wait."""
        given = self._newest("ordering", batch)
        told = {"filter_order": [], "idle": []} if given is None else json.loads(given.read_bytes())
        idle = frozenset((StreamId(stream), source) for stream, source in told["idle"])
        return OrderingChosen(frozenset(told["filter_order"]), idle)

    def give_allowed(self, batch: int, allowed: Allowed) -> None:
        """What trees may probe from this micro-batch on."""
        self._write(f"{batch:012d}.allowed", json.dumps(allowed.to_json()).encode())

    def allowed(self, batch: int) -> Allowed:
        given = self._newest("allowed", batch)
        return Allowed() if given is None else Allowed.from_json(json.loads(given.read_bytes()))

    def give_sources(self, batch: int, known: Mapping[StreamId, KnownSources]) -> None:
        """How far sources had come before this micro-batch."""
        told = {stream: astuple(one) for stream, one in known.items()}
        self._write(f"{batch:012d}.sources", json.dumps(told).encode())

    def sources(self, batch: int) -> dict[StreamId, KnownSources]:
        """How far sources had come before a micro-batch, or one before it: they only go on."""
        given = self._newest("sources", batch)
        told = {} if given is None else json.loads(given.read_bytes())
        return {StreamId(stream): KnownSources(*some) for stream, some in told.items()}

    def _write(self, name: str, content: bytes) -> None:
        Path(self.directory).mkdir(parents=True, exist_ok=True)
        aside = Path(self.directory) / f".{uuid.uuid4().hex}"
        aside.write_bytes(content)
        aside.rename(Path(self.directory) / name)

    def forget_before(self, batch: int) -> None:
        """Removes what no micro-batch from this one on will look up."""
        probes = [path for number, path in self._numbered("probes") if number < batch]
        lasting = [sorted(path for number, path in self._numbered(kind) if number <= batch) for kind in _LASTING]
        for path in [*probes, *(path for paths in lasting for path in paths[:-1])]:
            path.unlink(missing_ok=True)

    def probes(self, batch: int) -> int | None:
        with suppress(FileNotFoundError):
            return int((Path(self.directory) / f"{batch:012d}.probes").read_text())
        return None

    def work(self, batch: int, first: bytes) -> Work:
        """The plan of a micro-batch; ``first``, pickled, where there are no orders."""
        given = self._newest("work", batch)
        return _unpickled(first if given is None else given.read_bytes())

    def facts(self, batch: int) -> dict[OperatorName, OperatorFacts]:
        """What was known of the operators before a micro-batch; of those that had not run, nothing."""
        given = self._newest("facts", batch)
        told = {} if given is None else json.loads(given.read_bytes())
        return {OperatorName(name): OperatorFacts(*numbers) for name, numbers in told.items()}

    def _newest(self, kind: str, batch: int) -> Path | None:
        return max((path for number, path in self._numbered(kind) if number <= batch), default=None)

    def _numbered(self, kind: str) -> Iterator[tuple[int, Path]]:
        for path in Path(self.directory).glob(f"*.{kind}"):
            if not path.name.startswith("."):
                yield int(path.stem), path


@lru_cache(maxsize=4)
def _unpickled(content: bytes) -> Work:
    work = pickle.loads(content)
    assert isinstance(work, Work)
    return work


def batch_number() -> int:
    """The micro-batch that this task is of; 0 outside Spark."""
    context = TaskContext.get()
    number = context.getLocalProperty("streaming.sql.batchId") if context else None
    return int(number) if number is not None else 0
