"""EXPLAIN: the shared plan as text. Stable: the same plan always prints the same, and golden tests compare it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.model import QueryId, format_duration
from headrace.plan.sharing import (
    Delivery,
    Group,
    Input,
    OutputClass,
    SharedPlan,
    conditions_text,
    expression_text,
)


def explain(plan: SharedPlan, shards: int, queries: Sequence[QueryId] | None = None) -> str:
    """The groups that hold these queries (all by default), one block of lines each."""
    wanted = set(plan.queries if queries is None else queries)
    groups = [group for group in plan.groups if wanted & set(_queries(group))]
    blocks = ["\n".join(_group_lines(plan, number, group, shards)) for number, group in enumerate(groups, 1)]
    return "\n\n".join([_head(groups, shards), *blocks]) + "\n"


def _queries(group: Group) -> list[QueryId]:
    return [member.query for cls in group.classes for member in cls.members]


def _head(groups: Sequence[Group], shards: int) -> str:
    queries = sum(len(_queries(group)) for group in groups)
    return f"{_counted(queries, 'query', 'queries')} in {_counted(len(groups), 'group')} on {_counted(shards, 'shard')}"


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def _group_lines(plan: SharedPlan, number: int, group: Group, shards: int) -> Iterator[str]:
    names = side_names(group)
    kind = "window join" if group.is_join else "scan"
    yield f"group {number}: {kind} {group.signature}"
    if group.is_join:
        yield f"  order         {LWO}"
    yield f"  partitioning  {_partitioning(group, shards)}"
    if group.is_join:
        yield "  bands         " + " | ".join(_bands(group))
    for index, reader in enumerate(group.inputs):
        yield from _input_lines(plan, reader, [names[side] for side, used in enumerate(group.sides) if used == index])
    if group.verified:
        yield f"  after join    {conditions_text(group.verified, names)} (keys are hashed; compared by value)"
    for cls in group.classes:
        yield from _class_lines(group, cls, names)


LWO = "largest window only (LWO)"


def side_names(group: Group) -> list[str]:
    """What EXPLAIN calls the sides: their streams, numbered when both are the same."""
    streams = [group.input_of(side).stream for side in range(len(group.sides))]
    if len(set(streams)) == len(streams):
        return [str(stream) for stream in streams]
    return [f"{stream}#{number}" for number, stream in enumerate(streams, 1)]


def _partitioning(group: Group, shards: int) -> str:
    if not group.is_join:
        return f"rows dealt over {_counted(shards, 'shard')}"
    keys = [", ".join(expression_text(key) for key in group.input_of(side).keys) for side in (0, 1)]
    key = keys[0] if keys[0] == keys[1] else " = ".join(keys)
    return f"hash of {key} over {_counted(shards, 'shard')}, no copies"


def _bands(group: Group) -> Iterator[str]:
    """The distinct windows as the stretches between them, with the number of queries that end in each."""
    members = [member for cls in group.classes for member in cls.members]
    before = "0"
    for window_us in group.windows_us:
        ending = sum(member.window_us == window_us for member in members)
        window = format_duration(window_us)
        yield f"{before} .. {window} ({_counted(ending, 'query', 'queries')})"
        before = window


def _input_lines(plan: SharedPlan, reader: Input, sides: Sequence[str]) -> Iterator[str]:
    stream = plan.catalog.get(reader.stream)
    delay = f", up to {format_duration(stream.max_delay_us)} out of order" if stream.max_delay_us else ""
    yield f"  input         {' and '.join(sides)} by {reader.time}{delay}"
    yield f"    carries     {', '.join(str(column) for column in reader.schema)}"
    yield f"    at source   {conditions_text(reader.pushed)}"


def _class_lines(group: Group, cls: OutputClass, names: Sequence[str]) -> Iterator[str]:
    members = [
        f"{member.query} ({format_duration(member.window_us)})" if group.is_join else str(member.query)
        for member in cls.members
    ]
    sides = names if group.is_join else ()
    yield f"  queries       {', '.join(members)}"
    yield f"    filter      {conditions_text(cls.filters, sides)}"
    shown = [f"{expression_text(output.expression, sides)} AS {output.name}" for output in cls.outputs]
    yield f"    select      {', '.join(shown)}" if cls.delivery is Delivery.ROWS else "    select      only counted"
