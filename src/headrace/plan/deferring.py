"""A join apart from what its classes make of the results: the join gives columns as they are, operators after it do the
rest when it is their turn.

      as one      join + filters + select lists                 everything is done where a result is found
      apart       join --columns--> select-project ... --> aggregate      queues between them (paper 003)

Owns ``deferred_group`` and ``deferred_filters``. Which tuples a class can use is still told in the join, and so are the
filters over one side alone: what no operator needs is not copied into its queue (section 4.1: as early as sharing
allows). Filters over several sides and select lists are left for later. Cost: a pass over a group's classes, once for a
plan.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.plan.expressions import ColumnRef, Expression, columns_of
from headrace.plan.queries import Output
from headrace.plan.sharing import Delivery, Group, OutputClass

MOST_CLASSES = 64
"""Classes of a group whose operators are kept apart. Beyond it, what they have in common (sorted values, gathered
columns) is worth more than turns of their own: as early as sharing allows."""


def raw_name(ref: ColumnRef) -> str:
    """What a stream's column is called among a join's."""
    return f"{ref.source}.{ref.name}"


def deferred_group(group: Group, *, is_begun: bool = False) -> Group:
    """The group, with classes that only give columns. ``is_begun``: something waits for its operators, so that they are
    there, however many."""
    if group.is_tree or (len(group.classes) > MOST_CLASSES and not is_begun):
        return group
    return replace(group, classes=tuple(_deferred(cls, deferred_filters(group, cls)) for cls in group.classes))


def deferred_filters(group: Group, cls: OutputClass) -> tuple[Expression, ...]:
    """The filters of a class that an operator after the join applies. A scan does nothing itself: it leaves all."""
    return cls.residual if group.is_join else cls.filters


def _deferred(cls: OutputClass, later: tuple[Expression, ...]) -> OutputClass:
    if cls.delivery is Delivery.COUNT and not later:
        return cls
    given = () if cls.delivery is Delivery.COUNT else cls.outputs
    read = {ref for output in given for ref in columns_of(output.expression)}
    asked = {ref for one in later for ref in columns_of(one)}
    if not read | asked:
        return cls
    outputs = tuple(Output(raw_name(ref), ref) for ref in sorted(read | asked, key=raw_name))
    delivery = Delivery.ROWS if cls.delivery is Delivery.COUNT else cls.delivery
    only_filtered = frozenset(map(raw_name, asked - read))
    now = tuple(one for one in cls.filters if one not in later)
    return replace(cls, filters=now, outputs=outputs, delivery=delivery, deferred=later, only_filtered=only_filtered)
