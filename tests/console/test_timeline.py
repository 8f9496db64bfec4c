"""The curves of the last minutes."""

from __future__ import annotations

from headrace.console.timeline import MOST_QUERIES, Timeline
from headrace.stats import QueryStats, RunStats


def look(*queries: tuple[str, float]) -> RunStats:
    return RunStats(
        batch_ms=5.0, queries=tuple(QueryStats(name, 1, rate, response_p99_ms=7.0) for name, rate in queries)
    )


def test_a_query_that_comes_or_goes_has_no_value_where_it_was_not() -> None:
    timeline = Timeline()
    timeline.add(1.0, look(("a", 10.0)))
    timeline.add(2.0, look(("a", 11.0), ("b", 5.0)))
    timeline.add(3.0, look(("b", 6.0)))
    told = timeline.history(queries=["a", "b"])
    assert told.at_s == [1.0, 2.0, 3.0]
    assert told.results_per_s == [10.0, 16.0, 6.0]
    assert [one.results_per_s for one in told.queries] == [[10.0, 11.0, None], [None, 5.0, 6.0]]
    assert told.queries[1].response_p99_ms == [None, 7.0, 7.0]
    assert told.queries[1].response_mean_ms == [None, None, None]


def test_only_so_many_samples_are_kept_and_only_later_ones_given() -> None:
    timeline = Timeline(most=3)
    for number in range(5):
        timeline.add(float(number), look(("a", float(number))))
    assert timeline.history().at_s == [2.0, 3.0, 4.0]
    assert timeline.history(after_s=3.0).at_s == [4.0]
    assert Timeline().history().queries == []


def test_of_many_queries_the_most_active_are_given() -> None:
    timeline = Timeline()
    timeline.add(1.0, look(*((f"q{number}", float(number)) for number in range(100))))
    told = [one.query for one in timeline.history().queries]
    assert told == [f"q{number}" for number in range(100 - MOST_QUERIES, 100)]
