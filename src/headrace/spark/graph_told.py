"""What a shard tells of its operators with each micro-batch: what they did, what waits before them, who is next.

Owns :class:`GraphTold`, in JSON a part of the shard's report. Operators that did nothing and have nothing waiting are
left out. Cost: a few numbers an operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.engine.measuring import Meters, OperatorMeter
from headrace.engine.shard import Shard
from headrace.engine.strategies import Mode
from headrace.plan.opgraph import OperatorName


@dataclass(frozen=True, slots=True)
class GraphTold:
    """One shard's operators in one micro-batch. ``items``: what waits between operators, whatever its size; ``queues``:
    bytes; ``turns``: in this micro-batch; ``mode_changes``: ever; ``waiting``: tuples, as all shards weigh them;
    ``held``: by join, the probes that found the results it holds for larger windows, weighed so, and their bytes."""

    meters: Mapping[OperatorName, OperatorMeter] = field(default_factory=dict)
    turns: Mapping[OperatorName, int] = field(default_factory=dict)
    queues: Mapping[OperatorName, int] = field(default_factory=dict)
    items: int = 0
    mode: Mode = Mode.NORMAL
    mode_changes: int = 0
    waiting: Mapping[OperatorName, float] = field(default_factory=dict)
    held: Mapping[OperatorName, Sequence[int]] = field(default_factory=dict)

    @property
    def queue_bytes(self) -> int:
        return sum(self.queues.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "meters": {name: meter.to_json() for name, meter in self.meters.items()},
            "turns": dict(self.turns),
            "queues": {name: size_bytes for name, size_bytes in self.queues.items() if size_bytes},
            "waiting": dict(self.waiting),
            "held": {name: some for name, some in self.held.items() if any(some)},
            "items": self.items,
            "mode": [self.mode.value, self.mode_changes],
        }

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> GraphTold:
        meters = {OperatorName(name): OperatorMeter.from_json(one) for name, one in told["meters"].items()}
        mode, changes = told["mode"]
        waits = (told["waiting"], told["held"])
        return GraphTold(meters, told["turns"], told["queues"], told["items"], Mode(mode), changes, *waits)


def graph_told(shard: Shard, leaves: Meters) -> dict[str, Any] | None:
    """A shard's operators after a step, and those before the shards whose tasks told this one; None where operators
    take no turns."""
    dispatcher = shard.dispatcher
    if dispatcher is None:
        return None
    told = GraphTold(
        {**leaves.by_name, **dispatcher.meters.by_name},
        dispatcher.turns,
        dispatcher.queues(),
        shard.queued_items,
        shard.memory.mode,
        shard.memory.mode_changes,
        dispatcher.waiting_tuples(),
        dispatcher.held(),
    )
    return told.to_json()
