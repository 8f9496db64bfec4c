"""How a group's work is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from headrace.engine.cutting import BlockCut
from headrace.engine.histories import Points
from headrace.engine.holding import LIMIT_BYTES
from headrace.engine.matching import key_ranges
from headrace.engine.output import Cut
from headrace.engine.policy import JoinPolicy, LargestWindowOnly
from headrace.engine.spaces import KeySearch

Orders: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """How a group's work is done; none of it changes an answer."""

    cut: Cut = Cut.BANDS
    policy: type[JoinPolicy] = LargestWindowOnly
    finds: Callable[[str, int], tuple[KeySearch, ...]] = lambda _, sides: (key_ranges,) * sides
    """For a group with so many sides, how partners are found on each."""
    block: BlockCut = field(default_factory=BlockCut)
    orders: Mapping[str, Orders] = field(default_factory=dict)
    """By group, the order of the sides for new tuples of each; a group without: as its predicates connect them."""
    reevaluate_us: int = 0
    """Tuples are joined when progress has passed the end of their stretch of so much time; 0: at once."""
    expiry_us: Mapping[str, int] = field(default_factory=dict)
    """By group, after how much time tuples that left are let go; a group without: at once."""
    points: Points = field(default_factory=Points)
    """When aggregates are evaluated."""
    hold_bytes: int = LIMIT_BYTES
    """What results that were found ahead may weigh before they go to the store within a step."""
    forwards: bool = False
    """Whether the partial aggregates of groups are sent on: there are other shards with more of them."""
