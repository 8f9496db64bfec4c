"""Comparisons as ranges: which side of a join can be searched by a condition, and within what bounds.

      a.v < b.v                            a by v: below b.v                          exactly
      a.v - b.v BETWEEN 1 AND c.v          a by v: b.v + 1 .. b.v + c.v               about: sums are solved for a.v
      ABS(a.v - b.v) <= 5                  a by v: b.v - 5 .. b.v + 5

Owns: :class:`Range`, :class:`Sum` and ``ranges_of``. Where a side stands alone, its expression is indexed and compared
as it is. Else the comparison is read as one of sums (of terms with constant factors) and solved for a side that is in
one term only, as real numbers are. What is computed differs from those by rounding, by sums that wrap round or
overflow, and by NaN: bounds are so much wider, and say nothing where that is not enough. They let through all rows that
meet the condition, and a few more: it is always checked on what they leave.

Invariants: a bound reads other sides than its range's. Cost: a pass over a condition for each of its sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

from headrace.model import DataType, TypeKind
from headrace.plan.expressions import Call, Expression, Literal, sources_of

MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
EXACT_DIGITS = 18
"""Decimals of so many digits are 64-bit numbers that sort as they do."""

_WHOLE = (TypeKind.INT, TypeKind.BIGINT, TypeKind.TIMESTAMP, TypeKind.INTERVAL)
_SUMMED = (*_WHOLE, TypeKind.DOUBLE, TypeKind.DECIMAL)
_ORDERED = (*_SUMMED, TypeKind.DATE, TypeKind.STRING)
_LOOSE = {"=": "=", "<": "<=", "<=": "<=", ">": ">=", ">=": ">="}

LARGEST = 2.0**600
"""Sums of doubles up to here do not overflow, whatever factors they have on the way."""
UNWRAPPED = 2.0**61
"""Sums of 64-bit numbers up to here do not wrap round."""
MOST_OPERATIONS, MOST_FACTORS = 64, 4
LARGEST_FACTOR = 2.0**30
"""What keeps rounding within the margin that the engine adds."""


@dataclass(frozen=True, slots=True)
class Term:
    """An expression over other sides, times a number."""

    factor: float
    of: Expression


@dataclass(frozen=True, slots=True)
class Sum:
    """Terms added up as real numbers. It bounds nothing where they are larger than ``most`` together, or, with
    ``is_wrapping``, where the values that it bounds are. ``passes_nan``: NaN meets the comparison, whatever the sum."""

    terms: tuple[Term, ...]
    most: float
    is_wrapping: bool
    passes_nan: bool


@dataclass(frozen=True, slots=True)
class Range:
    """``side``'s indexed expression, of that type, compared with one over other sides: ``index function bound``."""

    side: int
    index: int
    type: DataType
    function: str
    bound: Expression | Sum

    @property
    def bound_sides(self) -> frozenset[int]:
        bounds = [one.of for one in self.bound.terms] if isinstance(self.bound, Sum) else [self.bound]
        return frozenset().union(*map(sources_of, bounds))


Found: TypeAlias = tuple[Expression, Range]
"""What is indexed, over the group's sides, and the range, whose index has no number yet."""


def ranges_of(condition: Expression) -> Iterator[Found]:
    """The ways a condition can be searched by, from any of its sides."""
    if not isinstance(condition, Call):
        return
    if condition.function == "in":
        value, *candidates = condition.args
        ends = {
            "<=": Call("greatest", tuple(candidates), value.type),
            ">=": Call("least", tuple(candidates), value.type),
        }
        for function, end in ends.items():
            yield from _alone(value, function, end)
    elif condition.function in MIRRORED:
        left, right = condition.args
        exact = [*_alone(left, condition.function, right), *_alone(right, MIRRORED[condition.function], left)]
        yield from exact
        solved = sources_of(condition) - {one.side for _, one in exact}
        for comparison in _sums(condition):
            yield from (found for side in sorted(solved) if (found := comparison.solved_for(side)) is not None)


def _alone(mine: Expression, function: str, other: Expression) -> Iterator[Found]:
    """A side that stands alone, as it is; not if a constant beside it can be moved to the other side, so that one index
    serves all comparisons."""
    sides = sources_of(mine)
    is_alone = len(sides) == 1 and sources_of(other) and not sides & sources_of(other)
    if is_alone and mine.type.kind in _ORDERED and mine.type == other.type and not _is_sum(mine):
        (side,) = sides
        yield mine, Range(side, -1, mine.type, function if is_exact(mine.type) else _LOOSE[function], other)


def is_exact(of: DataType) -> bool:
    """Whether values that differ have numbers that differ: of long texts and decimals only the beginning counts."""
    return of.kind is not TypeKind.STRING and of.precision <= EXACT_DIGITS


# --- sums


def _is_sum(expression: Expression) -> bool:
    made = _Terms()
    made.add(expression)
    return len(made.terms) > 1 or any(factor != 1 for factor, _ in made.terms)


