"""Aggregates of a query: what is folded over the results of a group, and how the group's row is referred to.

A query with a :class:`Grouping` does not give its join's results but, for each group of them, a row whenever its value
changes (``docs/semantics.md``). Its outputs and HAVING are expressions over the *group's row*: the group's keys and
aggregates, as columns of a source of their own (``GROUP``). Keys, arguments and filters are expressions over the
streams of FROM, like any condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.errors import PlanError
from headrace.model import BIGINT, BOOLEAN, DOUBLE, NULL, DataType, TypeKind
from headrace.plan.expressions import ColumnRef, Expression

GROUP = -1
"""The source that a group's row is, in the outputs and the HAVING of a query with aggregates."""
EVALUATED = "ts"
"""The column, after all others, that says at which time a group had these values."""

_MOST_DIGITS = 38
_WHOLE = frozenset((TypeKind.INT, TypeKind.BIGINT))


class Fold(Enum):
    """What is made of the values of a group's results. All but COUNT are NULL where there are none; nulls are none."""

    COUNT = "COUNT"
    DISTINCT = "COUNT DISTINCT"
    SUM = "SUM"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate. ``argument`` None: COUNT(*). ``filter``: only results for which it holds count."""

    fold: Fold
    argument: Expression | None = None
    filter: Expression | None = None

    def __post_init__(self) -> None:
        if self.argument is None and self.fold is not Fold.COUNT:
            raise PlanError(f"{self.fold.value} needs something to fold: {self.fold.value}(a.x), say")
        if self.filter is not None and self.filter.type not in (BOOLEAN, NULL):
            raise PlanError(f"the filter of {self.fold.value} is {self.filter.type}, not BOOLEAN")
        _ = self.type

    @property
    def type(self) -> DataType:
        """What it gives: sums of whole numbers are BIGINT (and wrap, as all of its arithmetic does), of decimals as
        wide as they may get, averages always DOUBLE."""
        if self.fold in (Fold.COUNT, Fold.DISTINCT):
            return BIGINT
        assert self.argument is not None
        given = self.argument.type
        if self.fold in (Fold.MIN, Fold.MAX):
            return given
        if given.kind not in _WHOLE | {TypeKind.DOUBLE, TypeKind.DECIMAL}:
            raise PlanError(f"{self.fold.value} takes a number, not {given}")
        if self.fold is Fold.AVG or given.kind is TypeKind.DOUBLE:
            return DOUBLE
        if given.kind is TypeKind.DECIMAL:
            return DataType(TypeKind.DECIMAL, min(_MOST_DIGITS, given.precision + 10), given.scale)
        return BIGINT


@dataclass(frozen=True, slots=True)
class Grouping:
    """GROUP BY (no keys: all results are one group), the aggregates it takes, and HAVING over the group's row."""

    keys: tuple[Expression, ...]
    aggregates: tuple[Aggregate, ...]
    having: Expression | None = None

    def __post_init__(self) -> None:
        if self.having is not None and self.having.type not in (BOOLEAN, NULL):
            raise PlanError(f"HAVING is {self.having.type}, not BOOLEAN")


def key_ref(number: int, key: Expression) -> ColumnRef:
    """A key, as a column of the group's row."""
    return ColumnRef(GROUP, f"key{number}", key.type)


def aggregate_ref(number: int, aggregate: Aggregate) -> ColumnRef:
    """An aggregate, as a column of the group's row."""
    return ColumnRef(GROUP, f"agg{number}", aggregate.type)
