"""A shard whose windows are full, as a starting point: the papers' experiments are "fast forwarded" to a steady state.

Owns :class:`Store` (a shard's segments) and :class:`FilledShard`: filled once, without a budget and by the default
method, and gone on from as often as there is something to compare, by other policies and methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.engine.events import DropSegment, Event, KeepSegment
from headrace.engine.shard import Shard, ShardOptions
from headrace.plan.sharing import SharedPlan


@dataclass
class Store:
    """The segments of a filled shard."""

    blobs: dict[str, pa.Buffer] = field(default_factory=dict)
    merged: dict[str, pa.Buffer] = field(default_factory=dict)

    def stored(self, name: str) -> pa.Buffer:
        return self.blobs[name]

    def derived(self, name: str, rebuild: Callable[[], pa.Buffer]) -> pa.Buffer:
        if name not in self.merged:
            self.merged[name] = rebuild()
        return self.merged[name]


class FilledShard:
    """What a shard holds after some steps."""

    def __init__(self, plan: SharedPlan, steps: Iterable[list[Event]], options: ShardOptions | None = None) -> None:
        self.plan = plan
        self._store = Store()
        shard = Shard(plan, options)
        for events in steps:
            for effect in shard.step(events):
                match effect:
                    case KeepSegment(name, blob):
                        self._store.blobs[name] = blob
                    case DropSegment(name):
                        del self._store.blobs[name]
        self._manifest = shard.manifest()

    def going_on(self, options: ShardOptions) -> Shard:
        return Shard.restore(self.plan, options, self._manifest, self._store)
