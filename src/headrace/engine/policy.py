"""Which waiting scan comes next: the policies of paper 000, section 3. A policy only chooses; the operator acts.

A block scans the group's windows from the smallest to the largest; how far it goes before another block has its turn is
the policy's choice. Largest Window Only takes each block through all windows before the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Turn:
    """The block at ``position`` scans on until it has completed ``upto`` windows."""

    position: int
    upto: int


class JoinPolicy(Protocol):
    """Chooses the next turn, given how many windows each block has completed (oldest block first)."""

    def next_turn(self, completed: Sequence[int], windows: int) -> Turn: ...


class LargestWindowOnly:
    """LWO (section 3.1): the oldest block, through the largest window."""

    def next_turn(self, completed: Sequence[int], windows: int) -> Turn:
        position = next(i for i, done in enumerate(completed) if done < windows)
        return Turn(position, windows)


POLICIES: dict[str, type[JoinPolicy]] = {"lwo": LargestWindowOnly}
