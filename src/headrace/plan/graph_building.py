"""From the shared plan to the operator graph: groups, inputs and classes as operators with queues between them.

      class     select-project  ->  aggregate       for each class of queries; the aggregate only where they have one,
                      |                             and then the select-project only where something is left to be asked
      group         join                            one for all windows, filters and select lists; a scan has none
                    /   \\
      inputs  select-project  ...                   what every query of the group asks for and reads (section 4.1:
                   |                                early, and fused); the same for two groups: one operator
      streams      a

The leaf operators run where rows are packed, before the shuffle; the others in the shards. An input that neither
filters nor leaves a column out has no operator: the join reads the stream. Cost: the plan's size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from headrace.model import Catalog
from headrace.plan.aggregates import Aggregate, Grouping
from headrace.plan.deferring import deferred_filters
from headrace.plan.explain_joins import side_names
from headrace.plan.expressions import ColumnRef, Expression, expression_text, render
from headrace.plan.opgraph import OperatorGraph, OperatorKind, OperatorName, OperatorNode, operator_name
from headrace.plan.sharing import Delivery, Group, Input, OutputClass, SharedPlan

GroupingOf: TypeAlias = Callable[[OutputClass], Grouping | None]
"""What the queries of a class make of its results, where they do not take them as they are."""


def no_grouping(_: OutputClass) -> None:
    """No class has aggregates."""


def operator_graph(plan: SharedPlan, grouping_of: GroupingOf = no_grouping) -> OperatorGraph:
    """The operators that run a plan's queries."""
    found: dict[OperatorName, OperatorNode] = {}
    for group in plan.groups:
        for one in group_operators(plan.catalog, group, grouping_of):
            found.setdefault(one.name, one)
    return OperatorGraph(tuple(found.values()))


def group_operators(catalog: Catalog, group: Group, grouping_of: GroupingOf = no_grouping) -> Iterator[OperatorNode]:
    """The operators of one group, bottom up."""
    inputs: list[str] = []
    for one in group.inputs:
        leaf = leaf_operator(catalog, one)
        if leaf is not None:
            yield leaf
        inputs.append(one.stream if leaf is None else leaf.name)
    if group.is_join:
        join = join_operator(group, inputs)
        yield join
        inputs = [join.name]
    for cls in group.classes:
        yield from class_operators(group, cls, inputs, grouping_of(cls))


def leaf_operator(catalog: Catalog, one: Input) -> OperatorNode | None:
    """What is done to a stream's rows before they are sent anywhere, if anything is."""
    whole = catalog.get(one.stream).schema
    columns = [column.name for column in one.schema]
    is_cut = len(columns) < len(tuple(whole))
    if not one.selection and not is_cut:
        return None
    kind = _kind(is_filtered=bool(one.selection), is_cut=is_cut)
    conditions = [expression_text(condition) for condition in one.selection]
    identity = [one.stream, *sorted(conditions), "->", *columns]
    text = _text(one.stream, conditions, columns if is_cut else ["*"])
    return OperatorNode(operator_name(kind, identity), kind, text, (one.stream,))


def join_operator(group: Group, inputs: Sequence[str]) -> OperatorNode:
    """The join of a group. It is the same join, with the same windows held, whatever its inputs filter out."""
    kind = OperatorKind.JOIN
    return OperatorNode(operator_name(kind, [group.signature]), kind, group.signature, tuple(dict.fromkeys(inputs)))


def class_operators(
    group: Group, cls: OutputClass, inputs: Sequence[str], grouping: Grouping | None = None
) -> Iterator[OperatorNode]:
    """What is made of a group's results for one class. An aggregate that nothing is left to be asked before reads them
    as they are (section 4.1: a short path). It does so whatever other queries there are: with a select-project between,
    only for those that have it in common, it would come and go with them, and each would have a queue all the same."""
    first = select_project(group, cls, inputs, grouping)
    if grouping is None or deferred_filters(group, cls):
        yield first
        inputs = (first.name,)
    if grouping is not None:
        yield aggregate_operator(first.name, cls, grouping, inputs, side_names(group) if group.is_join else ())


