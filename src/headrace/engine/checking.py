"""What each class of a group still has to ask of a match: prepared once, so that a slice costs no class a text.

Owns :class:`Checks`. It depends on how the two tuples of a match were collected: tuples kept under an earlier plan
passed other filters, and may lack something. Tuples kept under this plan serve every class, and have passed what every
class asks. Conditions and expressions get numbers, by which a slice remembers what it worked out for them. Where
filters are left for later (``deferring``), tuples kept under an earlier plan may lack what those read, which they
passed: so of a slice with any of them all filters are done at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from headrace.engine.slices import Check, Comparison, Hull, Range
from headrace.engine.window import Collected
from headrace.plan.bounds import implies
from headrace.plan.expressions import Expression, columns_of, expression_text
from headrace.plan.sharing import OutputClass

INDEXED_FROM = 16
"""Classes that compare an expression with constants, from which on its values are sorted: about what a sort costs in
passes over the values."""

Combination: TypeAlias = tuple[Collected, ...]
"""How the tuples of a match were collected, by side."""


class Checks:
    """The checks of all classes, for every combination that comes up."""

    def __init__(self, classes: Sequence[OutputClass], current: Combination) -> None:
        self.conditions: list[Expression] = []
        self.indexed: list[tuple[Expression, Hull]] = []
        self._classes = classes
        self._current = current
        self._numbers: dict[Expression, int] = {}
        self._compared: list[Comparison | None] = []
        self._index_of: dict[Expression, int] = {}
        self._made: dict[Combination, list[Check | None]] = {}
        self._whole: list[Check | None] | None = None
        self._choose_indexes()

    def is_current(self, combination: Combination) -> bool:
        """Whether these tuples were kept under this plan."""
        return combination == self._current

    def of(self, combination: Combination) -> list[Check | None]:
        """For each class what is left to check; None: it cannot use such tuples."""
        if combination not in self._made:
            if self.is_current(combination):
                self._made[combination] = [self._check(cls.filters) for cls in self._classes]
            else:
                self._made[combination] = [self._check_of(cls, combination) for cls in self._classes]
        return self._made[combination]

    def all_of(self, combination: Combination) -> list[Check | None]:
        """The same, with what is else left for later."""
        if not self.is_current(combination):
            return self.of(combination)
        if self._whole is None:
            self._whole = [self._check((*cls.filters, *(cls.deferred or ()))) for cls in self._classes]
        return self._whole

    def _choose_indexes(self) -> None:
        wanted: Counter[Expression] = Counter()
        for cls in self._classes:
            compared = [self._compared[self._number(one)] for one in cls.filters]
            wanted.update({one.expression for one in compared if one is not None})
        for expression, classes in wanted.items():
            if classes >= INDEXED_FROM:
                self._index_of[expression] = len(self.indexed)
                self.indexed.append((expression, Hull()))

    def _number(self, condition: Expression) -> int:
        if condition not in self._numbers:
            self._numbers[condition] = len(self.conditions)
            self.conditions.append(condition)
            self._compared.append(Comparison.of(condition))
        return self._numbers[condition]

    def _check_of(self, cls: OutputClass, combination: Combination) -> Check | None:
        if not all(serves(cls, side, collected) for side, collected in enumerate(combination)):
            return None
        left = [one for side, collected in enumerate(combination) for one in cls.unchecked(side, collected.pushed)]
        return self._check((*left, *cls.residual))

    def _check(self, conditions: Iterable[Expression]) -> Check:
        ranges: dict[int, list[Comparison]] = {}
        others: list[int] = []
        for number in dict.fromkeys(self._number(one) for one in conditions):
            compared = self._compared[number]
            index = None if compared is None else self._index_of.get(compared.expression)
            if compared is None or index is None:
                others.append(number)
            else:
                ranges.setdefault(index, []).append(compared)
        for index, some in ranges.items():
            self.indexed[index][1].tell(some)
        return Check(tuple(Range(index, tuple(some)) for index, some in ranges.items()), tuple(others))


def serves(cls: OutputClass, side: int, collected: Collected) -> bool:
    """Whether tuples collected so on this side can be used: tuples kept under an earlier plan may lack something."""
    checks = (*cls.unchecked(side, collected.pushed), *cls.residual)
    read = [ref for one in (*checks, *cls.read) for ref in columns_of(one)]
    columns = frozenset(ref.name for ref in read if ref.source == side)
    conditions = cls.conditions_on(side)
    has_all = collected.serves(columns, frozenset(map(expression_text, conditions)))
    return has_all and implies(conditions, collected.bounds)
