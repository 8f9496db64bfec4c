"""EXPLAIN: the shared plan as text. Stable: the same plan always prints the same, and golden tests compare it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from headrace.config import Settings
from headrace.model import Options, QueryId, format_duration
from headrace.plan.canonical import Sizes
from headrace.plan.capacities import OperatorFacts
from headrace.plan.explain_folds import fold_lines
from headrace.plan.explain_graph import graph_lines
from headrace.plan.explain_joins import heavy_lines, join_lines, side_names
from headrace.plan.explain_ordering import ordering_lines, sources_text
from headrace.plan.explain_trees import allocation_lines, path_lines, tree_line
from headrace.plan.expressions import conditions_text, expression_text
from headrace.plan.hypercube import Grid
from headrace.plan.joinplans import JoinPlan, plan_joins
from headrace.plan.opgraph import OperatorName
from headrace.plan.queries import Measure
from headrace.plan.shard_graph import running_graph, scheduled_graph
from headrace.plan.sharing import Delivery, Group, Input, OutputClass, SharedPlan
from headrace.plan.tree_plans import TreePlan, plan_trees
from headrace.stats import OrderingStats


def explain(
    plan: SharedPlan,
    settings: Settings,
    queries: Sequence[QueryId] | None = None,
    joins: Mapping[str, JoinPlan] | None = None,
    grids: Mapping[str, Grid] | None = None,
    facts: Mapping[OperatorName, OperatorFacts] | None = None,
    ordering: Sequence[OrderingStats] = (),
    trees: Mapping[str, TreePlan] | None = None,
) -> str:
    """The groups that hold these queries (all by default), one block of lines each, and their operators. ``joins``: how
    multi-way joins are carried out; by default as planned before the first tuple. ``grids``: the cells of joins, with
    their heavy keys. ``facts``: what was measured of the operators; ``ordering``: how order is kept now. ``trees``: how
    groups whose probes may be left out run; by default as planned before the first tuple."""
    wanted = set(plan.queries if queries is None else queries)
    groups = [group for group in plan.groups if wanted & set(group.queries)]
    planned = plan_joins(plan, settings, grids, joins)
    grown = plan_trees(plan, settings, planned) | dict(trees or {})
    blocks = [
        "\n".join(
            _group_lines(
                plan,
                number,
                group,
                settings,
                planned.get(group.signature),
                grids or {},
                ordering,
                grown.get(group.signature),
            )
        )
        for number, group in enumerate(groups, 1)
    ]
    shown = SharedPlan(plan.catalog, tuple(groups), ())
    operators = graph_lines(running_graph(shown), facts, scheduled_graph(shown), running_graph(plan))
    graph = "\n".join([_turns_text(settings), *operators])
    return "\n\n".join([_head(groups, settings.shards), *blocks, graph]) + "\n"


def _head(groups: Sequence[Group], shards: int) -> str:
    queries = sum(len(group.queries) for group in groups)
    return f"{_counted(queries, 'query', 'queries')} in {_counted(len(groups), 'group')} on {_counted(shards, 'shard')}"


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def _group_lines(
    plan: SharedPlan,
    number: int,
    group: Group,
    settings: Settings,
    join: JoinPlan | None,
    grids: Mapping[str, Grid],
    ordering: Sequence[OrderingStats],
    tree: TreePlan | None,
) -> Iterator[str]:
    names = side_names(group)
    kind = "window join" if group.is_join else "scan"
    yield f"group {number}: {kind} {group.signature}"
    if tree is not None:
        yield from _tree_lines(group, tree, names)
    elif group.is_join:
        yield f"  order         {_order_text(settings)}"
        yield f"  method        {_method_text(group, settings)}"
        yield from ordering_lines(group, settings, ordering)
    if join is None:
        yield f"  partitioning  {_partitioning(group, settings.shards)}"
    else:
        yield from join_lines(group, join, settings, names)
    yield from heavy_lines(group, grids.get(group.signature, Grid()), names)
    if group.is_join:
        yield (
            "  bands         " + " | ".join(_bands(group))
            if _is_nested(group)
            else "  windows       " + _windows(group)
        )
    for index, reader in enumerate(group.inputs):
        yield from _input_lines(plan, reader, [names[side] for side, used in enumerate(group.sides) if used == index])
    if group.verified:
        yield f"  after join    {conditions_text(group.verified, names)} (keys are hashed; compared by value)"
    sinks = dict(plan.sinks)
    for cls in group.classes:
        yield from _class_lines(group, cls, names, settings)
        for member in cls.members:
            if (named := outside_text(sinks.get(member.query, ()), member.query)) is not None:
                yield f"    into        {named} ({member.query}, at least once)"


def _tree_lines(group: Group, plan: TreePlan, names: Sequence[str]) -> Iterator[str]:
    """How overload is met: the tree, its paths, and what may be probed."""
    if group.freshness is None:
        yield "  on overload   defer: nothing is left out; blocks of tuples wait for their turn"
    else:
        fresh = [f"{name} {one}" for name, one in zip(names, group.freshness, strict=True)]
        yield f"  on overload   adapt: probes are left out; tuples in results arrived within {', '.join(fresh)}"
    yield tree_line(plan.tree, names, plan.choice)
    yield from path_lines(plan.allocation.problem, names)
    yield from allocation_lines(plan.allocation, names)


def _turns_text(settings: Settings) -> str:
    """How operators take turns."""
    if settings.budget is None:
        return "operator graph: no budget, so nothing waits between operators"
    return f"operator graph: {settings.strategy}, {FAIRNESS_TEXTS[settings.fairness]}, {_memory_text(settings)}"


def _memory_text(settings: Settings) -> str:
    return f"queues of up to {settings.queue_memory_bytes / 2**20:g} MiB"


FAIRNESS_TEXTS = {
    "static": "without a promise to anyone who waits",
    "oldest": "the oldest tuple first in each micro-batch",
    "aging": "priorities grow with the wait",
}

POLICY_NAMES = {
    "lwo": "largest window only (LWO)",
    "swf": "smallest window first (SWF)",
    "mqt": "maximum query throughput (MQT)",
}


def _order_text(settings: Settings) -> str:
    policy = POLICY_NAMES[settings.policy]
    if settings.budget is None:
        return f"{policy}; no budget, so all is done at once"
    blocks = f", blocks of {settings.block}" if settings.block else ""
    return f"{policy}, {settings.budget} a micro-batch{blocks}"


def _method_text(group: Group, settings: Settings) -> str:
    is_indexed = group.graph is None and settings.join_method == "hybrid"
    return METHOD_TEXTS["index" if is_indexed else settings.join_method]


METHOD_TEXTS = {
    "hybrid": "hybrid: an index where there is one, a scan where not",
    "index": "index of sorted keys",
    "eager": "eager nested loops: new tuples first, whole windows scanned",
    "lazy": "lazy nested loops: new tuples of a stretch of time first, whole windows scanned",
    "general": "general lazy nested loops: new tuples wherever it is best, whole windows scanned",
    "naive": "naive nested loops: one order for all, whole windows scanned",
}


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
    for sizes in group.windows:
        ending = sum(member.sizes == sizes for member in members)
        window = window_text(group.measures, sizes)
        yield f"{before} .. {window} ({_counted(ending, 'query', 'queries')})"
        before = window


def _is_nested(group: Group) -> bool:
    """Whether each window lies within the next larger one, on every side."""
    return all(
        small <= large for one, other in pairwise(group.windows) for small, large in zip(one, other, strict=True)
    )


def _windows(group: Group) -> str:
    """Windows that do not lie within each other, in the order in which they are scanned."""
    return ", ".join(window_text(group.measures, sizes) for sizes in group.windows)


def window_text(measures: Sequence[Measure], sizes: Sizes) -> str:
    """A window as a user would write it: one size, or one for each side.

    >>> window_text((Measure.TIME, Measure.ROWS), (1_000_000, 5))
    '[1 second, 5 rows]'
    """
    texts = [_size_text(*one) for one in zip(measures, sizes, strict=True)]
    return texts[0] if len(set(texts)) == 1 else f"[{', '.join(texts)}]"


def _size_text(measure: Measure, size: int) -> str:
    return format_duration(size) if measure is Measure.TIME else _counted(size, "row")


def _input_lines(plan: SharedPlan, reader: Input, sides: Sequence[str]) -> Iterator[str]:
    stream = plan.catalog.get(reader.stream)
    delay = f", up to {format_duration(stream.max_delay_us)} out of order" if stream.max_delay_us else ""
    yield f"  input         {' and '.join(sides)} by {reader.time}{delay}{sources_text(stream)}"
    if (named := outside_text(stream.options)) is not None:
        yield f"    from        {named}"
    yield f"    carries     {', '.join(str(column) for column in reader.schema)}"
    yield f"    at source   {conditions_text(reader.selection)}"


def outside_text(options: Options, query: str | None = None) -> str | None:
    """A source or sink that is Spark's own, in a few words; None for all others.

    >>> outside_text((("connector", "kafka"), ("servers", "b:9092"), ("topic", "clicks")))
    'kafka topic clicks at b:9092'
    """
    told = dict(options)
    match told.get("connector"):
        case "kafka":
            return f"kafka topic {told.get('topic') or query} at {told['servers']}"
        case "spark":
            return f"spark format {told['format']}" + (f" at {told['path']}" if "path" in told else "")
    return None


def _class_lines(group: Group, cls: OutputClass, names: Sequence[str], settings: Settings) -> Iterator[str]:
    members = [
        f"{member.query} ({window_text(group.measures, member.sizes)})" if group.is_join else str(member.query)
        for member in cls.members
    ]
    sides = names if group.is_join else ()
    yield f"  queries       {', '.join(members)}{', rows as soon as they are found' if cls.is_early else ''}"
    yield f"    filter      {conditions_text(cls.filters, sides)}"
    if cls.folding is not None:
        yield from fold_lines(cls.folding, settings, sides)
        return
    shown = [f"{expression_text(output.expression, sides)} AS {output.name}" for output in cls.outputs]
    yield "    select      only counted" if cls.delivery is Delivery.COUNT else f"    select      {', '.join(shown)}"
