"""Heavy keys: when a key becomes one, which side is split, and since when."""

from __future__ import annotations

import pytest

from headrace.errors import PlanError
from headrace.plan.hypercube import Dimension, Grid, pair_grid
from headrace.plan.sharing import Group, share
from headrace.plan.skew import MOST_HEAVY, HeavyKey, SeenKeys, heavy_keys, meets_older_us, seen_together
from headrace.sql import read_script

SQUARE = Grid((Dimension((0, 1), 0, 2), Dimension((1, 2), 1, 4)))


def test_a_key_is_heavy_when_more_than_half_a_coordinates_share_of_one_side_has_it() -> None:
    at_the_bound = {(0, 0): SeenKeys(8000, {7: 1000}), (0, 1): SeenKeys(8000, {7: 1000})}
    above_it = {(0, 0): SeenKeys(8000, {7: 1001}), (0, 1): SeenKeys(8000, {})}
    assert heavy_keys(at_the_bound, pair_grid(4), 5) == ()
    assert heavy_keys(above_it, pair_grid(4), 5) == (HeavyKey(0, 7, 0, 6),)


def test_the_side_with_most_tuples_of_the_key_is_split_whichever_made_it_heavy() -> None:
    seen = {(0, 0): SeenKeys(2000, {7: 1900}), (0, 1): SeenKeys(1_000_000, {7: 2000})}
    assert heavy_keys(seen, pair_grid(4), 5)[0].split_side == 1


def test_each_dimension_has_its_own_share_and_its_own_keys() -> None:
    seen = {(0, 1): SeenKeys(10_000, {7: 2000}), (1, 1): SeenKeys(10_000, {7: 2000}), (1, 2): SeenKeys(10_000, {})}
    assert heavy_keys(seen, SQUARE, 5) == (HeavyKey(1, 7, 1, 6),)


def test_keys_of_a_class_without_a_dimension_are_never_heavy() -> None:
    assert heavy_keys({(3, 0): SeenKeys(10_000, {7: 10_000})}, SQUARE, 5) == ()


def test_a_heavy_key_stays_as_it_is() -> None:
    known = (HeavyKey(0, 7, 1, 3),)
    seen = {(0, 0): SeenKeys(10_000, {7: 9000, 8: 9000})}
    assert heavy_keys(seen, pair_grid(2), 50, known) == (*known, HeavyKey(0, 8, 0, 51))
    assert heavy_keys({}, pair_grid(2), 99, known) == known


def test_a_group_has_only_so_many_heavy_keys_and_takes_the_heaviest() -> None:
    known = tuple(HeavyKey(0, number, 0, 0) for number in range(MOST_HEAVY - 1))
    seen = {(0, 0): SeenKeys(10_000, {100: 2000, 101: 3000, 102: 2500})}
    assert heavy_keys(seen, pair_grid(4), 5, known) == (*known, HeavyKey(0, 101, 0, 6))
    full = (*known, HeavyKey(0, 99, 0, 0))
    assert heavy_keys(seen, pair_grid(4), 5, full) == full


def test_a_few_tuples_say_nothing() -> None:
    seen = {(0, 0): SeenKeys(10, {7: 10})}
    assert heavy_keys(seen, pair_grid(4), 5) == ()
    assert len(heavy_keys(seen, pair_grid(4), 5, least_rows=10)) == 1


def test_what_several_tasks_saw_adds_up() -> None:
    reports = [
        {("j", 0, 0): SeenKeys(10, {7: 4}), ("j", 0, 1): SeenKeys(5, {})},
        {("j", 0, 0): SeenKeys(20, {7: 5, 8: 3}), ("k", 1, 2): SeenKeys(1, {9: 1})},
    ]
    assert seen_together(reports) == {
        "j": {(0, 0): SeenKeys(30, {7: 9, 8: 3}), (0, 1): SeenKeys(5, {})},
        "k": {(1, 2): SeenKeys(1, {9: 1})},
    }


def test_a_grid_with_a_key_that_is_heavy_twice_or_split_by_a_strange_side_cannot_be() -> None:
    with pytest.raises(PlanError):
        Grid(pair_grid(2).dimensions, (HeavyKey(0, 7, 0, 1), HeavyKey(0, 7, 1, 2)))
    with pytest.raises(PlanError):
        Grid(pair_grid(2).dimensions, (HeavyKey(0, 7, 2, 1),))


def group(window: str) -> Group:
    streams = "".join(
        f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (connector = 'files', path = '{name}', time = 'ts');"
        for name in "ab"
    )
    queries = f"CREATE QUERY q AS SELECT a.k FROM a, b WHERE a.k = b.k {window};"
    queries += "CREATE QUERY r AS SELECT a.k FROM a, b WHERE a.k = b.k WINDOW 3 SECONDS"
    script = read_script(streams + queries)
    return share(script.catalog, script.queries).groups[0]


@pytest.mark.parametrize(
    ("window", "expected"),
    [("WINDOW 1 SECOND", 3_000_000), ("WINDOW 9 SECONDS", 9_000_000), ("WINDOW 5 ROWS", None)],
)
def test_older_tuples_are_met_as_long_as_the_largest_window_reaches_them(window: str, expected: int | None) -> None:
    assert meets_older_us(group(window)) == expected
