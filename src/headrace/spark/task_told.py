"""What a source task tells with its last envelope: keys that many of its rows had, and what its operators were like.

Owns :class:`TaskTold`, in JSON the payload of a tally. Cost: a few numbers for each key and operator.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.engine.measuring import Meters
from headrace.engine.packing import Packer
from headrace.plan.skew import seen_to_json


@dataclass(frozen=True, slots=True)
class TaskTold:
    """``seen``: as ``plan.skew`` writes it; ``leaves``: the meters of the operators that run in packing."""

    seen: str
    leaves: Mapping[str, list[float | None]]

    @staticmethod
    def of(packer: Packer) -> TaskTold | None:
        """What there is to tell; None: nothing."""
        # Also without such keys: rows make their share.
        is_seen = any(seen.rows for seen in packer.heavy_seen.values())
        leaves = packer.leaves().to_json()
        if not is_seen and not leaves:
            return None
        return TaskTold(seen_to_json(packer.heavy_seen).decode() if is_seen else "[]", leaves)

    def to_payload(self) -> bytes:
        return json.dumps({"seen": self.seen, "leaves": self.leaves}).encode()

    @staticmethod
    def from_payload(payload: Any) -> TaskTold:
        told = json.loads(bytes(payload))
        return TaskTold(told["seen"], told["leaves"])


def leaves_of(told: list[TaskTold]) -> Meters:
    """What all source tasks told of their operators."""
    together = Meters()
    for one in told:
        together.take(Meters.from_json(one.leaves))
    return together
