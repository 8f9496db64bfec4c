"""Results on their way into panes: what classes read of the same results is worked out once for all of them.

      a.site     b.kind     since            each key as a code, each time as a code: a class's keys and times are one
      3 -> 0     1 -> 1     70 -> 0          number a row, and rows with the same number are one pane
      7 -> 1     1 -> 1     70 -> 0
      3 -> 0     1 -> 1     70 -> 0          (a.site, since): 0 1 0        (b.kind, since): 1 1 1

Owns :class:`FoldedRows`, :class:`Stays` and :class:`Panel`. Invariant: rows with one code have equal values; equal
values may have two codes, so that panes are put together once more by their groups' numbers. Cost: an expression, its
codes and its limbs take a pass over the rows each, once; a class takes a pass for each of its keys and sums.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.evaluate import evaluate
from headrace.engine.keys import Int64s
from headrace.engine.panes import best_places
from headrace.engine.sums import limbs_of
from headrace.plan.expressions import ColumnRef, Expression

Codes = tuple[Int64s, int]
"""Numbers from 0 on, and how many there are."""
Made = TypeVar("Made")

_ROOM = 1 << 62
_SPARE = 4
"""Places for each row, up to which panes are told apart by their place in an array instead of being looked up."""


@dataclass(frozen=True, slots=True)
class Stays:
    """How long results stay: their since and from when they count, and a code for both."""

    since_us: Int64s
    from_us: Int64s
    codes: Int64s
    count: int

    @staticmethod
    def of(since_us: Int64s, from_us: Int64s) -> Stays:
        return Stays(since_us, from_us, *_combined([_codes(pa.array(since_us)), _codes(pa.array(from_us))]))


@dataclass(frozen=True, slots=True)
class Panel:
    """Which pane each row belongs to, and a row of each pane."""

    owners: Int64s
    firsts: Int64s

    @staticmethod
    def of(codes: Codes) -> Panel:
        numbers, count = codes
        if count > _SPARE * len(numbers) + 1024:
            found = pa.array(numbers).dictionary_encode()
            numbers, count = found.indices.to_numpy(), len(found.dictionary)
        firsts = np.full(count, -1, dtype=np.int64)
        firsts[numbers] = np.arange(len(numbers))
        used = firsts >= 0
        if used.all():
            return Panel(numbers, firsts)
        return Panel((np.cumsum(used) - 1)[numbers], firsts[used])

    def total(self, values: Int64s) -> Int64s:
        """What the rows of each pane add up to."""
        added = np.zeros(len(self.firsts), dtype=np.int64)
        np.add.at(added, self.owners, values)
        return added

    def best(self, values: pa.Array, *, least: bool) -> pa.Array:
        """The extreme of each pane."""
        places = best_places(values, self.owners, len(self.firsts), least=least)
        return values.take(pa.array(places, mask=places < 0))


class FoldedRows:
    """Results that one class or several fold."""

    def __init__(self, columns: Callable[[ColumnRef], pa.Array], rows: int) -> None:
        self.rows = rows
        self._columns = columns
        self._made: dict[Hashable, object] = {}

    def once(self, place: Hashable, make: Callable[[], Made]) -> Made:
        """What was made under this name, or is now."""
        if place not in self._made:
            self._made[place] = make()
        return self._made[place]  # type: ignore[return-value]

    def values(self, expression: Expression) -> pa.Array:
        """An expression of each row; with one zero."""
        return self.once(("values", expression), lambda: self._evaluated(expression))

    def _evaluated(self, expression: Expression) -> pa.Array:
        values = evaluate(expression, self._columns, self.rows)
        whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        return pc.add(whole, pa.scalar(0.0)) if pa.types.is_floating(whole.type) else whole

    def taken(self, argument: Expression | None, condition: Expression | None) -> np.ndarray:
        """The rows that have a value, and pass a filter."""
        return self.once(("taken", argument, condition), lambda: self._taken(argument, condition))

    def _taken(self, argument: Expression | None, condition: Expression | None) -> np.ndarray:
        taken = np.ones(self.rows, dtype=bool)
        if argument is not None and (values := self.values(argument)).null_count:
            taken &= values.is_valid().to_numpy(zero_copy_only=False)
        if condition is not None:
            taken &= self.values(condition).cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False)
        return taken

    def limbs(self, argument: Expression, condition: Expression | None) -> dict[str, Int64s]:
        """The limbs of the values that are taken; 0 elsewhere."""
        return self.once(("limbs", argument, condition), lambda: self._limbs(argument, condition))

    def _limbs(self, argument: Expression, condition: Expression | None) -> dict[str, Int64s]:
        values, taken = self.values(argument), self.taken(argument, condition)
        if taken.all():
            return limbs_of(values, argument.type.kind)
        rows, made = np.flatnonzero(taken), {}
        for limb, column in limbs_of(values.take(pa.array(rows)), argument.type.kind).items():
            made[limb] = np.zeros(self.rows, dtype=np.int64)
            made[limb][rows] = column
        return made

    def panel(self, keys: Sequence[Expression], stays: Stays, taken: np.ndarray | None = None) -> Panel:
        """The panes of groups by these keys; only of the rows that are taken."""
        numbers, count = _combined([*map(self._codes, keys), (stays.codes, stays.count)])
        if taken is None or taken.all():
            return Panel.of((numbers, count))
        rows = np.flatnonzero(taken)
        panel = Panel.of((numbers[rows], count))
        return Panel(panel.owners, rows[panel.firsts])

    def _codes(self, key: Expression) -> Codes:
        return self.once(("codes", key), lambda: _codes(self.values(key)))


def _codes(values: pa.Array) -> Codes:
    if pa.types.is_integer(values.type) and not values.null_count and len(values):
        numbers = values.to_numpy(zero_copy_only=False)
        least, most = int(numbers.min()), int(numbers.max())
        if most - least <= len(values):
            return numbers.astype(np.int64) - least, most - least + 1
    found = values.dictionary_encode(null_encoding="encode")
    return found.indices.to_numpy().astype(np.int64), len(found.dictionary)


def _combined(several: Sequence[Codes]) -> Codes:
    """One code for several."""
    (numbers, count), *others = several
    for more, size in others:
        if count * size > _ROOM:
            found = pa.array(numbers).dictionary_encode()
            numbers, count = found.indices.to_numpy().astype(np.int64), len(found.dictionary)
        numbers, count = numbers if size == 1 else more if count == 1 else numbers * size + more, count * size
    return numbers, count
