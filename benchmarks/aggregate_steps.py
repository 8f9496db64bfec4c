"""What aggregates cost without Spark: shards and the place where their panes meet, in this process, on the clock of its
own processor time. What else the machine does is none of it.

As on Spark every shard is restored from its manifest and segments before each step; the combiner stays, as it does on
the driver. Timed are the shards' steps (join and folding) and the combiner's, nothing else.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.aggregate_workload import Folded, Workload, program, table
from benchmarks.contenders import CORES
from benchmarks.inputs import STREAMS
from headrace.engine.budget import ProbeBudget
from headrace.engine.combining import Combiner
from headrace.engine.events import DropSegment, Effect, EmitPanes, EmitRows, KeepSegment, TimesReached
from headrace.engine.histories import Points
from headrace.engine.packing import EVENTS, ORDER, ORDER_SHIFT, Envelope, Packer
from headrace.engine.shard import Shard, ShardOptions
from headrace.plan.sharing import share
from headrace.sql import read_script


class Segments(dict[str, pa.Buffer]):
    """A shard's kept segments."""

    def stored(self, name: str) -> pa.Buffer:
        return self[name]

    def derived(self, _name: str, rebuild: Any) -> pa.Buffer:
        return rebuild()

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, KeepSegment):
                self[effect.name] = effect.blob
            elif isinstance(effect, DropSegment):
                del self[effect.name]


class Steps:
    """Some queries, step by step."""

    def __init__(self, asked: list[Folded], reevaluate_s: int) -> None:
        script = read_script(program(asked, reevaluate_s, Path("nowhere")))
        self._plan = share(script.catalog, tuple(script.queries))
        self._options = ShardOptions(reevaluate_us=reevaluate_s * 1_000_000, forwards=True)
        self._stores = [Segments() for _ in range(CORES)]
        self._manifests = [Shard(self._plan, self._options).manifest() for _ in self._stores]
        self._combiner = Combiner(self._plan, Points(self._options.reevaluate_us))

    def take(self, workload: Workload, batch: int) -> dict[str, float]:
        """One micro-batch: what it cost, and how much went where."""
        spent = dict.fromkeys(("shards_ms", "combiner_ms", "panes", "sent_kib", "rows"), 0.0)
        envelopes = [one for number, _ in enumerate(STREAMS) for one in self._packed(workload, number, batch)]
        sent: list[EmitPanes | TimesReached] = []
        for index, store in enumerate(self._stores):
            shard = Shard.restore(self._plan, self._options, self._manifests[index], store)
            events = [one.event(self._plan) for one in envelopes if one.shard == index and one.kind in EVENTS]
            began = time.process_time()
            effects = list(shard.step(events, ProbeBudget()))
            spent["shards_ms"] += (time.process_time() - began) * 1000
            store.apply(effects)
            self._manifests[index] = shard.manifest()
            sent += [one for one in effects if isinstance(one, EmitPanes | TimesReached)]
        began = time.process_time()
        rows = [one for one in self._combiner.step(sent) if isinstance(one, EmitRows)]
        spent["combiner_ms"] = (time.process_time() - began) * 1000
        panes = [one.batch for one in sent if isinstance(one, EmitPanes)]
        spent["panes"] = sum(one.num_rows for one in panes)
        spent["sent_kib"] = sum(one.nbytes for one in panes) / 1024
        spent["rows"] = sum(one.batch.num_rows for one in rows)
        return spent

    def _packed(self, workload: Workload, number: int, batch: int) -> list[Envelope]:
        (rows,) = table(workload, number, batch).combine_chunks().to_batches()
        rows = rows.append_column(ORDER, pa.array([batch << ORDER_SHIFT] * rows.num_rows, pa.int64()))
        return list(Packer(self._plan, self._plan.catalog.get(STREAMS[number]), CORES).pack(rows, 0))
