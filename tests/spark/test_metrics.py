"""A run's statistics from what shards and the second stage told; no Spark runs."""

from __future__ import annotations

from typing import Any

from headrace.spark.metrics import SWITCHES, BatchFacts, RunMetrics


def told(**more: Any) -> dict[str, Any]:
    """What a shard that did nothing tells."""
    lists = ("read", "seen", "heard_from")
    dicts = ("arrived", "late", "heard", "reached", "backlog", "stage_ms", "joins", "trees", "measured", "sources")
    numbers = {"spent": 0, "over_limit": False, "behind": False, "graph": None, "held": [0, 0, 0]}
    return {**{name: [] for name in lists}, **{name: {} for name in dicts}, **numbers, **more}


def metrics(*queries: str) -> RunMetrics:
    return RunMetrics(queries, (), {}, 1, 100.0)


def test_rows_of_the_second_stage_have_rates_and_response_times_like_any_others() -> None:
    """Aggregates whose groups span shards come from there."""
    kept = metrics("joined", "counted")
    for batch, published_s in enumerate((101.0, 102.0)):
        arrived = [(int((published_s - 0.5) * 1e6), 10)]
        shard = told(arrived={"joined": arrived})
        facts = BatchFacts(batch, published_s - 1.0, published_s, ((0, shard),), combined={"counted": arrived})
        kept.add(facts)
    joined, counted = kept.snapshot(102.0, 1000.0).queries
    assert (counted.results, counted.results_per_s) == (joined.results, joined.results_per_s) == (20, 10.0)
    assert counted.response_mean_ms == joined.response_mean_ms == 500.0


def test_only_the_latest_switches_are_remembered_and_all_are_counted() -> None:
    kept = metrics()
    for number in range(SWITCHES + 30):
        kept.tell_orders((), (f"micro-batch {number}",))
        kept.tell_ordering((), ())
    stats = kept.snapshot(102.0, 1.0)
    assert (len(stats.switches), stats.switched) == (SWITCHES, SWITCHES + 30)
    assert stats.switches[-1] == f"micro-batch {SWITCHES + 29}"
    assert stats.switches_after(SWITCHES + 28) == stats.switches[-2:]
    assert stats.switches_after(stats.switched) == ()
    assert stats.switches_after(0) == stats.switches
