"""What shards measure of joins: how much windows hold, whatever else is held with them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from local_host import LocalHost
from strategies import at

from headrace.engine import sampling
from headrace.plan.facts import Measured
from headrace.sql import read_script

STREAMS = "".join(
    f"CREATE STREAM {name} (x BIGINT, ts TIMESTAMP) WITH (connector = 'files', path = '{name}', time = 'ts');"
    for name in "abc"
)
QUERY = "CREATE QUERY q AS SELECT a.x FROM {} WHERE a.x = b.x AND b.x < c.x {}"


def rows(*seconds: float) -> pa.RecordBatch:
    times = pa.array([at(one) for one in seconds], pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict({"x": pa.array(range(len(seconds)), pa.int64()), "ts": times})


def measured(query: str, *micro_batches: dict[str, pa.RecordBatch]) -> Measured:
    script = read_script(STREAMS + query)
    host = LocalHost(script.catalog, script.queries)
    for arrived in micro_batches:
        host.arrive(arrived)
    (found,) = host.shards[0].measured().values()
    return found


def test_of_what_is_held_as_one_only_what_is_in_the_window_counts() -> None:
    """A block that spans 20 s is let go as a whole; it may be so uneven that most of it is in the last second."""
    query = QUERY.format("a, b, c", "WINDOW 5 SECONDS")
    first = {"a": rows(*range(21)), "b": rows(0, *([20] * 1000)), "c": rows(20)}
    found = measured(query, first, dict.fromkeys("abc", rows(20.000001)))
    assert found.held_rows == (6, 1000, 1)


@pytest.mark.parametrize("later", [3, 100])
def test_the_window_of_a_stream_that_says_nothing_more_holds_what_it_held(later: int) -> None:
    query = QUERY.format("a [RANGE 1000 SECONDS], b [RANGE 5 SECONDS], c [RANGE 5 SECONDS]", "")
    first = {"a": rows(*([0] * 50)), "b": rows(0), "c": rows(0)}
    more = [{"b": rows(second), "c": rows(second)} for second in range(1, later)]
    progress = {"a": rows(later), "b": rows(later), "c": rows(later)}
    found = measured(query, first, *more, progress)
    assert found.held_rows[0] == 51
    assert found.held_rows[1] == found.held_rows[2] <= 6


def test_a_window_of_rows_holds_no_more_than_so_many() -> None:
    query = QUERY.format("a [ROWS 3], b, c", "WINDOW 50 SECONDS")
    found = measured(query, dict.fromkeys("abc", rows(*range(10))), dict.fromkeys("abc", rows(20)))
    assert found.held_rows == (3, 10, 10)


@pytest.mark.parametrize(("looked_at", "tried"), [(100, 1), (300, 3), (20_000, 99)])
def test_where_few_tuples_are_tried_they_are_not_those_with_the_least_and_the_greatest_values(
    monkeypatch: pytest.MonkeyPatch, looked_at: int, tried: int
) -> None:
    """Each of c is greater than half of b on average; the least is greater than none."""
    monkeypatch.setattr(sampling, "LOOKED_AT", looked_at)
    arrived = dict.fromkeys("abc", rows(*(number / 100 for number in range(100))))
    found = measured(QUERY.format("a, b, c", "WINDOW 50 SECONDS"), arrived)
    assert found.tried[2, 1][0] == tried
    assert found.tried[2, 1][1] / tried == pytest.approx(49, abs=2)
