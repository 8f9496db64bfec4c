"""The second stage, on the driver: partial aggregates of groups that span shards meet here, once a micro-batch.

    CHECKPOINT/combined/<batch>.json         what the aggregates are after that micro-batch
    CHECKPOINT/combined/segments/<name>      their panes; written once, dropped when no state needs them

Shards reduce their results to panes before they send them, so what comes here follows the groups that changed, not the
results. The stage is there only when panes come, so that a query with aggregates can be added to any run. A
micro-batch that is run again after a crash begins from the state before it, and gives the same rows.

Owns :class:`CombineHost`. Invariant: a state is written before its micro-batch's rows are published, and the one before
it stays until the next is written.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.engine.combining import Combiner
from headrace.engine.events import DropSegment, EmitCount, EmitPanes, EmitRows, KeepSegment, Lack, Past, TimesReached
from headrace.engine.histories import Points
from headrace.engine.segments import pack_batch, unpack_batch
from headrace.plan.sharing import SharedPlan
from headrace.spark.envelopes import PANES, REACHED, Report

Sent = EmitPanes | TimesReached
_SEGMENTS = "segments"


def to_report(effect: Sent, shard: int) -> Report:
    """What a shard sends on, as a report."""
    if isinstance(effect, TimesReached):
        told = {"group": effect.group, "folding": effect.folding, "ended": effect.ended, "us": effect.complete_us}
        return Report(REACHED, shard, detail=json.dumps(told))
    told = {"group": effect.group, "folding": effect.folding, "number": effect.number, "arrived": effect.arrived_us}
    if effect.past is not None:
        told["past"] = [effect.past.known_us, effect.past.lack.value]
    return Report(PANES, shard, (), effect.batch.num_rows, json.dumps(told), pack_batch(effect.batch).to_pybytes())


def from_report(row: Any) -> Sent:
    """What a shard sent on."""
    told = json.loads(row.detail)
    if row.kind == REACHED:
        return TimesReached(told["group"], told["folding"], tuple(map(tuple, told["us"])), told["ended"])
    batch = unpack_batch(bytes(row.payload))
    past = Past(told["past"][0], Lack(told["past"][1])) if "past" in told else None
    return EmitPanes(told["group"], told["folding"], told["number"], batch, told["arrived"], past)


@dataclass(frozen=True, slots=True)
class _Files:
    """Segments as files; a state is restored from them."""

    directory: Path

    def keep(self, name: str, blob: pa.Buffer) -> None:
        _write(self.directory / name, blob)

    def stored(self, name: str) -> pa.Buffer:
        return pa.memory_map(str(self.directory / name)).read_buffer()

    def derived(self, name: str, rebuild: Callable[[], pa.Buffer]) -> pa.Buffer:  # noqa: ARG002 - nothing is cached
        return rebuild()

    def drop(self, names: Iterable[str]) -> None:
        for name in names:
            (self.directory / name).unlink(missing_ok=True)


def _write(path: Path, content: bytes | pa.Buffer) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{uuid.uuid4().hex}")
    aside.write_bytes(content)
    aside.rename(path)


class CombineHost:
    """The combiner of one run, and its state in the checkpoint."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = _Files(directory / _SEGMENTS)
        self._combiner: Combiner | None = None
        self._plan: SharedPlan | None = None
        self._points = Points()
        self._dropped: list[str] = []

    @property
    def size_bytes(self) -> int:
        return 0 if self._combiner is None else self._combiner.size_bytes

    def run(self, batch: int, plan: SharedPlan, points: Points, sent: list[Sent]) -> Iterator[EmitRows | EmitCount]:
        """One micro-batch: what the shards sent, to rows."""
        if not sent and self._combiner is None and not self._states():
            return
        combiner = self._ready(batch, plan, points)
        dropped: list[str] = []
        for effect in combiner.step(sent):
            if isinstance(effect, EmitRows | EmitCount):
                yield effect
            elif isinstance(effect, KeepSegment):
                self._files.keep(effect.name, effect.blob)
            elif isinstance(effect, DropSegment):
                dropped.append(effect.name)
        if sent or dropped:
            _write(self._directory / f"{batch:012d}.json", combiner.manifest())
            self._forget(dropped)

    def _ready(self, batch: int, plan: SharedPlan, points: Points) -> Combiner:
        """The combiner as it was before this micro-batch, under its plan."""
        manifest = None
        if self._combiner is None:
            before = max((path for path in self._states() if int(path.stem) < batch), default=None)
            manifest = None if before is None else before.read_bytes()
            if manifest is None:
                self._combiner = Combiner(plan, points)
        elif self._plan is not plan or self._points != points:
            manifest = self._combiner.manifest()
        if manifest is not None:
            self._combiner = Combiner.restore(plan, points, manifest, self._files)
        self._plan, self._points = plan, points
        assert self._combiner is not None
        return self._combiner

    def _states(self) -> list[Path]:
        return [path for path in self._directory.glob("*.json") if not path.name.startswith(".")]

    def _forget(self, dropped: list[str]) -> None:
        """Removes what only states before the last one needed."""
        self._files.drop(self._dropped)
        for path in sorted(self._states())[:-2]:
            with suppress(FileNotFoundError):
                path.unlink()
        self._dropped = dropped
