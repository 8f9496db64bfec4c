"""Bounds of columns that conditions imply: what all queries of a stream have in common though none says it like that.

      q1   v > 90               -> v > 90                pushed below the join for both: what neither wants is not
      q2   v > 95 AND v < 200   -> v > 95, v < 200       sent, held or probed; q2 asks v > 95 after the join

Owns :class:`Bound`, ``common_bounds``, ``told_bounds`` and ``implies``. Only comparisons of a column with a constant
count, of INT, BIGINT and DOUBLE. NaN is above all numbers: within every lower bound and no upper one, like a very large
number. Cost: a pass over the conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headrace.model import BOOLEAN, DataType, TypeKind
from headrace.plan.expressions import Call, ColumnRef, Expression, Literal, expression_text

ToldBound: TypeAlias = tuple[str, str, int | float, str]
"""A bound as it is kept with tuples that are within it: a column, how it is compared, with what; and the condition."""
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_NUMBERS = (TypeKind.INT, TypeKind.BIGINT, TypeKind.DOUBLE)


@dataclass(frozen=True, slots=True)
class Bound:
    """``column function value``, with one of ``> >= < <=``."""

    column: str
    function: str
    value: int | float
    type: DataType

    @property
    def place(self) -> tuple[str, bool]:
        """The column, and whether it is bounded from below."""
        return self.column, self.function in (">", ">=")

    @property
    def strength(self) -> tuple[int | float, bool]:
        """Larger for one that leaves less, of those in one place."""
        return (self.value if self.place[1] else -self.value), self.function in (">", "<")

    @property
    def expression(self) -> Expression:
        return Call(self.function, (ColumnRef(0, self.column, self.type), Literal(self.value, self.type)), BOOLEAN)


def common_bounds(readers: Sequence[Iterable[Expression]]) -> tuple[Bound, ...]:
    """The bounds that the conditions of every reader imply, as strong as they can be."""
    found = [_strongest(conditions) for conditions in readers]
    places = [place for place in found[0] if all(place in other for other in found)]
    return tuple(min((one[place] for one in found), key=lambda bound: bound.strength) for place in places)


def told_bounds(conditions: Iterable[Expression]) -> tuple[ToldBound, ...]:
    """Those of the conditions that are a bound and nothing else."""
    found = [(bounds[0], one) for one in conditions if len(bounds := _bounds_of(one)) == 1]
    return tuple((bound.column, bound.function, bound.value, expression_text(one)) for bound, one in found)


def implies(conditions: Iterable[Expression], told: Sequence[ToldBound]) -> bool:
    """Whether what meets the conditions is within all these bounds."""
    mine = _strongest(conditions) if told else {}
    for column, function, value, _ in told:
        other = Bound(column, function, value, BOOLEAN)
        if other.place not in mine or mine[other.place].strength < other.strength:
            return False
    return True


def _strongest(conditions: Iterable[Expression]) -> dict[tuple[str, bool], Bound]:
    """By place, the strongest of these conditions' bounds."""
    found: dict[tuple[str, bool], Bound] = {}
    for bound in (bound for one in conditions for bound in _bounds_of(one)):
        before = found.get(bound.place)
        if before is None or bound.strength > before.strength:
            found[bound.place] = bound
    return found


def _bounds_of(condition: Expression) -> list[Bound]:
    """One for a comparison, two for an equality, none for anything else."""
    if not (isinstance(condition, Call) and condition.function in _MIRRORED):
        return []
    (left, right), function = condition.args, condition.function
    if isinstance(left, Literal):
        left, right, function = right, left, _MIRRORED[function]
    if not (isinstance(left, ColumnRef) and isinstance(right, Literal)):
        return []
    value = right.value
    if left.type != right.type or left.type.kind not in _NUMBERS or not isinstance(value, int | float):
        return []
    functions = (">=", "<=") if function == "=" else (function,)
    return [Bound(left.name, one, value, left.type) for one in functions if value == value]