def select_project(
    group: Group, cls: OutputClass, inputs: Sequence[str], grouping: Grouping | None = None
) -> OperatorNode:
    """The filters and the select list of a class. Named by all its conditions, those that others ask for it too, so
    that it stays the same when another query comes or goes and a condition moves below the join or back."""
    names = side_names(group)
    sides = names if group.is_join else ()
    queries = tuple(member.query for member in cls.members)
    outputs = _output_texts(cls, sides, grouping)
    identity = [group.signature, *_all_conditions(cls, names), "->", *outputs, str(cls.ties)]
    if cls.folding is not None:
        identity.append(f"offsets {cls.folding.offsets}")
    if cls.is_early:
        identity.append("early")
    kind = OperatorKind.SELECT_PROJECT
    filters = [expression_text(one, sides) for one in deferred_filters(group, cls)]
    text = _text("", filters, outputs)
    return OperatorNode(operator_name(kind, identity), kind, text, tuple(inputs), () if grouping else queries)


def aggregate_operator(
    below: OperatorName, cls: OutputClass, grouping: Grouping, inputs: Sequence[str], sides: Sequence[str]
) -> OperatorNode:
    """The aggregates of a class: one for all its windows, band by band. Named by the select-project ``below``, which
    says what it is given, there or not."""
    kind = OperatorKind.AGGREGATE
    keys = [expression_text(key, sides) for key in grouping.keys]
    folds = [aggregate_text(one, sides) for one in grouping.aggregates]
    having = [] if grouping.having is None else [_group_text(grouping.having)]
    outputs = [f"{_group_text(output.expression)} AS {output.name}" for output in cls.outputs]
    identity = [below, *keys, "folds", *folds, "having", *having, "->", *outputs, cls.delivery.value]
    text = f"{', '.join(folds) or 'nothing'} by {', '.join(keys) or 'nothing'}"
    if having:
        text += f" having {having[0]}"
    queries = tuple(member.query for member in cls.members)
    return OperatorNode(operator_name(kind, identity), kind, text, tuple(inputs), queries)


def aggregate_text(aggregate: Aggregate, sides: Sequence[str] = ()) -> str:
    """An aggregate as a user would write it."""
    name, _, distinct = aggregate.fold.value.partition(" ")
    argument = "*" if aggregate.argument is None else expression_text(aggregate.argument, sides)
    call = f"{name}({distinct} {argument})" if distinct else f"{name}({argument})"
    return call if aggregate.filter is None else f"{call} FILTER ({expression_text(aggregate.filter, sides)})"


def _group_text(expression: Expression) -> str:
    def column(ref: ColumnRef) -> str:
        return ref.name

    return render(expression, column)


def _output_texts(cls: OutputClass, sides: Sequence[str], grouping: Grouping | None) -> list[str]:
    """What a class's select-project gives: its select list, or what its aggregates are made of."""
    if grouping is not None:
        folded = [part for one in grouping.aggregates for part in (one.argument, one.filter) if part is not None]
        texts = [expression_text(one, sides) for one in (*grouping.keys, *folded)]
        return list(dict.fromkeys(texts))
    if cls.delivery is Delivery.COUNT:
        return ["only counted"]
    shown = [f"{expression_text(output.expression, sides)} AS {output.name}" for output in cls.outputs]
    return [*shown, "to a shared sink"] if cls.delivery is Delivery.SHARED else shown


def _all_conditions(cls: OutputClass, names: Sequence[str]) -> list[str]:
    pushed = [
        f"{names[side]}: {expression_text(one)}" for side in range(len(cls.pushed)) for one in cls.conditions_on(side)
    ]
    return sorted({*pushed, *(expression_text(one, names) for one in cls.residual)})


def _kind(*, is_filtered: bool, is_cut: bool) -> OperatorKind:
    if is_filtered:
        return OperatorKind.SELECT_PROJECT if is_cut else OperatorKind.SELECT
    return OperatorKind.PROJECT


def _text(subject: str, conditions: Sequence[str], columns: Sequence[str]) -> str:
    filtered = f"where {' AND '.join(conditions)}" if conditions else ""
    return " ".join(part for part in (subject, filtered, f"-> {', '.join(columns) or 'no columns'}") if part)
