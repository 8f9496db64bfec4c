"""What a host gave for a case: rows, dead letters, what waits and what is kept; and assertions on them, the order of a
query's micro-batches above all. Cases and ways of running them are in ``engine_cases.py``."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterable, Sequence

from local_host import LocalHost

from headrace.engine.shard import Shard
from headrace.engine.state import names_in
from headrace.plan.expressions import Value
from headrace.plan.queries import Query


def shown(answer: Iterable[Sequence[Value]]) -> list[tuple[Value, ...]]:
    """Rows that can be compared and counted: NaN equals itself."""
    return [tuple("NaN" if one != one else one for one in row) for row in answer]


def got(host: LocalHost, query: Query) -> list[tuple[Value, ...]]:
    return shown(tuple(row.values()) for row in host.rows(query.name))  # type: ignore[arg-type]


def all_rows(host: LocalHost) -> dict[str, int]:
    """How many rows each query has got."""
    return {name: len(host.rows(name)) for name in host.results}


def got_by_batch(host: LocalHost, query: Query) -> list[list[tuple[Value, ...]]]:
    return [shown(tuple(row.values()) for row in rows) for rows in host.results[query.name]]  # type: ignore[arg-type]


def same_rows(left: Iterable[Sequence[Value]], right: Iterable[Sequence[Value]]) -> bool:
    """Equal as multisets."""
    return Counter(shown(left)) == Counter(shown(right))


def result_time(query: Query, result: Sequence[Value]) -> dt.datetime:
    times = [time for time in result[: len(query.sources)] if isinstance(time, dt.datetime)]
    assert len(times) == len(query.sources), "queries of these tests select every source's ts first"
    return max(times)


def assert_batches_in_order(host: LocalHost, query: Query) -> None:
    """Every row of a later micro-batch is at or after every row of an earlier one."""
    reached: dt.datetime | None = None
    for rows in host.results[query.name]:
        times = [result_time(query, tuple(one.values())) for one in rows]  # type: ignore[arg-type]
        assert reached is None or min(times) >= reached
        reached = max([*times, *([reached] if reached else [])])


def rejected(host: LocalHost) -> Counter[tuple[str, str, int]]:
    """The dead letters as (stream, reason, id)."""
    letters = ((one["stream"], one["reason"], one["row"]) for one in host.rejected)
    rows = ((stream, reason, json.loads(row) if isinstance(row, str) else row) for stream, reason, row in letters)
    return Counter((str(stream), str(reason), row["id"]) for stream, reason, row in rows)  # type: ignore[index]


def assert_store_holds_what_is_needed(host: LocalHost) -> None:
    """The store's names are the ones that the shards' kept states refer to, and no others."""
    for shard, store in zip(host.shards, host.stores, strict=True):
        groups = json.loads(shard.manifest())["groups"].values()
        assert set(store.blobs) == {name for one in groups for name in names_in(one)}


def pending(shard: Shard) -> dict[str, list[tuple[int, tuple[int, ...] | None]]]:
    """By group, the blocks that wait, as (weight, how far they have scanned)."""
    groups = json.loads(shard.manifest())["groups"].items()
    return {
        signature: [(block["weight"], block["done"] and tuple(block["done"])) for block in one["pending"]]
        for signature, one in groups
    }


def assert_shards_wait_alike(host: LocalHost) -> None:
    """All shards have the same blocks, as far on, and the same items before their operators: so what one completes in a
    micro-batch all of them do."""
    waiting = [(pending(shard), queued(shard)) for shard in host.shards]
    assert all(one == waiting[0] for one in waiting)


def queued(shard: Shard) -> dict[str, list[tuple[float, int]]]:
    """By operator, the items that wait, as (weight, the step they are of)."""
    groups = json.loads(shard.manifest())["groups"].values()
    return {name: [(item[0], item[1]) for item in items] for one in groups for name, items in one["queues"].items()}


def backlog(host: LocalHost) -> int:
    """What waits, as a budget weighs it."""
    return sum(weight for blocks in pending(host.shards[0]).values() for weight, _ in blocks)
