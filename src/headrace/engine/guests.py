"""Guests: tuples with a heavy key that are in its home only to meet what was there before (``plan/skew.py``).

      home of key 7     a1 a2  |  a3  a4            s: since when 7 is heavy; b is split
                               s    (b5)            the guest b5 meets a1 and a2 here; b5 with a3 and a4 is found where
                                                    b5 was dealt to, and must not be found here too

Where a stream is joined with itself, tuples with a heavy key are copied over a plane (``plan/planes.py``): two of
different deals share one cell, two of one deal meet in its own cell only (odd slots), and all meet older ones at home.

Owns: the marks of guests in a shard (columns ``__before``) and of slots, ``found_here``, which drops what is found
elsewhere, and ``still_visiting``, which lets guests go that come when nothing older is left: a window of rows may end
at any time.
Batches with marks are collected in a way of their own, so that they are not merged with others: marks are there only
where and as long as there may be guests, and cost nothing elsewhere. Cost: by mark, a column and times at the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.keys import Int64s
from headrace.engine.segments import BEFORE, NO_GUEST, NO_SLOT, SLOT, before_column, int64s_of, take_rows
from headrace.engine.spaces import Matches, Space
from headrace.engine.waiting import Released
from headrace.engine.window import Collected


@dataclass(frozen=True, slots=True)
class GuestMark:
    """A side with a column of marks, and the other sides of the attribute class it is for."""

    side: int
    column: str
    others: tuple[int, ...]


def with_marks(collected: Collected, batch: pa.RecordBatch) -> Collected:
    """How a batch is collected that may bring marks."""
    marks = tuple(name for name in batch.schema.names if name.startswith((BEFORE, SLOT)))
    return replace(collected, columns=(*collected.columns, *marks)) if marks else collected


def has_marks(collected: Collected) -> bool:
    return any(name.startswith(BEFORE) for name in collected.columns)


def guest_marks(key_sides: Sequence[tuple[int, ...]], spaces: Sequence[Space]) -> list[GuestMark]:
    """The marks that tuples of these sides have; ``key_sides``: the sides of each attribute class."""
    columns = [{name for one in set(space.collections) for name in one.columns} for space in spaces]
    return [
        GuestMark(side, before_column(attribute), tuple(other for other in sides if other != side))
        for attribute, sides in enumerate(key_sides)
        for side in sides
        if before_column(attribute) in columns[side]
    ]


def has_slots(spaces: Sequence[Space]) -> bool:
    return any(SLOT in one.columns for one in set(spaces[0].collections))


def found_here(matches: Matches, spaces: Sequence[Space], marks: Sequence[GuestMark]) -> Matches:
    """The results that are not found in another cell: each guest with another side's tuple from before its key was
    heavy."""
    for mark in marks:
        before = spaces[mark.side].column(mark.column, pa.int64(), matches.sides[mark.side])
        oldest_us = np.minimum.reduce([spaces[other].times(matches.sides[other]) for other in mark.others])
        matches = matches.where(oldest_us < pc.fill_null(before, NO_GUEST).to_numpy())
    if not has_slots(spaces):
        return matches
    left, right = (_slots(space, some) for space, some in zip(spaces, matches.sides, strict=True))
    return matches.where((left != right) | (left % 2 == 1))


def _slots(space: Space, addresses: Int64s) -> Int64s:
    """Which copies of their tuples these are; one that has no slot (-1, an odd one) meets all that are here."""
    slots: Int64s = pc.fill_null(space.column(SLOT, pa.int64(), addresses), NO_SLOT).to_numpy()
    return slots


def still_visiting(
    released: Sequence[Released], side: int, key_sides: Sequence[tuple[int, ...]], oldest_us: Sequence[int]
) -> list[Released]:
    """A side's rows without the guests that can meet nothing: ``oldest_us`` is, by side, what no tuple that is here or
    will come is older than."""
    found = []
    for one in released:
        keep = np.ones(len(one.ts_us), dtype=bool)
        for attribute, sides in enumerate(key_sides):
            if side in sides and before_column(attribute) in one.collected.columns:
                oldest = min(oldest_us[other] for other in sides if other != side)
                keep &= int64s_of(one.batch, before_column(attribute)) > oldest
        if keep.all():
            found.append(one)
        elif keep.any():
            rows = take_rows(one.batch, np.flatnonzero(keep))
            found.append(replace(one, batch=rows, ts_us=one.ts_us[keep], arrived_us=one.arrived_us[keep]))
    return found
