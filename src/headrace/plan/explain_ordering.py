"""EXPLAIN of how a join keeps its results in order over streams that lag each other (paper 004)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.config import Settings
from headrace.model import PARTITION, Stream, format_duration
from headrace.plan.approaches import Approach, asked_of, emits_early, why_in_order
from headrace.plan.sharing import Group
from headrace.stats import OrderingStats

_TEXTS = {
    "sync-filter": "Sync-Filter: tuples wait until every stream has come as far",
    "filter-order": "Filter-Order: tuples are joined when they come, results wait until every stream has come as far",
    "returning": "on the way back to Sync-Filter: what is held is released first",
}


def ordering_lines(group: Group, settings: Settings, running: Sequence[OrderingStats]) -> Iterator[str]:
    """The approach, why it is so, and, of a running join, what is held, expected and measured."""
    now = next((one for one in running if one.group == group.signature), None)
    why = why_in_order(group)
    if why is not None:
        yield f"  ordering      {_TEXTS['sync-filter']}; {why}"
        return
    asked = asked_of(group, settings.ordering)
    approach = "sync-filter" if asked is Approach.ADAPTIVE else asked.value
    reason = (
        f"adaptive: Filter-Order from c|w|l1 l2 >= {settings.ordering_alpha:g} on; "
        if asked is Approach.ADAPTIVE
        else ""
    )
    if asked is Approach.ADAPTIVE and emits_early(group):
        approach, reason = "filter-order", "a query emits early; "
    yield f"  ordering      {reason}{_TEXTS[approach if now is None else now.approach]}"
    if now is not None and now.busy is not None:
        yield (
            f"    expected    c|w|l1 l2 = {now.busy:.3g}: response {_ms(now.sync_filter_ms)} with Sync-Filter, "
            f"{_ms(now.filter_order_ms)} with Filter-Order ({(now.gain or 0):.0%} less); "
            f"measured {_ms(now.response_ms)}"
        )
    if now is not None and (now.held_results or now.waits_for):
        waits = f"; output waits for {', '.join(now.waits_for)}" if now.waits_for else ""
        yield f"    held        {now.held_results:,} results{waits}"


def sources_text(stream: Stream) -> str:
    """What is said of a stream's sources."""
    told = ""
    if stream.partition is not None:
        count = "" if stream.partitions is None else f"{stream.partitions} "
        told += f", {count}partitions{'' if stream.partition == PARTITION else f' by {stream.partition}'}"
    if stream.idle_timeout_us is not None:
        told += f", passed over after {format_duration(stream.idle_timeout_us)} without a tuple"
    return told


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value / 1000:.3g} s"