@dataclass(slots=True)
class _Terms:
    """Expressions taken apart into terms, and what is needed to know how far they are from real numbers."""

    terms: list[tuple[float, Expression]] = field(default_factory=list)
    operations: int = 0
    factors: list[float] = field(default_factory=list)
    wraps: bool = False

    def add(self, expression: Expression, factor: float = 1.0) -> None:
        self.operations += 1
        parts = _parts(expression)
        if parts is None:
            self.terms.append((factor, expression))
            return
        assert isinstance(expression, Call)
        if expression.function in ("*", "/"):
            self.factors.append(abs(parts[0][0]))
        elif expression.function != "cast":
            self.wraps |= expression.type.kind in _WHOLE
        for times, part in parts:
            self.add(part, factor * times)

    @property
    def is_near(self) -> bool:
        """Whether what is computed is within the engine's margin of the real numbers."""
        return self.operations <= MOST_OPERATIONS and len(self.factors) <= MOST_FACTORS

    @property
    def most(self) -> float:
        if not self.wraps:
            return LARGEST
        spread = 1.0
        for factor in self.factors:
            spread *= max(factor, 1 / factor)
        return UNWRAPPED / spread


def _parts(expression: Expression) -> Sequence[tuple[float, Expression]] | None:
    """The parts of a sum or a multiple, each with its factor; None where it is to stay whole: what is of one side is
    only taken apart from constants."""
    if not isinstance(expression, Call) or expression.type.kind not in _SUMMED or not sources_of(expression):
        return None
    args = expression.args
    if expression.function in ("+", "-"):
        is_split = len(sources_of(expression)) > 1 or not all(map(sources_of, args))
        return ((1.0, args[0]), (1.0 if expression.function == "+" else -1.0, args[1])) if is_split else None
    if expression.function == "neg":
        return ((-1.0, args[0]),)
    if expression.function == "cast":
        return ((1.0, args[0]),) if _keeps_value(args[0].type, expression.type) else None
    if expression.function == "*" and expression.type.kind not in _WHOLE:
        for one, other in (args, args[::-1]):
            if (factor := _factor(other)) is not None:
                return ((factor, one),)
    if expression.function == "/" and (divisor := _factor(args[1])) is not None:
        return ((1 / divisor, args[0]),)
    return None


def _factor(expression: Expression) -> float | None:
    """A constant that is neither too large nor too small to multiply by."""
    while isinstance(expression, Call) and expression.function == "cast":
        (expression,) = expression.args
    value = expression.value if isinstance(expression, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    factor = float(value)
    return factor if 1 / LARGEST_FACTOR <= abs(factor) <= LARGEST_FACTOR else None


_WHOLE_DIGITS = {TypeKind.INT: 10, TypeKind.BIGINT: 19}


def _keeps_value(source: DataType, to: DataType) -> bool:
    """Whether a CAST changes no number, but for rounding it to a DOUBLE."""
    if not source.is_numeric or not to.is_numeric or source.kind is TypeKind.DOUBLE:
        return False
    if to.kind is TypeKind.DOUBLE or (source.is_integer and to.kind is TypeKind.BIGINT):
        return True
    whole = _WHOLE_DIGITS.get(source.kind, source.precision - source.scale)
    return to.kind is TypeKind.DECIMAL and to.scale >= source.scale and to.precision - to.scale >= whole


@dataclass(frozen=True, slots=True)
class _Comparison:
    """``smaller function greater`` as sums."""

    smaller: tuple[tuple[float, Expression], ...]
    function: str
    greater: tuple[tuple[float, Expression], ...]

    def solved_for(self, side: int) -> Found | None:
        """The comparison as a range of a side that is in one term."""
        made = _Terms()
        for factor, expression in self.smaller:
            made.add(expression, factor)
        before = len(made.terms)
        for factor, expression in self.greater:
            made.add(expression, -factor)
        mine = [place for place, (_, one) in enumerate(made.terms) if side in sources_of(one)]
        if len(mine) != 1 or not made.is_near:
            return None
        (place,) = mine
        factor, indexed = made.terms[place]
        if len(sources_of(indexed)) > 1 or indexed.type.kind not in _SUMMED:
            return None
        others = tuple(Term(-times / factor, one) for at, (times, one) in enumerate(made.terms) if at != place)
        function = _LOOSE[self.function if factor > 0 else MIRRORED[self.function]]
        is_wrapping = made.wraps and indexed.type.kind in _WHOLE
        bound = Sum(others, made.most, is_wrapping, place >= before and function != "=")
        return indexed, Range(side, -1, indexed.type, function, bound)


def _sums(condition: Call) -> Iterator[_Comparison]:
    """What a comparison says of sums: of a distance, that it is small in both directions."""
    left, right = condition.args
    if left.type.kind not in _SUMMED:
        return
    function = condition.function
    if function in (">", ">="):
        left, right, function = right, left, MIRRORED[function]
    near = _within(left) if function != "=" else _within(left) or _within(right)
    if near is None:
        yield _Comparison(((1.0, left),), function, ((1.0, right),))
        return
    apart, other = (near, right) if near == _within(left) else (near, left)
    yield _Comparison(((1.0, apart),), "<=", ((1.0, other),))
    yield _Comparison(((-1.0, other),), "<=", ((1.0, apart),))


def _within(expression: Expression) -> Expression | None:
    """What ABS is taken of, where more than one side is in it."""
    while isinstance(expression, Call) and expression.function == "cast":
        if not _keeps_value(expression.args[0].type, expression.type):
            return None
        (expression,) = expression.args
    is_distance = isinstance(expression, Call) and expression.function == "abs" and len(sources_of(expression)) > 1
    return expression.args[0] if is_distance and isinstance(expression, Call) else None
