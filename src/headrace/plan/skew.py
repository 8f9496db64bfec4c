"""Heavy keys: what is done about a key that so many tuples have that its cell would hold most of them.

      dimension x, 4 coordinates      key 7 is heavy from time s on; its split side is b
                                                                      x0     x1     x2     x3
      before s: all of key 7 in its home, x1                                 a b
      from s on: tuples of b are dealt out, those of a are copied     a b    a b    a b    a b

Each pair still meets in one cell. A tuple of the split side from s on must also meet the older tuples of the others,
which are in its home alone: while a window reaches back before s it is sent there too, as a *guest*. What a guest is
in counts only with an older tuple of another side; all else is found where the tuple was dealt to. A stream that is
joined with itself on the key is not split by side but spread over a plane (``planes``), with guests likewise.

Owns: :class:`HeavyKey`, what is seen of keys (:class:`SeenKeys`) and which keys become heavy (``heavy_keys``).
Invariants: a key once heavy stays so, with its split side and time; no tuple from that time on was sent before it was
declared. Cost: by keys seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from headrace.plan.queries import Measure
from headrace.plan.sharing import Group

if TYPE_CHECKING:
    from headrace.plan.hypercube import Grid

MOST_HEAVY = 64
"""Heavy keys a group may have."""
LEAST_ROWS = 1024
"""Tuples of a side, of one micro-batch or several, from which on its keys' shares are taken to mean something."""


@dataclass(frozen=True, slots=True)
class HeavyKey:
    """A key (its 64-bit number in an attribute class) that is dealt out: tuples of ``split_side`` from ``since_us`` on
    go to one coordinate each, those of the class's other sides to all."""

    attribute: int
    number: int
    split_side: int
    since_us: int


@dataclass(frozen=True, slots=True)
class SeenKeys:
    """Of so many rows of one side, about how many had each of the most frequent keys."""

    rows: int = 0
    keys: Mapping[int, int] = field(default_factory=dict)

    def plus(self, other: SeenKeys) -> SeenKeys:
        keys = {number: self.keys.get(number, 0) + other.keys.get(number, 0) for number in {*self.keys, *other.keys}}
        return SeenKeys(self.rows + other.rows, keys)


SeenBySide: TypeAlias = Mapping[tuple[int, int], SeenKeys]
"""What was seen of a group's keys, by attribute class and side."""


def seen_together(
    reports: Iterable[Mapping[tuple[str, int, int], SeenKeys]],
) -> dict[str, dict[tuple[int, int], SeenKeys]]:
    """What several source tasks saw (by group, attribute class and side), by group."""
    found: dict[str, dict[tuple[int, int], SeenKeys]] = {}
    for report in reports:
        for (signature, attribute, side), seen in report.items():
            mine = found.setdefault(signature, {})
            mine[attribute, side] = mine.get((attribute, side), SeenKeys()).plus(seen)
    return found


def added_up(before: SeenBySide, new: SeenBySide) -> dict[tuple[int, int], SeenKeys]:
    """What was seen of a group's keys before and now."""
    places = dict.fromkeys((*before, *new))
    return {place: before.get(place, SeenKeys()).plus(new.get(place, SeenKeys())) for place in places}


def seen_to_json(report: Mapping[tuple[str, int, int], SeenKeys]) -> bytes:
    """What a source task saw, for the driver."""
    return json.dumps([[*place, one.rows, list(one.keys.items())] for place, one in report.items()]).encode()


def seen_from_json(told: bytes | str) -> dict[tuple[str, int, int], SeenKeys]:
    return {
        (signature, attribute, side): SeenKeys(rows, dict(keys))
        for signature, attribute, side, rows, keys in json.loads(told)
    }


def heavy_keys(
    seen: SeenBySide, grid: Grid, newest_us: int, known: Sequence[HeavyKey] = (), *, least_rows: int = LEAST_ROWS
) -> tuple[HeavyKey, ...]:
    """The heavy keys from now on: the known ones, and those that more than half of a coordinate's share of some side's
    tuples have. ``newest_us``: no tuple of the join that was sent is after it.

    >>> from headrace.plan.hypercube import pair_grid
    >>> seen = {(0, 0): SeenKeys(2000, {7: 300}), (0, 1): SeenKeys(5000, {7: 400, 8: 600})}
    >>> heavy_keys(seen, pair_grid(4), 99)
    (HeavyKey(attribute=0, number=7, split_side=1, since_us=100),)
    """
    shares = {one.attribute: one.share for one in grid.dimensions if one.attribute is not None}
    taken = {(one.attribute, one.number) for one in known}
    largest: dict[tuple[int, int], float] = {}
    rows_of: dict[tuple[int, int], dict[int, int]] = {}
    for (attribute, side), one in seen.items():
        for number, rows in one.keys.items():
            place = (attribute, number)
            if attribute in shares and place not in taken and one.rows >= least_rows:
                largest[place] = max(largest.get(place, 0.0), rows / one.rows)
            rows_of.setdefault(place, {})[side] = rows
    heavy = [place for place, part in largest.items() if part > 1 / (2 * shares[place[0]])]
    heavy.sort(key=lambda place: (-largest[place], place))
    fresh = [HeavyKey(*place, _most(rows_of[place]), newest_us + 1) for place in heavy]
    return (*known, *fresh[: max(0, MOST_HEAVY - len(known))])


def _most(rows: Mapping[int, int]) -> int:
    """The side with most rows, of several the first."""
    return min(rows, key=lambda side: (-rows[side], side))


def meets_older_us(group: Group) -> int | None:
    """For how long after a key became heavy its tuples may meet older ones; None: for ever, where rows are counted."""
    if Measure.ROWS in group.measures:
        return None
    return max(size for sizes in group.windows for size in sizes)
