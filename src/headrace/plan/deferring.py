"""A join apart from what its classes make of the results: the join gives columns as they are, operators after it do the
rest when it is their turn.

      as one      join + filters + select lists                 everything is done where a result is found
      apart       join --columns--> select-project ... --> aggregate      queues between them (paper 003)

Owns ``deferred_group``. Which tuples a class can use is still told in the join; only its filters and its select list
are left for later. Cost: a pass over a group's classes, once for a plan.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.plan.expressions import ColumnRef, columns_of
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
    return replace(group, classes=tuple(map(_deferred, group.classes)))


def _deferred(cls: OutputClass) -> OutputClass:
    if cls.delivery is Delivery.COUNT and not cls.filters:
        return cls
    given = () if cls.delivery is Delivery.COUNT else cls.outputs
    read = {ref for output in given for ref in columns_of(output.expression)}
    asked = {ref for one in cls.filters for ref in columns_of(one)}
    if not read | asked:
        return cls
    outputs = tuple(Output(raw_name(ref), ref) for ref in sorted(read | asked, key=raw_name))
    delivery = Delivery.ROWS if cls.delivery is Delivery.COUNT else cls.delivery
    only_filtered = frozenset(map(raw_name, asked - read))
    return replace(
        cls, filters=(), outputs=outputs, delivery=delivery, deferred=cls.filters, only_filtered=only_filtered
    )
